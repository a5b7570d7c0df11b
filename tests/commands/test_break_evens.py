"""Does a device pay? Exact on scripted devices, an interval on real ones."""

import math

import pytest
from scripts import report

LATENCY, BANDWIDTH, RATE = 5e-5, 5e9, 1e11  # slow enough that few calls make a sample
HOST_RATE, HOST_LATENCY = 2e9, 1e-5
BUDGET = "20s"  # of scripted time
HOST = {"rate": HOST_RATE, "latency": HOST_LATENCY}


def fake(host=HOST, **device):
    keys = {"ref": "cuda0", "latency": LATENCY, "bandwidth": BANDWIDTH, "rate": RATE} | device
    tables = {"[host]": host, "[[device]]": keys}
    return "\n".join(
        line for head, table in tables.items()
        for line in (head, *(f"{key} = {_toml(value)}" for key, value in table.items()))
    )  # fmt: skip


def _toml(value):
    return f'"{value}"' if isinstance(value, str) else value


def decided(gpumap, *arguments, sizes="small,large", cases="affine"):
    given = ("--map", "a->cuda0", "--sizes", sizes, "--cases", cases, "--budget", BUDGET)
    answer = gpumap("transfer-cost", *given, "--format", "json", *arguments)
    found = report(answer)
    return answer, {one["id"].partition("[")[0] + "," + _resident(one): one
                    for one in found["break_evens"]}  # fmt: skip


def _resident(one):
    return one["id"].rpartition("resident=")[2].rstrip("]")


def copy(nbytes):
    return LATENCY + nbytes / BANDWIDTH


def on_device(rows, *, moved):
    """Return what y = x.w + b takes: x there, the bias copied, a product on top of it, y back."""
    product = 2 * rows * 10 * 5 / RATE
    return product + 2 * copy(20 * rows) + (copy(40 * rows) if moved else 0.0)


def on_host(rows):
    return HOST_LATENCY + rows * 5 * (2 * 10 + 1) / HOST_RATE


def crossing(*, moved):
    low, high = 1.0, 1e9
    while high / low > 1.0001:
        middle = math.sqrt(low * high)
        loses = on_device(middle, moved=moved) > on_host(middle)
        low, high = (middle, high) if loses else (low, middle)
    return 40 * low


@pytest.mark.parametrize(("resident", "moved"), [("false", True), ("true", False)])
def test_it_pays_from_where_both_take_as_long(gpumap, resident, moved):
    """The truth lies in the interval, which is within a tenth; and the prediction near it."""
    answer, found = decided(gpumap.fake(fake()))
    one, truth = found[f"transfer.affine,{resident}"], crossing(moved=moved)
    from_, guess = (one["metrics"][key] for key in ("break_even", "predicted_break_even"))
    assert from_["low"] <= truth <= from_["high"] <= 1.11 * from_["low"]
    assert guess["value"] == pytest.approx(truth, rel=0.05)
    assert guess["value"] == pytest.approx(from_["value"], rel=0.2)
    ((first, last),) = one["wins"]
    assert (from_["high"] <= first <= 1.21 * from_["low"], last) == (True, None)
    assert (one["measured_to_bytes"], one["why_stopped"]) == (40 * 8**6, "largest")
    assert (answer.code, one["reason"], one["check"]["passed"]) == (0, None, True)


def test_a_budget_ends_the_search(gpumap):
    answer, found = decided(gpumap.fake(fake({"rate": 1e5})))
    one = found["transfer.affine,false"]
    assert (answer.code, one["why_stopped"]) == (0, "budget")
    assert 0 < one["measured_to_bytes"] < 40 * 8**6

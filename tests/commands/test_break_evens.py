"""Does a device pay? Exact on scripted devices, an interval on real ones."""

import math

import pytest
from scripts import report

LATENCY, BANDWIDTH, RATE = 5e-5, 5e9, 1e11  # slow enough that few calls make a sample
HOST_RATE, HOST_LATENCY = 2e9, 1e-5


def decided(gpumap, host_rate=HOST_RATE):
    """Return the exit code, and by whether the input stays on the device what was found."""
    device = f'ref = "cuda0"\nlatency = {LATENCY}\nbandwidth = {BANDWIDTH}\nrate = {RATE}'
    host = f"rate = {host_rate}\nlatency = {HOST_LATENCY}"
    given = ("--map", "a->cuda0", "--sizes", "small,large", "--cases", "affine", "--budget", "20s")
    gpumap.fake(f"[host]\n{host}\n[[device]]\n{device}\n")
    answer = gpumap("transfer-cost", *given, "--format", "json")  # 20 s of scripted time
    return answer.code, {"resident=true" in o["id"]: o for o in report(answer)["break_evens"]}


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


def test_it_pays_from_where_both_take_as_long(gpumap):
    """The truth lies in the interval, which is within a tenth; and the prediction near it."""
    code, found = decided(gpumap)
    assert (code, found.keys()) == (0, {False, True})
    for resident, one in found.items():
        truth = crossing(moved=not resident)
        from_, guess = (one["metrics"][key] for key in ("break_even", "predicted_break_even"))
        assert from_["low"] <= truth <= from_["high"] <= 1.11 * from_["low"]
        assert guess["value"] == pytest.approx(truth, rel=0.05)
        assert guess["value"] == pytest.approx(from_["value"], rel=0.2)
        ((first, last),) = one["wins"]
        assert (from_["high"] <= first <= 1.21 * from_["low"], last) == (True, None)
        assert (one["measured_to_bytes"], one["why_stopped"]) == (40 * 8**6, "largest")
        assert (one["reason"], one["check"]["passed"]) == (None, True)

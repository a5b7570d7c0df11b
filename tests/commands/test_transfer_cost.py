"""`gpumap transfer-cost`: rows and break-even sizes, exact on scripted devices."""

import math

from scripts import asked, report, script

TWO = "a->cuda0;b->cuda1"


def cost(gpumap, *arguments, sizes="4KiB,16KiB", map_=TWO):
    given = ("--sizes", sizes, "--map", map_, "--format", "json", "--no-model", *arguments)
    return gpumap("transfer-cost", *given)


def test_a_pair_has_its_route_and_an_ordered_id(gpumap):
    found = report(cost(gpumap.fake(script()), "--cases", "d2d", sizes="4KiB"))
    rows = {row["id"]: (row["names"], row["route"]) for row in asked(found)}
    keys = "backend=fake,bytes=4096,memory=device,mode={},names={},pattern=alone"
    assert rows == {
        f"transfer.d2d[{keys.format(mode, '>'.join(names))}]": (names, "peer")
        for mode in ("sync", "queued") for names in (["a", "b"], ["b", "a"])
    }  # fmt: skip


def test_the_longest_budget_is_no_overflow(gpumap):
    answer = cost(gpumap.fake(script()), "--cases", "h2d", "--budget", "999999999", sizes="4KiB")
    assert answer.code == 0
    assert report(answer)["settings"]["timeout_s"] == 1e9


LATENCY, BANDWIDTH, RATE = 5e-5, 5e9, 1e11  # slow enough that few calls make a sample
HOST_RATE, HOST_LATENCY = 2e9, 1e-5


def decided(gpumap):
    """Return the exit code, and by whether the input stays on the device what was found."""
    device = f'ref = "cuda0"\nlatency = {LATENCY}\nbandwidth = {BANDWIDTH}\nrate = {RATE}'
    host = f"rate = {HOST_RATE}\nlatency = {HOST_LATENCY}"
    given = ("--map", "a->cuda0", "--sizes", "small,large", "--cases", "affine", "--budget", "20s")
    gpumap.fake(f"[host]\n{host}\n[[device]]\n{device}\n")
    answer = gpumap("transfer-cost", *given, "--format", "json")  # 20 s of scripted time
    rows = [row for row in report(answer)["measurements"] if row["case"] == "affine"]
    assert {row["status"] for row in rows} == {"ok"}
    return answer.code, {
        resident == "true": [row for row in rows if row["params"]["resident"] == resident]
        for resident in ("true", "false")
    }


def copy(nbytes):
    return LATENCY + nbytes / BANDWIDTH


def on_device(rows, *, moved):
    """Return what y = x.w + b takes: x there, the bias copied, a product on top of it, y back."""
    product = 2 * rows * 10 * 5 / RATE
    return product + 2 * copy(20 * rows) + (copy(40 * rows) if moved else 0.0)


def crossing(*, moved):
    low, high = 1.0, 1e9
    while high / low > 1.0001:
        middle = math.sqrt(low * high)
        on_host = HOST_LATENCY + middle * 5 * (2 * 10 + 1) / HOST_RATE
        loses = on_device(middle, moved=moved) > on_host
        low, high = (middle, high) if loses else (low, middle)
    return 40 * low


def test_it_pays_from_where_both_take_as_long(gpumap):
    """The truth lies in the interval, which is within a tenth."""
    code, found = decided(gpumap)
    assert (code, found.keys()) == (0, {False, True})
    for resident, rows in found.items():
        truth, sizes = crossing(moved=not resident), [row["params"]["bytes"] for row in rows]
        (head,) = (row for row in rows if not row["swept"])
        from_ = head["metrics"]["break_even"]
        assert from_["low"] <= truth <= from_["high"] <= 1.11 * from_["low"]
        assert sizes == [40 * 2**n for n in range(19)]
        assert {row["check"]["passed"] for row in rows} == {True}


def test_a_break_even_that_failed_is_an_error_as_a_row_is(gpumap):
    """Copies are right, and the product that is to break even is wrong."""
    fake = gpumap.fake(script({"fault": "wrong-product"}))
    answer = fake("transfer-cost", "--sizes", "small", "--cases", "product", "--budget", "20s",
                  "--map", "a->cuda0", "--format", "json")  # fmt: skip
    found = report(answer)
    call, *_ = (
        row
        for row in found["measurements"]
        if row["case"] == "product" and row["params"].get("resident") == "false"
    )
    messages = [error["message"] for error in found["errors"] if error["exit"] == answer.code]
    assert (answer.code, call["reason"]["code"], call["metrics"]) == (4, "wrong-data", {})
    assert any(message.startswith(f"{call['id']}: ") for message in messages)

"""No sample is ever dropped: the report accounts for every product that the devices were given."""

import math

import pytest
from scripts import report, script

SIZE = 256  # a product takes 2**-6 s: a sample is one iteration
MAP = "a->cuda0;b->cuda1"
DEVICES = ("cuda:0", "cuda:1")
UNEVEN = {}, {"noise": 0.02, "throttle_after": 2.0, "throttle": 1.5}, {"slow_first": 0.25}


def dot(gpumap, *arguments, size=SIZE, **device):
    """Measure two uneven devices; return the answer, the report and the products that they did."""
    answer = gpumap.fake('log = "log"\n' + script(**device))(
        *("bench", "dot", "--size", str(size), "--map", MAP, "--format", "json", *arguments)
    )
    lines = (gpumap.folder / "log").read_text().splitlines()
    products = {device: [] for device in DEVICES}
    for place, command, _, seconds in map(str.split, lines):
        if command == "gemm":
            products[place].append(float(seconds))
    return answer, report(answer), products


def iterations(row):
    """Return how often the work of a row was done, before its samples and in them.

    The first iteration is verified, and the second tells how many make a sample. Before a sample of
    several there is one that does not count.
    """
    if row["stop"] is None:
        return 0
    each, early = row["iterations_per_sample"], min(row["stop"]["warmup"], 2)
    each += each > 1
    return early + (row["stop"]["warmup"] - early + len(row["samples"])) * each


def accounted(found):
    total = dict.fromkeys(DEVICES, 0)
    for row in found["measurements"]:
        places = row["devices"] * (row["work"]["products"] // len(row["devices"]))
        for place in places:
            total[place] += iterations(row)
    return total


@pytest.mark.parametrize(("arguments", "device"), [
    *((("--cases", "many", "--budget", "16s"), uneven) for uneven in UNEVEN),
    (("--cases", "many", "--budget", "4s"), {"size": 64}),  # many iterations are one sample
    (("--budget", "6s"), {"noise": 0.1}),  # the budget ends the run
])  # fmt: skip
def test_every_product_is_accounted_for(gpumap, arguments, device):
    """Pilot, warm-up and samples together are what the log has: outliers and slow ones too."""
    answer, found, products = dot(gpumap, *arguments, **device)
    assert (answer.code, found["errors"]) == (0, [])
    assert {device: len(each) for device, each in products.items()} == accounted(found)
    measured = [row for row in found["measurements"] if row["status"] == "ok"]
    assert {row["case"] for row in measured} >= {"many", "solo"}
    assert (max(row["iterations_per_sample"] for row in measured) > 10) is ("size" in device)
    cut_off = arguments[:1] == ("--budget",)
    assert not cut_off or {row["stop"]["why"] for row in measured} == {"budget"}
    for row in measured:
        assert cut_off or len(row["samples"]) >= 5
        if row["case"] == "solo" and row["iterations_per_sample"] == 1:
            left = iter(products[row["devices"][0]])
            assert all(any(math.isclose(s, t, rel_tol=1e-9) for t in left) for s in row["samples"])


def test_the_time_limit_loses_only_the_sample_that_it_cuts(gpumap):
    """A device that hangs: what was measured before is all there."""
    uneven = {"noise": 0.02, "fault": "hang", "fault_after": 120}  # commands: in a block
    answer, found, products = dot(gpumap, "--cases", "many", "--timeout", "8s", **uneven)
    missing = {device: len(each) - accounted(found)[device] for device, each in products.items()}
    assert answer.code == 124
    assert all(row["samples"] for row in found["measurements"])
    assert 1 <= sum(missing.values()) <= len(DEVICES)

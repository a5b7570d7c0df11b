"""`gpumap transfer-cost`: exact on scripted devices, byte for byte on real ones."""

import pytest
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


def test_a_shared_bus_is_told(gpumap):
    """Of rows that it slows down, with the gain; links of their own say nothing."""
    quick = {"latency": 1e-6, "bandwidth": 2.5e10, "features": []}
    for bus, cause in (({"engine": "bus 0"}, {"shared-link"}), ({}, set())):
        fake = gpumap.fake(script(**bus, **quick))
        found = asked(report(cost(fake, "--cases", "h2d,d2h", sizes="1MiB")))
        why = [row["explanation"] for row in found if row["explanation"]]
        assert {each["cause"] for each in why} == cause
        assert all(each["figures"]["gain"]["value"] == pytest.approx(1.0) for each in why)


def test_a_sweep_shows_its_largest_and_its_smallest_size(gpumap):
    """Side by side, and where its model fits; with -v there is a table for each size."""
    quick = {"latency": 5e-6, "bandwidth": 5e10, "rate": 1e12, "features": []}
    given = ("--map", "a->cuda0", "--sizes", "sweep", "--cases", "h2d", "--budget", "1s")
    fake = gpumap.fake(script(**quick))
    brief = fake("transfer-cost", *given, "--output", "r.json").out
    out = fake("report", "r.json", "-v").out
    assert "the largest and the smallest of 9 sizes" in brief
    sizes = *(64 * 8**n for n in range(5)), 1 << 20, 1 << 22, 1 << 24
    assert [size for size in sizes if f"transfer {size} bytes, fake" not in out] == []


def test_the_longest_budget_is_no_overflow(gpumap):
    answer = cost(gpumap.fake(script()), "--cases", "h2d", "--budget", "999999999", sizes="4KiB")
    assert answer.code == 0
    assert report(answer)["settings"]["timeout_s"] == 1e9

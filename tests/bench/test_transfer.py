"""Copies between the host and the devices: the cases, their figures, and every byte of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from worlds import SETTINGS, TOL, Silent, gpu, world

from gpumap.bench.runner import Runner
from gpumap.bench.sizes import Size
from gpumap.bench.transfer import Params, Transfer, needs
from gpumap.model import Plan, Reason, Work

SMALL = Size(400, "small")
EXACT = {"latency": 2.0**-10, "bandwidth": 2.0**22}


def made(*scripts, params=None):
    """Return a world and a benchmark on it."""
    here = world(*scripts)
    return here, Transfer(here.bindings, here.sessions, params or Params((SMALL,)))


def test_the_cases():
    """Each device alone, and all at once against the first; both directions, both memories."""
    _, benchmark = made(gpu(0), gpu(1))

    expected = [
        (way, memory, names, "together" if "+" in names else "alone", bool("+" in names))
        for way in ("h2d", "d2h")
        for memory in ("pageable", "pinned")
        for names in ("a", "b", "a+b")
    ]
    actual = [
        (c.name, c.params["memory"], "+".join(c.names), c.params["pattern"], c.against is not None)
        for c in benchmark.plan.cases
    ]
    assert expected == actual
    assert {"small"} == {case.params["size_name"] for case in benchmark.plan.cases}
    assert {"host-to-device", "device-to-host"} == {case.route for case in benchmark.plan.cases}
    assert len(benchmark.plan.cases) == len({case.id for case in benchmark.plan.cases})


def test_an_id_has_the_bytes_and_not_their_name():
    """`small` is another word for 400."""
    ids = [made(gpu(0), params=Params((size,)))[1].plan.cases[0].id for size in (SMALL, Size(400))]

    keys = "backend=fake,bytes=400,memory=pageable,mode=sync,names=a,pattern=alone"
    assert [f"transfer.h2d[{keys}]"] * 2 == ids


def test_the_work_is_the_bytes_that_move():
    """Of all names together, in one direction."""
    _, benchmark = made(gpu(0), gpu(1), params=Params((Size(4096),)))

    work = {(c.name, "+".join(c.names)): c.work for c in benchmark.plan.cases}
    assert Work(bytes_to_device=8192) == work["h2d", "a+b"]
    assert Work(bytes_to_host=4096) == work["d2h", "b"]


def test_memory_that_a_device_has_not_is_skipped():
    """With the reason; and then nothing is held against it."""
    _, benchmark = made(gpu(0), gpu(1, features=()))

    reason = Reason("unsupported", "no pinned host memory (fake)")
    skips = {
        ("+".join(c.names), c.params["memory"]): (c.skip, c.against is None)
        for c in benchmark.plan.cases
    }
    assert {
        ("a", "pageable"): (None, True),
        ("b", "pageable"): (None, True),
        ("a+b", "pageable"): (None, False),
        ("a", "pinned"): (None, True),
        ("b", "pinned"): (reason, True),
        ("a+b", "pinned"): (reason, True),
    } == skips


def test_the_memory_that_is_needed():
    """The largest size: once on each name's device, twice on the host."""
    here = world(gpu(0), gpu(1), gpu(0))
    params = Params((SMALL, Size(4096), Size(64)))

    memory = {"cuda:0": 8192, "cuda:1": 4096, "host": 6 * 4096}
    assert Plan((), memory, 4096) == needs(here.bindings, params)
    plan = Transfer(here.bindings, here.sessions, params).plan
    assert (memory, 4096) == (plan.memory, plan.largest_buffer)


@pytest.mark.parametrize("nbytes", [1, 64, 4096, 2**20 + 1])
def test_every_figure_is_the_scripted_one(nbytes):
    """Latency and bytes over bandwidth, alone; two at once move twice as much in that time."""
    here, benchmark = made(gpu(0, **EXACT), gpu(1, **EXACT), params=Params((Size(nbytes),)))

    seconds = 2.0**-10 + nbytes / 2.0**22
    for row in Runner(benchmark, here.clock, SETTINGS, Silent()).run():
        n = len(row.case.names)
        figures = {"time": (seconds, "s"), "bandwidth": (n * nbytes / seconds, "B/s")}
        if n > 1:
            figures["speedup"] = (2.0, "1")
        found = {k: ([v.value, v.low, v.high], v.unit) for k, v in row.metrics.items()}
        assert {k: ([pytest.approx(v, rel=TOL)] * 3, u) for k, (v, u) in figures.items()} == found
        assert ("bytes", True, n * nbytes) == (row.check.method, row.check.passed, row.check.nbytes)


def test_devices_on_one_bus_gain_nothing():
    """Two at once take twice as long."""
    bus = {**EXACT, "engine": "bus 0"}
    here, benchmark = made(gpu(0, **bus), gpu(1, **bus))

    rows = list(Runner(benchmark, here.clock, SETTINGS, Silent()).run())

    gains = [row.metrics["speedup"].value for row in rows if len(row.case.names) == 2]
    assert [pytest.approx(1.0, rel=TOL)] * 4 == gains


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
@pytest.mark.parametrize("place", [0, 1, 399, 2**20 - 1, 2**20, 2**20 + 6])
def test_a_wrong_byte_is_found_where_it_is(direction, place):
    """The first of them, in either direction, across parts that are looked at one by one."""
    nbytes = 400 if place < 400 else 2**20 + 7
    here, benchmark = made(gpu(0), params=Params((Size(nbytes),), (direction,)))
    work = benchmark.round(benchmark.plan.cases[0])
    work.poison()
    work.queue()
    (ends,) = work._ends
    destination = ends.buffer.native if direction == "h2d" else ends.landing
    destination[place:] ^= 1

    check = work.check()

    assert (False, place, nbytes) == (check.passed, check.first_bad_offset, check.nbytes)
    assert here.clock.now() > 0


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_a_copy_that_never_happened_is_wrong(direction):
    """Every byte of the destination is poisoned before."""
    _, benchmark = made(gpu(0), params=Params((SMALL,), (direction,)))
    work = benchmark.round(benchmark.plan.cases[0])

    work.poison()

    assert (work.check().passed, work.check().first_bad_offset) == (False, 0)
    work.queue()
    assert work.check().passed


def test_every_name_moves_bytes_of_its_own():
    """They are random, seeded and never all the same."""
    _, benchmark = made(gpu(0), gpu(1), params=Params((Size(4096),)))
    work = benchmark.round(benchmark.plan.cases[2])

    first, second = (ends.source for ends in work._ends)

    assert (first != second).mean() > 0.9
    assert len(set(first.tolist())) > 200


def test_the_worst_check_is_shown():
    """The device that failed, not the sum."""
    here, benchmark = made(gpu(0), gpu(1, fault="flip"), params=Params((SMALL,), ("d2h",)))

    rows = list(Runner(benchmark, here.clock, replace(SETTINGS, blocks=1), Silent()).run())

    failed = ["+".join(row.case.names) for row in rows if row.status == "failed"]
    assert failed == ["b", "a+b"] * 2
    assert {(False, 207, 400)} == {
        (r.check.passed, r.check.first_bad_offset, r.check.nbytes)
        for r in rows
        if r.status == "failed"
    }

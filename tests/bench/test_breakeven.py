"""Calls of a break-even, a wrong answer of which is seen, and the size from which on a device pays.

And what a link carries.
"""

import numpy as np
import pytest
from cases import called, planned_case
from judge import copy_rows
from tables import table
from worlds import SETTINGS, copies_on, gpu, rows_on, world

from gpumap.backends.fake.script import FakeHost
from gpumap.bench.breakeven import calls_of, with_break_evens
from gpumap.bench.calls import DeviceCall, Placed
from gpumap.bench.link_limit import LANES, limit
from gpumap.bench.selectors import selector
from gpumap.bench.sweeps import sweeps
from gpumap.bench.workloads import WORKLOADS, Problem
from gpumap.engine.fit import Point, break_even
from gpumap.errors import WrongDataError
from gpumap.model import Binding, Estimate, Reason, Work, replace

TABLE = table(__file__)
SMALL = replace(WORKLOADS["affine"], sweep=(1, 8, 64, 512, 4096))
HOST = FakeHost(rate=2.0**26, latency=2.0**-14)


def measured(*scripts, settings=SETTINGS):
    here = world(*scripts, host=HOST)
    benchmark = copies_on(here, cases=("affine",), sweep=(1 << 24,))
    benchmark.plan = replace(benchmark.plan, groups=(calls_of(here.bindings, [SMALL]),))
    return rows_on(here, benchmark, settings)


def sizes(rows):
    return [row.case.params["bytes"] for row in rows if row.case.name == "affine"]


def test_a_limit_selects_the_smallest_size():
    """And no other: those of a size sweep are selected by their pattern alone."""
    chosen = selector("transfer.affine[resident=false].break_even")
    rows = [row for row in measured(gpu(0)) if chosen.matches(row)]
    assert sizes(rows) == [40]


def test_every_size_is_measured_in_six_blocks():
    longer = replace(SETTINGS, blocks=40)
    rows = measured(gpu(0, latency=2.0**-12, rate=2.0**30), settings=longer)
    assert sizes(rows) == [40 * n for n in SMALL.sweep for _ in range(2)]
    assert {(row.status, len(row.samples.seconds)) for row in rows} == {("ok", 6)}


def test_without_time_or_room_the_large_sizes_are_left_out():
    """Those that were measured tell what they can; a run says where it stopped, and is well."""
    late = replace(SETTINGS, budget=0.5)
    rows = measured(gpu(0, latency=2.0**-12, rate=2.0**22), settings=late)
    moved, resident = sweeps(rows)
    assert moved.stopped == resident.stopped == "budget"
    assert 40 <= moved.measured_to < 40 * 4096
    moved, _ = sweeps(rows := measured(gpu(0, memory=1 << 12)))
    assert (moved.stopped, moved.failed) == ("no-host-memory", [])
    assert "failed" not in {row.status for row in rows}


def test_a_call_that_failed_leaves_no_crossing():
    """It would be a metric of the smallest size."""
    (bound,) = world(gpu(0)).bindings
    *others, last = called(bound, (100, 1.0, 2.0), (10_000, 2.0, 1.0))
    (one,) = (row for row in with_break_evens([*others, last], 0.95) if "break_even" in row.metrics)
    assert (one.case.id, one.metrics["break_even"].value) == (others[1].case.id, pytest.approx(1e3))
    lost = replace(last, status="failed", reason=Reason("device-lost", "x"), samples=None)
    assert not any("break_even" in r.metrics for r in with_break_evens([*others, lost], 0.95))


@pytest.mark.parametrize(("ratios", "found"), TABLE["crossings"])
def test_it_pays_where_the_line_between_the_ratios_crosses_one(ratios, found):
    """Its interval ends where the line's own does; without a clear winner it has no end.

    The line of the value is over the logarithm of the size, of the low end over its inverse, of
    the high end over the size.
    """
    every = (Estimate(*TABLE["ratios"][ratio], "1") for ratio in ratios)
    figure = break_even([Point(10**n, each) for n, each in enumerate(every, 1)])
    assert found == pytest.approx((figure.value, figure.low, figure.high), rel=0.001)


EVERY = pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)


@EVERY
@pytest.mark.parametrize("rows", [1, 3, 257, 300])
def test_the_host_is_right(workload, rows):
    """NumPy's own answer is within what rounding allows; one wrong element is not, anywhere."""
    problem = Problem(workload, rows, seed=1)
    out = np.empty(problem.shape, np.float32)
    problem.compute(out)
    check = problem.check(out)
    assert check.passed
    assert 0.0 <= check.max_error <= check.bound
    assert (check.method, check.bound) == ("float64 reference", 1.0)
    right = out[-1, -1]
    for wrong in (0.5, -1.0, np.nan, np.inf):
        out[-1, -1] = right + wrong
        assert not problem.check(out).passed


@EVERY
@pytest.mark.parametrize("upload", [True, False])
def test_a_wrong_byte_of_what_is_moved_with_a_call_is_found(workload, upload):
    """The lowest of an element, which y hides in its rounding: x is compared where it is moved."""
    placed = Placed(Problem(workload, 64, 1), world(gpu(0)).sessions["a"])
    call = DeviceCall(placed, upload=upload)
    call.poison()
    call.queue()
    assert call.check().passed
    placed.x.native.reshape(-1).view(np.uint8)[0] ^= 1
    if not upload:
        assert call.check().passed
        return
    with pytest.raises(WrongDataError, match="arrived wrong"):
        call.check()


FIVE = {"max_link_generation": 5, "max_link_width": 16}
ONE = copy_rows.gpu(0, facts=FIVE)


def test_the_links_of_several_devices_add_up():
    """From the B/s of a lane that everybody knows; one link of two names counts once."""
    known = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
    assert pytest.approx(known, rel=1e-3) == LANES
    told, two = limit([ONE]), copy_rows.gpu(1, facts=FIVE)
    assert (told.metric, told.unit, told.origin) == ("bandwidth", "B/s", "reported")
    assert told.value == pytest.approx(63.0e9, rel=1e-2)
    assert limit([ONE, two]).value == pytest.approx(126.0e9, rel=1e-2)
    assert limit([ONE, copy_rows.gpu(2, pci=ONE.pci, facts=FIVE)]).value == told.value
    assert limit([ONE], directions=2).value == 2 * told.value  # both ways carry twice


@pytest.mark.parametrize("facts", TABLE["unknown_links"])
def test_without_both_there_is_none(facts):
    """Nor of a generation that is not known."""
    other = copy_rows.gpu(1, facts=facts)
    assert limit([other]) is None
    assert limit([ONE, other]) is None


def test_copies_both_ways_have_the_link_twice():
    here = world(gpu(0))
    benchmark = copies_on(here, 400)
    linked, one_way = (Binding("a", ONE),), limit([ONE]).value
    found = {
        case.name: benchmark.limit(replace(case, bindings=linked))
        for case in (*benchmark.plan.cases, planned_case("transfer", "d2d", {}, linked, Work()))
    }
    assert {name: top and top.value for name, top in found.items()} == {
        "h2d": one_way, "d2h": one_way, "bidir": 2 * one_way, "d2d": None,
    }  # fmt: skip

"""Calls of a break-even, size by size, and the size from which on a device pays."""

import math

import pytest
from cases import called
from worlds import SETTINGS, again, gpu, rows_on, world

from gpumap.backends.fake.script import FakeHost
from gpumap.bench.breakeven import calls_of, with_break_evens
from gpumap.bench.selectors import selector
from gpumap.bench.sweeps import sweeps
from gpumap.bench.transfer import Params, Transfer
from gpumap.bench.workloads import WORKLOADS
from gpumap.engine.fit import Point, break_even
from gpumap.model import Estimate, Reason, replace

SMALL = replace(WORKLOADS["affine"], sweep=(1, 8, 64, 512, 4096))
HOST = FakeHost(rate=2.0**26, latency=2.0**-14)


def measured(*scripts, settings=SETTINGS):
    here = world(*scripts, host=HOST)
    benchmark = Transfer(replace(here, again=again(here)), Params((), ("affine",)))
    benchmark.plan = replace(benchmark.plan, groups=(calls_of(here.bindings, [SMALL]),))
    return rows_on(here, benchmark, settings)


def sizes(rows, of="a"):
    found = ((row.case.name, row.case.names) == ("affine", (of,)) for row in rows)
    return [row.case.params["bytes"] for row, mine in zip(rows, found, strict=True) if mine]


def test_each_size_has_the_host_and_all_calls_of_each_device():
    """They are kept or left out together, and take no more than six blocks."""
    bindings = world(gpu(0), gpu(1)).bindings
    group = calls_of(bindings, [SMALL])
    found = [(case.name, case.names, case.params.get("resident")) for case in group.cases[:5]]
    assert found == [("host", ("a",), None), *(
        ("affine", (of,), resident) for of in "ab" for resident in ("false", "true")
    )]  # fmt: skip
    assert {case.against for case in group.cases[1:5]} == {group.cases[0].id}
    assert (group.blocks, group.order[:2]) == (6, ((0, 1, 2, 3, 4), (5, 6, 7, 8, 9)))
    both = calls_of(bindings, WORKLOADS.values())
    done = [case.work.operations for case in both.cases]
    assert done == sorted(done)


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


def test_without_time_the_large_sizes_are_left_out():
    """The sizes that were measured tell what they can; the run says where it stopped."""
    late = replace(SETTINGS, budget=0.5)
    rows = measured(gpu(0, latency=2.0**-12, rate=2.0**22), settings=late)
    moved, resident = sweeps(rows)
    assert moved.stopped == resident.stopped == "budget"
    assert 40 <= moved.measured_to < 40 * 4096


def test_a_device_without_room_is_well():
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


LOSES, WINS, EVEN = (0.5, 0.4, 0.6), (2.0, 1.9, 2.1), (1.1, 0.9, 1.3)


def points(*ratios):
    return [Point(10 ** (n + 1), Estimate(*ratio, "1")) for n, ratio in enumerate(ratios)]


@pytest.mark.parametrize(("ratios", "found"), [
    ([LOSES, WINS], (math.sqrt(1000), 16.138, 61.486)),
    ([LOSES, EVEN, WINS], (75.704, 27.981, 218.9)), ([EVEN, WINS], (10, 0, 21.89)),
    ([WINS, LOSES], (10, 0, 10)), ([LOSES, EVEN], (75.704, 27.981, math.inf)),
    ([LOSES, LOSES], (math.inf,) * 3),
])  # fmt: skip
def test_it_pays_where_the_line_between_the_ratios_crosses_one(ratios, found):
    """Its interval ends where the line's own does; without a clear winner it has no end.

    The line of the value is over the logarithm of the size, of the low end over its inverse, of
    the high end over the size.
    """
    figure = break_even(points(*ratios))
    assert found == pytest.approx((figure.value, figure.low, figure.high), rel=0.001)

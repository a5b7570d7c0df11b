"""Calls of a break-even as cases of the runner: which sizes follow, and what follows from them."""

import math

import pytest
from cases import called
from worlds import SETTINGS, again, gpu, rows_on, world

from gpumap.backends.fake.script import FakeHost
from gpumap.bench.breakeven import Calls, with_break_evens
from gpumap.bench.selectors import selector
from gpumap.bench.sweeps import sweeps
from gpumap.bench.workloads import WORKLOADS
from gpumap.engine.base import OpenDevices
from gpumap.machine.blas import Cores
from gpumap.model import Reason, replace

SMALL = replace(WORKLOADS["affine"], sweep=(1, 8, 64, 512, 4096))
HOST = FakeHost(rate=2.0**26, latency=2.0**-14)


def calls_on(here, workload=SMALL, sizes=()):
    devices = OpenDevices(here.bindings, here.sessions, here.clock, again(here), 1)
    return Calls(devices, Cores(1), (workload,), sizes)


def measured(*scripts, settings=SETTINGS, **how):
    here = world(*scripts, host=HOST)
    return rows_on(here, calls_on(here, **how), settings)


def sizes(rows, name="affine", of="a"):
    return [r.case.params["bytes"] for r in rows if (r.case.name, r.case.names) == (name, (of,))]


def test_each_size_has_the_host_and_all_calls_of_each_device_in_one_group():
    here = world(gpu(0), gpu(1), host=HOST)
    (group,) = calls_on(here).plan.groups
    found = [(case.name, case.names, case.params.get("resident")) for case in group.cases]
    assert found == [("host", ("a",), None), *(
        (name, (of,), resident) for of in "ab"
        for name, resident in (("affine", "false"), ("affine", "true"))
    )]  # fmt: skip
    assert {case.against for case in group.cases if case.name == "affine"} == {group.cases[0].id}
    assert (group.blocks, group.order) == (6, ((0, 1, 2, 3, 4),))


def test_a_limit_selects_the_smallest_size():
    """And no other: those of a size sweep are selected by their pattern alone."""
    chosen = selector("transfer.affine[resident=false].break_even")
    rows = [row for row in measured(gpu(0)) if chosen.matches(row)]
    assert sizes(rows) == [40]


def test_a_crossing_comes_first_then_larger_sizes_then_the_set_up():
    """It is between two sizes of the sweep; the set-up is of the largest win."""
    longer = replace(SETTINGS, blocks=40)
    rows = measured(gpu(0, latency=2.0**-12, rate=2.0**30), settings=longer)
    swept = [40 * n for n in SMALL.sweep]
    found = list(dict.fromkeys(sizes(rows)))
    assert [size for size in found if size in swept] == swept
    crossing = [size for size in found if size not in swept]
    assert 0 < len(crossing) <= 4
    assert found.index(max(crossing)) < found.index(swept[-1])
    assert max(crossing) < swept[3]
    assert sizes(rows, "setup") == [swept[-1]] * 2
    assert {row.status for row in rows} == {"ok"}
    assert {len(row.samples.seconds) for row in rows} == {6}


def test_a_requested_size_is_taken_apart_beside_the_host():
    rows = measured(gpu(0), sizes=(400, 20))
    assert sizes(rows, "parts") == [400]
    (row,) = (row for row in rows if row.case.name == "parts")
    assert set(row.samples.phases) == {"upload", "compute", "download"}
    whole = sum(seconds for (seconds, *_) in row.samples.phases.values())
    assert whole == pytest.approx(row.samples.seconds[0], rel=0.01)
    moved, _ = sweeps(rows)
    assert 400 in moved.hosts


def test_a_device_that_is_wrong_climbs_no_further_and_the_other_does():
    rows = measured(gpu(0, fault="wrong-product"), gpu(1))
    assert sizes(rows) == [40] * 2
    assert {40, 40 * 4096} <= {*sizes(rows, of="b")}
    done = with_break_evens(rows, 0.95)
    evens = {row.case.names for row in done if "break_even" in row.metrics}
    assert evens == {("b",)}


def test_without_time_no_size_follows():
    """The sizes that were measured tell what they can; the run says where it stopped."""
    late = replace(SETTINGS, budget=0.5)
    rows = measured(gpu(0, latency=2.0**-12, rate=2.0**22), settings=late)
    moved, resident = sweeps(rows)
    assert moved.stopped == resident.stopped == "budget"
    assert 40 <= moved.measured_to < 40 * 4096
    assert not any(row.case.name == "setup" for row in rows)


def test_a_device_without_room_is_well():
    here = world(gpu(0, memory=1 << 12), host=HOST)
    rows = rows_on(here, calls_on(here), SETTINGS)
    moved, _ = sweeps(rows)
    assert (moved.stopped, moved.failed) == ("no-host-memory", [])
    assert "failed" not in {row.status for row in rows}


@pytest.fixture
def bound():
    return world(gpu(0)).bindings[0]


def test_the_crossing_is_a_metric_of_the_smallest_size(bound):
    rows = called(bound, (100, 1.0, 2.0), (10_000, 2.0, 1.0))
    done = with_break_evens(rows, 0.95)
    assert ["break_even" in row.metrics for row in done] == [False, True, False, False]
    assert done[1].metrics["break_even"].value == pytest.approx(1000.0)


def test_a_call_that_failed_leaves_no_crossing(bound):
    *others, last = called(bound, (100, 1.0, 2.0), (10_000, 2.0, 1.0))
    lost = replace(last, status="failed", reason=Reason("device-lost", "x"), samples=None)
    assert not any("break_even" in r.metrics for r in with_break_evens([*others, lost], 0.95))


def test_a_set_up_is_paid_by_what_the_calls_of_its_size_save(bound):
    """Less what a later call takes; of several, the interval is from the least to the most."""
    rows = called(bound, (100, 1.0, 2.0), (10_000, 3.0, 1.0))
    keys = {**rows[-1].case.params, "workload": "affine"}
    first = replace(rows[-1].case, name="setup", params=keys)
    samples = replace(rows[-1].samples, seconds=(5.0, 5.0, 9.0, 5.0, 7.0, 5.0))
    done = with_break_evens([*rows, replace(rows[-1], case=first, samples=samples)], 0.95)
    figure = done[1].metrics["calls_to_amortise_setup"]
    assert (figure.value, figure.low, figure.high) == (2.0, 2.0, 4.0)
    without = with_break_evens(rows, 0.95)[1].metrics
    assert "calls_to_amortise_setup" not in without
    never = with_break_evens(called(bound, (100, 1.0, 2.0)), 0.95)[1].metrics
    assert never["calls_to_amortise_setup"].value == math.inf

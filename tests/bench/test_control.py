"""The fixed product beside all that is measured, always one; and one product as two cases."""

from itertools import count

import pytest
from worlds import SETTINGS, controlled_on, counting, dot_on, gpu, hooking, rows_on, world

from gpumap.backends.fake import FakeSession
from gpumap.bench.dot import Params, plan
from gpumap.bench.selftest import RUNS, SHORTEST, false_alarms, selftest_plan
from gpumap.engine import stopping
from gpumap.engine.control import KEY, SIZE, Controlled, controlled
from gpumap.engine.verify import host_bytes
from gpumap.errors import OutOfMemory, Unsupported, WrongDataError
from gpumap.model import Group, replace

MATRICES = 3 * 4 * SIZE**2  # bytes on a device
PARAMS = Params((64, 128), cases=("solo",))
ALONE = replace(PARAMS, sizes=(64,))
FEW = replace(SETTINGS, blocks=2)


def measured(*scripts, params=PARAMS, kind=FakeSession, settings=FEW):
    here = world(*scripts, kind=kind)
    benchmark = controlled_on(here, dot_on(here, params))
    rows = rows_on(here, benchmark, settings)
    own, controls = ([r for r in rows if (r.case.bench == KEY) is is_] for is_ in (False, True))
    return benchmark, own, controls


def test_every_group_has_a_control_for_each_device():
    """Its memory is that of the plan, and what is the largest buffer of both is the plan's."""
    bindings = world(gpu(0), gpu(1), gpu(0)).bindings
    bare = plan(bindings, PARAMS, bindings[0])
    found = controlled(bare, bindings)
    assert [len(group.cases) for group in found.groups] == [3 + 2, 3 + 2]
    more = {place: found.memory[place] - bare.memory[place] for place in found.memory}
    assert {"cuda:0": MATRICES, "cuda:1": MATRICES, "host": host_bytes(SIZE)} == more
    assert (bare.largest_buffer, found.largest_buffer) == (4 * 128**2, 4 * SIZE**2)
    assert controlled(replace(bare, largest_buffer=1 << 40), bindings).largest_buffer == 1 << 40
    params = Params((512, 64), cases=("many",))
    kind, highest = counting()
    benchmark, _, _ = measured(gpu(0), gpu(1), params=params, kind=kind)
    left = benchmark.plan.memory.items() - highest.items()
    assert [place for place, _ in left] == ["host"]


def test_devices_that_work_at_once_have_a_control_at_once():
    """Each device once; it stands before `many` where there is time for it, never before `one`."""
    _, own, controls = measured(gpu(0), gpu(1), gpu(0), params=replace(ALONE, cases=("many",)))
    assert {row.case.names for row in controls} == {("a",), ("b",), ("a", "b")}
    together = next(row for row in controls if len(row.case.names) > 1)
    assert together.case.work.operations == 2 * controls[0].case.work.operations
    group, kept = Group(tuple(r.case for r in (*own, *controls))), {r.case.id for r in controls}
    many, one = (next(r.case.id for r in own if r.case.name == name) for name in ("many", "one"))
    kept |= {many, one}
    with_, without = (stopping.controls(group, kept - left) for left in (set(), {together.case.id}))
    alone = controls[0].case.id
    assert ((with_[many], with_[one]), (without[many], without[one])) == (
        (together.case.id, alone), (alone, alone),
    )  # fmt: skip


@pytest.mark.parametrize(("size", "each"), [(1024, True), (64, False)])
def test_a_control_stands_just_before_each_sample(size, each):
    """Of a quarter of its time at most: before what is quick there is one a block."""
    here, queued = world(gpu(0), gpu(1)), []
    noting = hooking(Controlled, "queue", lambda _, case: queued.append(case))
    params = Params((size,), cases=("one", "solo"))
    benchmark = controlled_on(here, dot_on(here, params), noting)
    rows = rows_on(here, benchmark, FEW)
    for row in rows:
        controls = 0 if row.case.bench == KEY else 2
        assert (row.samples.blocks, len(row.samples.control)) == ((0, 1), controls)
    taken = [case for case in queued[-12:] if case.bench == KEY]
    assert each == (len(taken) == 6)  # two blocks of three cases
    for before, case in zip(queued[-12::2], queued[-11::2], strict=True) if each else ():
        assert (before.bench, before.names) == (KEY, case.names)


@pytest.mark.parametrize("params", [PARAMS, replace(PARAMS, seed=7), replace(PARAMS, sizes=(16,))])
def test_the_numbers_are_the_same_in_every_run(params):
    first, other = (measured(gpu(0), params=each)[2][0] for each in (PARAMS, params))
    assert first.check == other.check


def refusing(error, command, after):
    """Return a kind of session; a command on a control's matrices fails once, at its n-th call."""
    calls = count(1)

    def refused(session, *given, **others):
        shape = given[0] if command == "empty" else given[2].shape
        if shape == (SIZE, SIZE) and next(calls) == after:
            raise error
        return getattr(FakeSession, command)(session, *given, **others)

    return type("Refusing", (FakeSession,), {command: refused})


@pytest.mark.parametrize(("error", "status", "code"), [
    (OutOfMemory("no room", "free some"), "skipped", "out-of-memory"),
    (WrongDataError("an operand arrived wrong"), "failed", "wrong-data"),
    (Unsupported("no more"), "skipped", "unsupported"),
])  # fmt: skip
@pytest.mark.parametrize(("command", "after"), [
    ("empty", 1), *(("gemm", after) for after in (2, 5, 9, 14, 19))
])  # fmt: skip
def test_a_control_that_fails_once_is_no_failure_and_not_taken_again(
    error, status, code, command, after
):
    settings = replace(SETTINGS, blocks=20)
    kind = refusing(error, command, after)
    _, rows, controls = measured(gpu(0), kind=kind, params=ALONE, settings=settings)
    assert {"ok"} == {row.status for row in rows}
    assert [(row.status, row.reason.code) for row in controls] == [(status, code)]


def test_a_control_that_was_preempted_counts_by_its_own_thread():
    """What another process took from it is none of the device's speed."""

    class Halved(FakeSession):
        def worked(self, start, stop):
            return (stop.event - start.event) / 2

    _, (row,), (control,) = measured(gpu(0), kind=Halved, params=ALONE)
    halves = [second / 2 for second in control.samples.seconds]
    assert list(row.samples.control) == pytest.approx(halves, rel=0.05)


@pytest.mark.parametrize(("ratios", "runs", "expected"), [
    ([1.0] * RUNS * SHORTEST, RUNS, (0, RUNS, 0)), ([1.0] * (3 * SHORTEST + 1), 3, (0, 3, 0)),
    ([1.0] * (SHORTEST - 1), 0, (0, 0, 0)), ([1.1] * 2 * SHORTEST, 2, (2, 0, 0)),
    ([1 / 1.1] * 2 * SHORTEST, 2, (2, 0, 0)),  # A would be the slower one
    ([0.9, 1.1] * SHORTEST, 2, (0, 0, 2)), ([float("nan")] * 2 * SHORTEST, 2, (0, 0, 2)),
])  # fmt: skip
def test_runs_of_a_against_a_are_judged(ratios, runs, expected):
    """At 5 %: false, passed, inconclusive."""
    (group,) = selftest_plan(world(gpu(0)).bindings).groups
    found = false_alarms(group.cases[1], ratios, 0.05)
    assert (found.runs, (found.false, found.passed, found.inconclusive)) == (runs, expected)

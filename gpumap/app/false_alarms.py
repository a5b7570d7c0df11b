"""The self-test of gpumap on a machine: round trips of data, and false alarms."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from gpumap.app.benchmark import BenchmarkRun, Task, recorded_alone
from gpumap.errors import Diagnostic, Exit
from gpumap.escape import printable
from gpumap.model import SelfTest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpumap.app.benchmark import Opened, Turn
    from gpumap.app.draft import Draft
    from gpumap.app.recording import Recording
    from gpumap.app.request import Request
    from gpumap.bench.base import Settings
    from gpumap.bench.selftest import SelfTest as SelfTestBench
    from gpumap.model import Alarms, Binding, Measurement
    from gpumap.resolve import Inventory

_FOR_OTHERS = 0.05  # of the budget: opening a device of each other backend
_THRESHOLD = 0.05  # the change that noise must neither imitate nor hide: the default of `compare`
_QUIET = "stop other programs on this machine, or compare with a larger --threshold"
_FEWEST = 6  # runs
_LONGER = "raise --budget: 2m"


def test_machine(request: Request) -> None:
    """Test every device of the map, and one device of each other usable backend."""
    settings = replace(request.settings, whole=True)
    request = replace(request, settings=settings)
    with recorded_alone("selftest", request) as record:
        draft = record.draft
        for turn in BenchmarkRun(record, request).resolve(opens=not settings.dry_run):
            if not settings.dry_run:
                draft.selftest = draft.selftest or SelfTest()
                _prove(record, turn)
            _measure(record, request, turn)
        if draft.selftest is not None and (request.every or request.backend is None):
            _prove_others(record, turn.inventory)


def _prove(record: Recording, turn: Turn) -> None:
    """Move bytes to each device of the map and back."""
    from gpumap.app.checking import prove_map

    draft = record.draft
    for trip in prove_map(record, turn.resolution, turn.inventory):
        assert draft.selftest is not None
        trips = (*draft.selftest.round_trips, trip)
        draft.selftest = replace(draft.selftest, round_trips=trips)


def _prove_others(record: Recording, inventory: Inventory) -> None:
    """Do so on one device of each other usable backend; last, to leave the machine quiet."""
    from gpumap.app.checking import prove_others
    from gpumap.backends import REGISTRY

    draft = record.draft
    assert draft.selftest is not None
    done = {trip.device.backend for trip in draft.selftest.round_trips} | {"fake"}
    names = [name for name in REGISTRY if name not in done]
    for trip in prove_others(record, inventory, names):
        trips = (*draft.selftest.round_trips, trip)
        draft.selftest = replace(draft.selftest, round_trips=trips)
    draft.probes = inventory.probes


def _measure(record: Recording, request: Request, turn: Turn) -> None:
    """Measure A against A on every device of the map, and judge it."""
    from gpumap.bench.selftest import RUNS, SHORTEST, SIZES, plan

    draft, settings, bindings = record.draft, request.settings, turn.resolution.bindings
    if draft.selftest is not None and any(t.reason for t in draft.selftest.round_trips):
        return  # what a device multiplies that cannot keep bytes is worth nothing
    if any(b.device.simulated for b in bindings):
        # a scripted clock may never come to the end of a budget
        settings = replace(settings, blocks=RUNS * SHORTEST // 2)
    settings = replace(settings, budget=settings.budget * (1 - _FOR_OTHERS))
    first = plan(bindings, {b.name: SIZES[0] for b in bindings})
    task = Task(first, _maker(bindings, settings), control=False)
    BenchmarkRun(record, replace(request, settings=settings)).run(turn, task)
    if draft.selftest is not None:
        _judge(draft, draft.measured[-1].rows)


def _maker(bindings: tuple[Binding, ...], settings: Settings) -> Callable[[Opened], SelfTestBench]:
    """Return what makes the benchmark once its devices are open: their speed decides the size."""

    def make(devices: Opened) -> SelfTestBench:
        from gpumap.bench.dot import Params, pilot
        from gpumap.bench.operands import one_of_each
        from gpumap.bench.pilot import patience
        from gpumap.bench.selftest import PILOT, SelfTest, fitting

        chosen = one_of_each(bindings)
        params = Params((PILOT,), seed=settings.seed)
        most = patience(settings.budget)
        times = pilot(chosen, devices.sessions, devices.clock, params, most)
        share = settings.budget / len(chosen)
        # a device that cannot be piloted: its own rows will tell
        sizes = {b.name: fitting(times.get(b.name, 0.0), share) for b in chosen}
        return SelfTest(bindings, devices.sessions, sizes, settings.seed)

    return make


def _judge(draft: Draft, rows: Iterable[Measurement]) -> None:
    """Judge B against A on each device, run by run."""
    from gpumap.bench.figures import by_block
    from gpumap.bench.selftest import false_alarms

    assert draft.selftest is not None
    done = {row.case.id: row for row in rows if row.status == "ok"}
    for row in done.values():
        base = done.get(row.case.against or "")
        if base is None or base.samples is None or row.samples is None:
            continue
        a, b = by_block(base.samples), by_block(row.samples)
        ratios = [b[block] / a[block] if a[block] > 0.0 else math.nan for block in b if block in a]
        found = false_alarms(row.case, ratios, _THRESHOLD)
        draft.selftest = replace(draft.selftest, alarms=(*draft.selftest.alarms, found))
        _refuse(draft, found)


def _refuse(draft: Draft, found: Alarms) -> None:
    """Refuse where noise alone raises an alarm, or where it could hide a change."""
    name = printable(found.name)
    if found.false:
        said = f"{name}: noise was taken for a change of 5% in {found.false} of {found.runs} runs"
        draft.refuse(Diagnostic("false-alarm", said, hint=_QUIET, name=found.name))
    elif found.runs < _FEWEST:
        said = f"{name}: {found.runs} runs are too few to count false alarms"
        diagnostic = Diagnostic("inconclusive", said, hint=_LONGER, name=found.name)
        draft.refuse(diagnostic, Exit.INCONCLUSIVE)
    elif found.inconclusive:
        said = f"{name}: noise hides a change of 5% in {found.inconclusive} of {found.runs} runs"
        diagnostic = Diagnostic("inconclusive", said, hint=_QUIET, name=found.name)
        draft.refuse(diagnostic, Exit.INCONCLUSIVE)

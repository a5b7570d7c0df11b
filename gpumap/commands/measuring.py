"""From a map to measured rows: what every benchmark command does in the same way."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from gpumap.backends.base import SystemClock
from gpumap.bench.anchor import Anchored, anchored
from gpumap.bench.memory import check_memory
from gpumap.bench.runner import WORDS, Runner
from gpumap.commands.idle import disturbing, require_idle
from gpumap.commands.opening import opened, unopened
from gpumap.commands.progress import Progress
from gpumap.commands.recording import Recording
from gpumap.errors import Diagnostic, Exit, QuestionError
from gpumap.judge.gate import decided, gated
from gpumap.machine.fingerprint import blas, fingerprint
from gpumap.machine.gpu_state import Gpus
from gpumap.machine.others import Look
from gpumap.machine.state import Neighbours, Watch
from gpumap.machine.throttle import Throttle
from gpumap.model import Around, Measurement, Reason
from gpumap.resolve import Inventory, default_map, resolve, resolve_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from gpumap.backends.base import Clock
    from gpumap.bench.base import Benchmark, Settings
    from gpumap.commands.opening import Opened
    from gpumap.commands.output import Output
    from gpumap.commands.program import Program
    from gpumap.judge.gate import Gate
    from gpumap.model import BreakEven, Device, Plan, Report, Resolution, Why

    Maker = Callable[[Opened], Benchmark]
    Opening = Callable[[Resolution, Inventory], AbstractContextManager[Opened]]
    # opened devices, what was measured on them, and the moment to come to an end -> decisions
    Decider = Callable[[Opened, Sequence[Measurement], float], Iterator[BreakEven]]

_ASSUMED = Diagnostic(
    "assumed",
    "no device was opened: they are planned as their drivers list them",
    severity="note",
)
ALL = "all"  # --backend all: every usable one, side by side
_FIXES = {
    "wrong-data": "do not trust this device: check its memory, cable and driver",
    "over-ceiling": "no device can do that: distrust the clock of this machine, or report it",
    "device-lost": "look at the system log (dmesg); `gpumap check` tells when it is back",
    "diverged": "lower --rate, or look at what the network computes",
    "out-of-memory": "choose a smaller size, or free the device's memory",
}
_EXITS = dict.fromkeys(("wrong-data", "over-ceiling", "diverged"), Exit.WRONG_DATA)
_DECIDING = 0.4  # of the time for measuring, where there is something to decide
_FAIR_SHARE = 0.4  # of the budget, for measuring, however long the drivers took,
_LATE = 0.7  # seconds at most by which that may exceed the budget
_SCRIPTED = 80  # blocks at most, on a clock that may never come to the end of a budget
_LOOK = 0.125  # seconds of doing nothing, to see what others do


class Measured:
    """The rows of one benchmark, as they come; stopped at any moment, every case has its row."""

    def __init__(self, runner: Runner | None, plan: Plan) -> None:
        self.rows: list[Measurement] = []
        self.decided: list[BreakEven] = []
        self._runner = runner
        self._plan = plan

    def take(self) -> None:
        """Measure everything."""
        for row in (
            self._runner.run() if self._runner else ()
        ):  # one by one: it may be stopped between two
            self.rows.append(row)

    def stop(self, why: Why | Literal["dry run"]) -> None:
        """Add what there is of the current group, and a skipped row for what never began."""
        done = {row.case.id for row in self.rows}
        partial = self._runner.unfinished(why) if self._runner and why != "dry run" else []
        self.rows += [row for row in partial if row.case.id not in done]
        done = {row.case.id for row in self.rows}
        skipped = Reason("stopped", WORDS.get(why, why))
        self.rows += [
            Measurement(case, "skipped", case.skip or skipped)
            for case in self._plan.cases
            if case.id not in done
        ]

    def failures(self) -> Iterator[tuple[Diagnostic, Exit]]:
        """Yield what each failure means for the exit code."""
        failed = [(row.case.id, row.reason) for row in self.rows if row.status == "failed"]
        for id_, reason in (*failed, *((found.id, found.reason) for found in self.decided)):
            if reason is not None:
                message, hint = f"{id_}: {reason.text}", _FIXES.get(reason.code)
                diagnostic = Diagnostic(reason.code, message, hint=hint)
                yield diagnostic, _EXITS.get(reason.code, Exit.ABSENT)


@contextmanager
def recorded(
    kind: str, program: Program, output: Output, settings: Settings, gate: Gate
) -> Iterator[Recording]:
    """Record a run that measures: its settings, its time limit, and what is asked of it."""
    shown = {
        "seed": settings.seed,
        "precision": settings.precision,
        "confidence": settings.confidence,
        "budget_s": settings.budget,
        "timeout_s": settings.timeout,
        "require_idle": settings.require_idle,
        **gate.settings,
    }
    with Recording(kind, program, output, shown, time_limit=settings.timeout) as record:
        record.judge = partial(_judged, gate=gate, program=program)
        record.against = gate.against
        record.decided = partial(decided, gate)
        yield record


@contextmanager
def recorded_alone(
    kind: str, program: Program, output: Output, settings: Settings, gate: Gate
) -> Iterator[Recording]:
    """Record a run that measures the devices of this process.

    Raises:
        QuestionError: a launcher has started several, which would disturb each other.
    """
    from gpumap.commands.seating import alone

    doubts = alone(program, " ".join(program.argv[:2]) if kind == "bench" else kind)
    with recorded(kind, program, output, settings, gate) as record:
        record.remarks += doubts
        yield record


def _judged(report: Report, gate: Gate, program: Program) -> Report:
    """Return a finished report with its verdicts: on its limits, then against a base."""
    found = gated(report, gate)
    if gate.against is None:
        return found
    from gpumap.commands.comparing import held

    return held(found, gate.against, gate, program)


def find(
    record: Recording,
    program: Program,
    option: str | None,
    map_file: Path | None,
    backend: str | None,
    *,
    opens: bool = True,
) -> Iterator[tuple[Resolution, Inventory]]:
    """Yield the map, or a default one, resolved: once, or once for each backend with ``all``.

    `opens`: this process will open all of its devices.
    """
    inventory = Inventory(program.host(), None if backend == ALL else backend)
    inventory.expect("*" if opens else "")
    try:
        context_map = record.read_map(None, option, map_file, lambda: default_map(inventory))
        inventory.expect(str(entry.ref) for entry in context_map.entries if opens)
        every = backend == ALL
        found = resolve_all(context_map, inventory) if every else [resolve(context_map, inventory)]
    finally:
        record.probes = inventory.probes
    for number, resolution in enumerate(found):
        record.resolution = resolution
        record.turns_left = len(found) - number
        yield resolution, inventory


def measure(
    record: Recording,
    program: Program,
    inventory: Inventory,
    resolution: Resolution,
    first: Plan,
    make: Maker,
    settings: Settings,
    output: Output,
    *,
    anchor: bool = True,
    decide: Decider | None = None,
    opening: Opening = opened,
    ours: Sequence[int] = (),
) -> None:
    """Open the devices of a resolution and measure a benchmark on them, beside the anchor.

    Memory is compared with `first`, the plan before anything is opened, and with the real one.
    What stands on the rows and needs the devices too, `decide` finds out at the end. `ours` are
    processes of this machine that take part: what they use is not someone else's.
    """
    if anchor:
        first, make = anchored(first, resolution.bindings), _beside_anchor(make, resolution)
    if settings.dry_run:
        _only_plan(record, inventory, resolution, make)
        return
    check_memory(first, resolution.bindings, inventory.host.topology)
    _comparable(record, identified=False)
    record.measured.append(Measured(None, first))  # until it is known what really runs
    hardware = _hardware(resolution)
    if settings.require_idle and hardware and len(record.measured) == 1:  # later it is our own work
        require_idle(hardware)
    look = Look(ours) if hardware and len(record.measured) == 1 else None
    with ExitStack() as stack:
        devices = stack.enter_context(opening(resolution, inventory))
        gpus = stack.enter_context(Gpus(hardware))
        benchmark, clock = make(devices), devices.clock
        _something(benchmark.plan)
        check_memory(benchmark.plan, resolution.bindings, inventory.host.topology)
        _identify(record, inventory, resolution)
        _comparable(record, identified=True)
        watch = _look_around(record, clock, gpus, look)
        _warn(record, resolution, inventory)
        progress = stack.enter_context(Progress(program, output, settings.precision))
        budget = _left(record, settings, clock)
        end = clock.now() + budget
        left = _settings(record, settings, clock, budget, decide=bool(decide))
        others = record.before.others if record.before else None
        neighbours = Neighbours(ours=ours, before=others)
        around = neighbours.read if isinstance(clock, SystemClock) else Around
        throttled = Throttle(hardware, gpus).read
        runner = Runner(benchmark, clock, left, progress, around, throttled)
        measured = record.measured[-1] = Measured(runner, benchmark.plan)
        try:
            measured.take()
            for found in decide(devices, measured.rows, end) if decide else ():
                measured.decided.append(found)
        finally:
            record.after = watch.read()


def _beside_anchor(make: Maker, resolution: Resolution) -> Maker:
    """Return what makes the same benchmark with the anchor beside it."""

    def make_both(devices: Opened) -> Benchmark:
        return Anchored(make(devices), resolution.bindings, devices.sessions)

    return make_both


def _only_plan(
    record: Recording, inventory: Inventory, resolution: Resolution, make: Maker
) -> None:
    """Record the plan alone, of devices that stay closed; what is taken for granted is said."""
    benchmark = make(unopened(resolution, inventory))
    _something(benchmark.plan)
    check_memory(benchmark.plan, resolution.bindings, inventory.host.topology)
    record.measured.append(Measured(None, benchmark.plan))
    record.plans.append(benchmark.plan)
    if _ASSUMED not in record.remarks:  # with --backend all it is said once
        record.remarks.append(_ASSUMED)


def _something(plan: Plan) -> None:
    """Refuse a plan of nothing: an empty report is no pass."""
    if not plan.cases:
        fix = "map a second name, or ask for other cases"
        raise QuestionError("nothing of what was asked for can be measured with this map", fix)


def _settings(
    record: Recording, settings: Settings, clock: Clock, budget: float, *, decide: bool
) -> Settings:
    """Return the settings of this turn: its budget, and blocks as its end by a scripted clock."""
    endless = not isinstance(clock, SystemClock) and not settings.whole
    return replace(
        settings,
        budget=budget * (1.0 - _DECIDING if decide else 1.0),
        blocks=_SCRIPTED if endless else settings.blocks,
        decided=record.decided,
    )


def _left(record: Recording, settings: Settings, clock: Clock) -> float:
    """Return this turn's part of what is left of the budget, the time of the whole command."""
    real = isinstance(clock, SystemClock)
    left = settings.budget - record.elapsed if real else settings.budget
    return max(left, min(settings.budget * _FAIR_SHARE, left + _LATE), 0.0) / record.turns_left


def _identify(record: Recording, inventory: Inventory, resolution: Resolution) -> None:
    """Put the machine's fingerprint into the record: of what is used, whatever else was asked."""
    devices = {b.device.id: b.device for b in resolution.bindings}
    used = {device.backend for device in devices.values()}
    libraries = {p.name: p.version for p in inventory.probes if p.name in used and p.version}
    record.fingerprint = fingerprint(
        inventory.host.topology, tuple(devices.values()), {**libraries, **blas()}
    )


def _comparable(record: Recording, *, identified: bool) -> None:
    """Refuse a base that this run could not be held against, before it takes its time.

    With `--backend all` the fingerprint of one turn says nothing of the report's.
    """
    if record.against is None:
        return
    from gpumap.commands.comparing import refuse_early

    only = identified and record.turns_left == 1 and len(record.measured) == 1
    fingerprint = record.fingerprint if only else None
    refuse_early(record.against, fingerprint, simulated=record.simulated)


def _hardware(resolution: Resolution) -> tuple[Device, ...]:
    """Return the devices that are no script: the system can be asked about these."""
    found = {b.device.id: b.device for b in resolution.bindings if b.device.backend != "fake"}
    return tuple(found.values())


def _look_around(record: Recording, clock: Clock, gpus: Gpus, look: Look | None) -> Watch:
    """See how busy the machine is before this run makes it busy; `look` began before it opened."""
    from gpumap.model.trees import changed

    watch = Watch(gpus=gpus)
    clock.sleep(_LOOK)
    record.before = changed(watch.read(), others=look.read() if look else None)
    return watch


def _warn(record: Recording, resolution: Resolution, inventory: Inventory) -> None:
    """Say before anything is measured that other processes use the cores that this run needs."""
    seen = record.before.others if record.before else None
    if seen is None:
        return
    warning = disturbing(seen, resolution.bindings, len(inventory.host.topology.cpus))
    if warning is not None:
        record.warn(warning)

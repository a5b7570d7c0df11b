"""From a map to measured rows: what every benchmark command does in the same way."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap.app.given_map import Where, read_map
from gpumap.app.output import Output, Progress
from gpumap.app.program import Program, check_single_process
from gpumap.app.recording import Draft, Measuring, Recording
from gpumap.engine.base import OpenDevices
from gpumap.engine.control import Controlled, controlled
from gpumap.engine.idle import disturbing, require_idle
from gpumap.engine.needs import check_any, check_memory
from gpumap.engine.verify import lighten, one_of_each
from gpumap.errors import QuestionError
from gpumap.inventory import Inventory
from gpumap.judge.exit_status import Gate, by_headline, decided, gated, judged
from gpumap.machine.nvml import Gpus
from gpumap.machine.state import Look, Neighbours, Watch
from gpumap.model import Around, Device, Measured, Plan, Report, Resolution, replace
from gpumap.resolve import default_map, resolve, resolve_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpumap.backends.base import Clock, Feature, Session
    from gpumap.engine.base import Benchmark, Recipe, Settings

    Opening = Callable[[Resolution, Inventory], AbstractContextManager[OpenDevices]]


_FAIR_SHARE = 0.4  # of the budget, for measuring, however long the drivers took,
_LATE = 0.7  # seconds at most by which that may exceed the budget
_SCRIPTED = 80  # blocks at most, on a clock that may never come to the end of a budget
_LOOK = 0.125  # seconds of doing nothing, to see what others do


# --- the devices of a map: open, or as a dry run plans for them


class Unopened(NamedTuple):
    """A device that a dry run plans for: it is known what it should have."""

    device: Device
    features: frozenset[Feature]
    holds: int = sys.maxsize


def unopened(resolution: Resolution, inventory: Inventory) -> OpenDevices:
    """Return the devices of a map as they are to be planned for; no driver is asked for it."""

    def session(name: str) -> Any:
        device = devices[name]
        return Unopened(device, inventory.backend(device.backend).features(device))

    devices = {binding.name: binding.device for binding in resolution.bindings}
    clock = inventory.backend(resolution.bindings[0].device.backend).clock()
    sessions = {name: session(name) for name in devices}
    cpus = len(inventory.host.topology.cpus)
    return OpenDevices(resolution.bindings, sessions, clock, session, cpus)


@contextmanager
def opened(resolution: Resolution, inventory: Inventory) -> Iterator[OpenDevices]:
    """Open the devices of a map; all sessions are closed at the end.

    Raises:
        QuestionError: some devices are fake and some are real; their times cannot be compared.
    """
    backends = {binding.device.backend for binding in resolution.bindings}
    if "fake" in backends and len(backends) > 1:
        raise QuestionError("fake and real devices cannot be measured together", "--backend fake")
    clock = inventory.backend(min(backends)).clock()
    devices = {binding.name: binding.device for binding in resolution.bindings}
    inventory.attempt(list(devices.values()))
    with ExitStack() as stack:

        def session(name: str) -> Session:
            made = stack.enter_context(inventory.open(devices[name], clock))
            lighten(made)
            return made

        sessions = {name: session(name) for name in devices}
        cpus = len(inventory.host.topology.cpus)
        yield OpenDevices(resolution.bindings, sessions, clock, session, cpus)


# --- the run


class Turn(NamedTuple):
    """A map, resolved: one, or one of several backends with ``all``.

    `ours` are other processes of this machine that take part: what they use is not someone else's.
    """

    resolution: Resolution
    inventory: Inventory
    left: int = 1  # turns that share the rest of the budget, this one with them
    opening: Opening = opened
    ours: Sequence[int] = ()

    @property
    def hardware(self) -> tuple[Device, ...]:
        """Return the devices that are no script: the system can be asked about these."""
        real = (b for b in self.resolution.bindings if b.device.backend != "fake")
        return tuple(binding.device for binding in one_of_each(real))


class BenchmarkRun:
    """Measures a benchmark on each turn of a map: resolve, plan or check, open, measure, finish."""

    def __init__(self, record: Recording, request: Request) -> None:
        self._record, self._draft = record, record.draft
        self._request, self._settings = request, request.settings

    def resolve(self, *, opens: bool) -> Iterator[Turn]:
        """Yield the map, or a default one, resolved: once, or once for each backend with ``all``.

        `opens`: this process will open all of its devices.
        """
        request, draft = self._request, self._draft
        inventory = Inventory(
            request.program.host(), None if request.every else request.where.backend
        )
        inventory.expect("*" if opens else "")
        try:
            default = partial(default_map, inventory, hurry=not request.several)
            found = read_map(draft, request.where, default)
            inventory.expect(str(entry.ref) for entry in found.entries if opens)
            if request.every:
                every = resolve_all(found, inventory, request.several)
            else:
                every = [resolve(found, inventory)]
        finally:
            draft.backends = inventory.libraries
        for number, resolution in enumerate(every):
            draft.resolution = resolution
            yield Turn(resolution, inventory, len(every) - number)

    def run(self, turn: Turn, recipe: Recipe) -> None:
        """Measure a benchmark on a turn's devices; a dry run plans it."""
        known = recipe.plan(turn.resolution.bindings)
        check_any(known, recipe.instead)
        if self._settings.dry_run:  # of devices that stay closed, as their drivers list them
            devices = unopened(turn.resolution, turn.inventory)
            plan = self._benchmark(turn, recipe, devices).plan
            self._draft.measured.append(Measuring(None, plan))
            self._draft.plans.append(plan)
            return
        look = self.check(turn, self._measured(known, turn, recipe))
        self._record.progress.doing = "opening devices"
        with turn.opening(turn.resolution, turn.inventory) as devices, Gpus(turn.hardware) as gpus:
            benchmark = self._benchmark(turn, recipe, devices)
            watch = self._prepare(turn, look, devices.clock)
            try:
                self.measure(turn, benchmark, devices.clock, gpus)
            finally:
                self._draft.after = watch.read()  # how busy the machine was meanwhile

    def check(self, turn: Turn, plan: Plan) -> Look | None:
        """Refuse what shows before a device is open; return what looks at others from now on."""
        check_memory(plan, turn.resolution.bindings, turn.inventory.host.topology)
        self._draft.measured.append(Measuring(None, plan))  # until it is known what really runs
        if not turn.hardware or len(self._draft.measured) > 1:  # later it is our own work
            return None
        if self._settings.require_idle:
            require_idle(turn.hardware)
        return Look(turn.ours)

    def _prepare(self, turn: Turn, look: Look | None, clock: Clock) -> Watch:
        """See which machine it is, and what it is busy with; return what goes on looking."""
        self._identify(turn)
        self._refuse_other_machine(turn)
        watch = Watch()
        clock.sleep(_LOOK)
        others = look.read() if look else None
        self._draft.before = replace(watch.read(), others=others)
        bindings, cores = turn.resolution.bindings, len(turn.inventory.host.topology.cpus)
        if others and (warning := disturbing(others, bindings, cores)):
            self._record.warn(warning)
        return watch

    def measure(self, turn: Turn, benchmark: Benchmark, clock: Clock, gpus: Gpus) -> None:
        """Measure the rows within what is left of the budget."""
        from gpumap.bench.rows import with_causes
        from gpumap.engine.runner import Runner

        budget = self._budget(turn, clock)
        others = self._draft.before.others if self._draft.before else None
        neighbours = Neighbours(ours=turn.ours, before=others)
        around = Around if clock.scripted else neighbours.read
        settings, explain = self._settings_of(budget, clock), partial(with_causes, benchmark.key)
        runner = Runner(benchmark, clock, settings, around, gpus.throttled, explain)
        measured = self._draft.measured[-1] = Measuring(runner, benchmark.plan)
        self._record.progress.doing = "measuring"
        for row in runner.run():  # it may be stopped between two
            measured.rows.append(row)

    def _measured(self, plan: Plan, turn: Turn, recipe: Recipe) -> Plan:
        """Return what is measured of a plan: what the gate judges, with the controls beside it.

        There are two plans. One has what is known before a device is open, so that too little
        memory is refused at once, and rows where none opens. The other is the benchmark's: a look
        at open devices chooses the reference, and they tell what they have.
        """
        if recipe.only_judged:
            plan = judged(plan, self._request.gate)
        if not recipe.control:
            return plan
        return controlled(plan, turn.resolution.bindings)

    def _benchmark(self, turn: Turn, recipe: Recipe, devices: OpenDevices) -> Benchmark:
        """Return the benchmark on a turn's devices, with the plan that is measured."""
        benchmark = recipe.benchmark(devices)
        self._draft.remarks += benchmark.notes
        if not self._request.every:  # another backend may have what this one lacks
            check_any(benchmark.plan, recipe.instead)
        benchmark.plan = self._measured(benchmark.plan, turn, recipe)
        if not benchmark.plan.cases:  # an empty report is no pass
            fix = "map a second name, or ask for other cases"
            raise QuestionError("nothing of what was requested can be measured with this map", fix)
        check_memory(benchmark.plan, turn.resolution.bindings, turn.inventory.host.topology)
        has_controls = any(case.is_control for case in benchmark.plan.cases)
        return Controlled(benchmark, devices.sessions) if has_controls else benchmark

    def _budget(self, turn: Turn, clock: Clock) -> float:
        """Return this turn's part of what is left of the budget, the time of the whole command."""
        whole = self._settings.budget
        left = whole if clock.scripted else whole - self._draft.elapsed
        return max(left, min(whole * _FAIR_SHARE, left + _LATE), 0.0) / turn.left

    def _settings_of(self, budget: float, clock: Clock) -> Settings:
        """Return a turn's settings: its budget, and blocks as its end by a scripted clock."""
        endless = clock.scripted and not self._settings.whole
        gate = self._request.gate
        cases: Sequence[str] = self._draft.settings.get("cases") or ()
        return replace(
            self._settings,
            budget=budget,
            blocks=_SCRIPTED if endless else self._settings.blocks,
            decided=partial(decided, gate, cases),
            staged=not clock.scripted and not cases and by_headline(gate),
        )

    def _identify(self, turn: Turn) -> None:
        """Put the fingerprint of what is used into the report, whatever else is there."""
        from gpumap.machine.fingerprint import blas, fingerprint

        devices = tuple(binding.device for binding in one_of_each(turn.resolution.bindings))
        used = {device.backend for device in devices}
        probes = turn.inventory.probes
        libraries = {p.name: p.version for p in probes if p.name in used and p.version}
        topology = turn.inventory.host.topology
        self._draft.fingerprint = fingerprint(topology, devices, {**libraries, **blas()})

    def _refuse_other_machine(self, turn: Turn) -> None:
        """Refuse before anything is measured what could not be compared with the base."""
        against = self._request.gate.against
        if against is None:
            return
        from gpumap.app.comparison import refuse_broken, refuse_unlike
        from gpumap.judge.comparability import machine_of

        refuse_broken(against.base, "base")  # of a skipped one only now
        if self._request.every:  # of several backends the report is the whole
            return
        apart = machine_of(against.base, self._draft.fingerprint, turn.resolution.bindings)
        refuse_unlike(against.base, simulated=self._draft.simulated, apart=apart)


@contextmanager
def recorded(
    kind: str, request: Request, cases: Sequence[str] | None = None, *, alone: bool = True
) -> Iterator[Recording]:
    """Record a run that measures: its settings, its time limit, and what its figures must be.

    Args:
        kind: the command.
        request: what is measured.
        cases: those that were chosen; None: all are measured.
        alone: whether it measures the devices of this process.

    Raises:
        QuestionError: a launcher has started several, which would disturb each other.
    """
    program, settings, gate = request.program, request.settings, request.gate
    shown = {
        "seed": settings.seed,
        "precision": settings.precision,
        "confidence": settings.confidence,
        "budget_s": settings.budget,
        "timeout_s": settings.timeout,
        "require_idle": settings.require_idle,
        **({} if cases is None else {"cases": [*cases]}),
        **gate.settings,
    }
    draft = Draft(kind, Measured(), program, shown)
    if alone:
        called = " ".join(program.argv[:2]) if kind == "bench" else kind
        draft.remarks += check_single_process(program, called)
    with Recording(draft, request.output, settings.timeout) as record:
        record.judge = partial(_judged, request=request)
        with Progress(program, request.output, settings) as record.progress:
            yield record


def run_single_process(record: Recording, request: Request, recipe: Recipe) -> None:
    """Measure a benchmark in each turn, on the devices of this process."""
    benchmark = BenchmarkRun(record, request)
    for turn in benchmark.resolve(opens=not request.settings.dry_run):
        benchmark.run(turn, recipe)


def measure(key: str, request: Request, options: Mapping[str, Any]) -> None:
    """Measure a benchmark of the registry, by the options of its command, in this process."""
    from gpumap.bench.registry import find

    spec, against = find(key), request.gate.against
    assert spec.recipe is not None  # it has a command that calls this
    recipe = spec.recipe(request.settings, **options)
    recipe.base = against.base if against else None
    with recorded(spec.command[0], request, recipe.cases) as record:
        record.draft.complete, record.draft.fit = recipe.complete, recipe.fits
        run_single_process(record, request, recipe)


def _judged(report: Report, request: Request) -> Report:
    """Return a finished report with its verdicts: on its limits, then against a base."""
    found = gated(report, request.gate)
    if request.gate.against is None:
        return found
    from gpumap.app.comparison import with_comparison

    return with_comparison(found, request.gate.against, request.gate)


# --- the request


ALL = "all"  # --backend all: every usable one, side by side


class Request(NamedTuple):
    """What to measure on, how long and how well, what is required, where the report goes."""

    program: Program
    where: Where
    settings: Settings
    gate: Gate
    output: Output

    @property
    def every(self) -> bool:
        """Return whether several backends are measured, side by side."""
        return self.where.backend == ALL or bool(self.several)

    @property
    def several(self) -> tuple[str, ...]:
        """Return the backends that are requested by name, where they are more than one."""
        names = tuple((self.where.backend or "").split(","))
        return names if len(names) > 1 else ()

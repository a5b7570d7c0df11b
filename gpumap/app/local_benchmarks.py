"""The benchmarks of one process, as a command asks for them: dot, chain, transfer-cost."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.app.benchmark import BenchmarkRun, Task, recorded_single_process, run_single_process
from gpumap.errors import Diagnostic, Exit, QuestionError, Unsupported
from gpumap.model import SelfTest, replace
from gpumap.text import chosen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from gpumap.app.benchmark import Opened, Request, Turn
    from gpumap.app.recording import Draft, Recording
    from gpumap.bench.dot import Dot
    from gpumap.bench.selftest import SelfTest as SelfTestBench
    from gpumap.bench.transfer import Params as TransferParams
    from gpumap.bench.transfer import Transfer
    from gpumap.engine.base import Settings
    from gpumap.model import Alarms, Binding, BreakEven, Measurement
    from gpumap.resolve import Inventory

    D = TypeVar("D", bound=str)
    Pilot = Callable[..., Mapping[str, float]]  # a benchmark's own: seconds by name
    Choose = Callable[[Sequence[Binding], Opened, Any, Pilot], Binding]


# --- products


def measure_products(
    request: Request, *, size: str, dtype: str, cases: str | None, reference: str | None
) -> None:
    """Measure matrix products on the devices of this process."""
    from gpumap.bench.dot import CASES, DTYPES, SPEC, Dot, Params, pilot, plan
    from gpumap.bench.names import check_names, named
    from gpumap.engine.needs import check_features
    from gpumap.engine.sizes import squares
    from gpumap.judge.exit_status import Gate, judged

    element, wanted = _chosen(dtype, DTYPES, cases, CASES)
    gate = request.gate if cases is None else Gate()  # without: exactly what is requested
    params = Params(squares(size), element, wanted, request.settings.seed)

    def task(turn: Turn) -> Task:
        bindings = turn.resolution.bindings
        check_names(SPEC, bindings, cases and params.cases)
        given = named(bindings, reference)

        def make(devices: Opened) -> Dot:
            check_features(bindings, devices.sessions, params.dtype)
            first = choose(bindings, devices, params, pilot)
            found = Dot(bindings, devices.sessions, devices.clock, params, first)
            found.plan = judged(found.plan, gate)
            return found

        choose = _chooser("dot", given, request)
        return Task(judged(plan(bindings, params, given or bindings[0]), gate), make)

    with recorded_single_process("bench", request, cases and params.cases) as record:
        run_single_process(record, request, task)


# --- chains of operations


def measure_chains(
    request: Request, *, rows: str, dtype: str, cases: str | None, reference: str | None
) -> None:
    """Measure chains of elementwise operations on the devices of this process."""
    from gpumap.bench import chain
    from gpumap.bench.breakeven import World
    from gpumap.bench.names import named
    from gpumap.engine.needs import check_features
    from gpumap.engine.sizes import squares
    from gpumap.machine.blas import Cores

    element, wanted = _chosen(dtype, chain.DTYPES, cases, chain.CASES)
    params = chain.Params(squares(rows, "--rows"), element, wanted, request.settings.seed)

    def task(turn: Turn) -> Task:
        bindings = turn.resolution.bindings
        chain.check_request(bindings, params, cases and params.cases)
        given = named(bindings, reference)

        def make(devices: Opened) -> chain.Chain:
            check_features(bindings, devices.sessions, params.dtype)
            without = chain.lacking(bindings, devices.sessions)
            able = [b for b in bindings if b.name not in without]
            first = choose(able or bindings, devices, params, chain.pilot)
            if able and first.name in without:
                raise Unsupported(without[first.name].text, "name another device by --reference")
            setting = chain.Setting(bindings, first, without)
            world = World(devices.sessions, devices.clock, devices.again, cores, request.settings)
            return chain.Chain(setting, world, params)

        cores = Cores(len(turn.inventory.host.topology.cpus))
        choose = _chooser("chain", given, request)
        return Task(chain.plan(chain.Setting(bindings, given or bindings[0], {}), params), make)

    with recorded_single_process("bench", request, cases and params.cases) as record:
        run_single_process(record, request, task)


def _chosen(
    dtype: str, dtypes: tuple[D, ...], cases: str | None, every: tuple[str, ...]
) -> tuple[D, tuple[str, ...]]:
    """Return the element type and the cases that are requested."""
    (element,) = chosen(dtype, dtypes, "element type", "--dtype", most=1)
    return element, every if cases is None else chosen(cases, every, "case", "--cases")


def _chooser(bench: str, given: Binding | None, request: Request) -> Choose:
    """Return what chooses the reference: the given one, or one by a look at the devices."""

    def choose(bindings: Sequence[Binding], devices: Opened, params: Any, pilot: Pilot) -> Binding:
        from gpumap.bench.names import reference_of
        from gpumap.engine.sampling import patience, reference

        def look(some: Sequence[Binding]) -> Mapping[str, float]:
            most = patience(request.settings.budget)
            return pilot(some, devices.sessions, devices.clock, params, most)

        if given is not None:
            return given
        before = request.gate.against.base if request.gate.against else None
        base = reference_of(before, bench, bindings[0].device.backend) if before else None
        return reference(bindings, look, base)

    return choose


# --- copies


def measure_copies(request: Request, *, sizes: str, cases: str | None, model: bool) -> None:
    """Measure copies between the host and the devices of this process; fit, and decide on them."""
    from gpumap.bench.cost_models import fits
    from gpumap.bench.transfer import needs

    settings = request.settings
    params = _transfer_params(sizes, cases, settings.seed, model=model)

    def task(turn: Turn) -> Task:
        bindings = turn.resolution.bindings

        def make(devices: Opened) -> Transfer:
            from gpumap.bench.transfer import Transfer

            return Transfer(bindings, devices.sessions, params, devices.again)

        decide = _decider(turn, params, request) if params.workloads else None
        return Task(needs(bindings, params), make, decide=decide)

    chosen_cases = cases and params.cases
    with recorded_single_process("transfer-cost", request, chosen_cases) as record:
        record.draft.fit = partial(fits, confidence=settings.confidence, seed=settings.seed)
        run_single_process(record, request, task)
        if settings.dry_run and params.workloads:
            record.draft.remarks.append(_afterwards(params.workloads))


def _decider(turn: Turn, params: TransferParams, request: Request) -> Any:
    """Return what decides from which size a device breaks even."""

    def decide(devices: Opened, rows: Sequence[Measurement], end: float) -> Iterator[BreakEven]:
        from gpumap.bench.breakeven import World, break_evens
        from gpumap.machine.blas import Cores

        cores = Cores(len(turn.inventory.host.topology.cpus))
        world = World(devices.sessions, devices.clock, devices.again, cores, request.settings)
        wanted = [size.nbytes for size in params.sizes]
        bindings = turn.resolution.bindings
        return break_evens(world, bindings, params.workloads, wanted, rows, end)

    return decide


def _afterwards(workloads: Sequence[str]) -> Diagnostic:
    """Return what a plan cannot list: which sizes are measured depends on what is found."""
    message = f"{' and '.join(workloads)} are no rows: break-evens are looked for afterwards"
    return Diagnostic("break-even", message, severity="note")


def _transfer_params(sizes: str, cases: str | None, seed: int, *, model: bool) -> TransferParams:
    from gpumap.bench.calls import WORKLOADS
    from gpumap.bench.transfer import CASES, Params
    from gpumap.engine.sizes import transfers

    wanted = CASES if cases is None else chosen(cases, CASES, "case", "--cases")
    sweep = sizes.strip() == "sweep"
    if sweep and not model:
        raise QuestionError("--sizes sweep shows the model's size sweep", "omit --no-model")
    if not model and all(case in WORKLOADS for case in wanted):
        fix = "omit --no-model, or ask for copies too"
        raise QuestionError("break-evens need the model's size sweep", fix)
    params = Params(() if sweep else transfers(sizes), wanted, seed)
    return params if model else replace(params, sweep=())


# --- the self-test

_FOR_OTHERS = 0.05  # of the budget: opening a device of each other backend
_THRESHOLD = 0.05  # the change that noise must neither imitate nor hide: the default of `compare`
_QUIET = "stop other programs on this machine, or compare with a larger --threshold"
_FEWEST = 6  # runs
_LONGER = "raise --budget: 2m"


def test_machine(request: Request) -> None:
    """Test every device of the map, and one device of each other usable backend."""
    settings = replace(request.settings, whole=True)
    request = request._replace(settings=settings)
    with recorded_single_process("selftest", request) as record:
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
    done = {trip.backend for trip in draft.selftest.round_trips} | {"fake"}
    names = [name for name in REGISTRY if name not in done]
    for trip in prove_others(record, inventory, names):
        trips = (*draft.selftest.round_trips, trip)
        draft.selftest = replace(draft.selftest, round_trips=trips)
    draft.backends = inventory.libraries


def _measure(record: Recording, request: Request, turn: Turn) -> None:
    """Measure A against A on every device of the map, and judge it."""
    from gpumap.bench.selftest import RUNS, SHORTEST, SIZES, selftest_plan

    draft, settings, bindings = record.draft, request.settings, turn.resolution.bindings
    if draft.selftest is not None and any(t.reason for t in draft.selftest.round_trips):
        return  # what a device multiplies that cannot keep bytes is worth nothing
    if any(b.device.simulated for b in bindings):
        # a scripted clock may never come to the end of a budget
        settings = replace(settings, blocks=RUNS * SHORTEST // 2)
    settings = replace(settings, budget=settings.budget * (1 - _FOR_OTHERS))
    first = selftest_plan(bindings, {b.name: SIZES[0] for b in bindings})
    task = Task(first, _maker(bindings, settings), control=False)
    BenchmarkRun(record, request._replace(settings=settings)).run(turn, task)
    if draft.selftest is not None:
        _judge(draft, draft.measured[-1].rows)


def _maker(bindings: tuple[Binding, ...], settings: Settings) -> Callable[[Opened], SelfTestBench]:
    """Return what makes the benchmark once its devices are open: their speed decides the size."""

    def make(devices: Opened) -> SelfTestBench:
        from gpumap.bench.dot import Params, pilot
        from gpumap.bench.selftest import PILOT, SelfTest, fitting
        from gpumap.engine.sampling import patience
        from gpumap.engine.verify import one_of_each

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
    from gpumap.bench.selftest import false_alarms
    from gpumap.engine.estimates import by_block

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
    name = found.name
    if found.false:
        message = f"{name}: noise looked like a change of 5% in {found.false} of {found.runs} runs"
        draft.refuse(Diagnostic("false-alarm", message, hint=_QUIET, name=name))
    elif found.runs < _FEWEST or found.inconclusive:
        message = f"noise hides a change of 5% in {found.inconclusive} of {found.runs} runs"
        hint = _QUIET
        if found.runs < _FEWEST:
            message, hint = f"{found.runs} runs are too few to count false alarms", _LONGER
        diagnostic = Diagnostic("inconclusive", f"{name}: {message}", hint=hint, name=name)
        draft.refuse(diagnostic, Exit.INCONCLUSIVE)

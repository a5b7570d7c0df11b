"""The benchmarks of one process, as a command asks for them: dot, chain, transfer-cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.app.benchmark import Task, recorded_alone, run_alone
from gpumap.app.request import chosen
from gpumap.errors import Diagnostic, QuestionError, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from gpumap.app.benchmark import Opened, Turn
    from gpumap.app.request import Request
    from gpumap.bench.chain import Chain
    from gpumap.bench.chain import Params as ChainParams
    from gpumap.bench.dot import Dot
    from gpumap.bench.dot import Params as DotParams
    from gpumap.bench.transfer import Params as TransferParams
    from gpumap.bench.transfer import Transfer
    from gpumap.machine.blas import Cores
    from gpumap.model import Binding, BreakEven, Measurement

    D = TypeVar("D", bound=str)
    Pilot = Callable[..., Mapping[str, float]]  # a benchmark's own: seconds by name
    Choose = Callable[[Sequence[Binding], Opened, Any, Pilot], Binding]


# --- products


@dataclass(frozen=True, slots=True)
class Products:
    """`bench dot`, as its options have it."""

    size: str
    dtype: str
    cases: str | None
    reference: str | None


def measure_products(request: Request, asked: Products) -> None:
    """Measure matrix products on the devices of this process."""
    from gpumap.bench.dot import CASES, DTYPES, SPEC, Params, plan
    from gpumap.bench.sizes import check_names, named, squares

    element, wanted = _chosen(asked.dtype, DTYPES, asked.cases, CASES)
    params = Params(squares(asked.size), element, wanted, request.settings.seed)

    def task(turn: Turn) -> Task:
        bindings = turn.resolution.bindings
        check_names(SPEC, bindings, asked.cases and params.cases)
        given = named(bindings, asked.reference)
        first = plan(bindings, params, given or bindings[0])
        return Task(first, _dot_maker(bindings, params, _chooser("dot", given, request)))

    with recorded_alone("bench", request) as record:
        run_alone(record, request, task)


def _dot_maker(
    bindings: tuple[Binding, ...], params: DotParams, choose: Choose
) -> Callable[[Opened], Dot]:
    """Return what makes the benchmark once its devices are open."""

    def make(devices: Opened) -> Dot:
        from gpumap.bench.dot import Dot, pilot
        from gpumap.bench.sizes import check_features

        check_features(bindings, devices.sessions, params.dtype)
        first = choose(bindings, devices, params, pilot)
        return Dot(bindings, devices.sessions, devices.clock, params, first)

    return make


# --- chains of operations


@dataclass(frozen=True, slots=True)
class Chains:
    """`bench chain`, as its options have it."""

    rows: str
    dtype: str
    cases: str | None
    reference: str | None


def measure_chains(request: Request, asked: Chains) -> None:
    """Measure chains of elementwise operations on the devices of this process."""
    from gpumap.bench.chain import CASES, DTYPES, Params, Setting, check_asked, plan
    from gpumap.bench.sizes import named, squares
    from gpumap.machine.blas import Cores

    element, wanted = _chosen(asked.dtype, DTYPES, asked.cases, CASES)
    params = Params(squares(asked.rows, "--rows"), element, wanted, request.settings.seed)

    def task(turn: Turn) -> Task:
        bindings = turn.resolution.bindings
        check_asked(bindings, params, asked.cases and params.cases)
        given = named(bindings, asked.reference)
        first = plan(Setting(bindings, given or bindings[0], {}), params)
        cores = Cores(len(turn.inventory.host.topology.cpus))
        choose = _chooser("chain", given, request)
        return Task(first, _chain_maker(bindings, params, cores, request, choose))

    with recorded_alone("bench", request) as record:
        run_alone(record, request, task)


def _chain_maker(
    bindings: tuple[Binding, ...],
    params: ChainParams,
    cores: Cores,
    request: Request,
    choose: Choose,
) -> Callable[[Opened], Chain]:
    """Return what makes the benchmark once its devices are open."""

    def make(devices: Opened) -> Chain:
        from gpumap.bench.chain import Chain, Setting, lacking, pilot
        from gpumap.bench.search import World
        from gpumap.bench.sizes import check_features

        check_features(bindings, devices.sessions, params.dtype)
        without = lacking(bindings, devices.sessions)
        able = [b for b in bindings if b.name not in without]
        first = choose(able or bindings, devices, params, pilot)
        if able and first.name in without:
            raise Unsupported(without[first.name].text, "name another device by --reference")
        setting = Setting(bindings, first, without)
        world = World(devices.sessions, devices.clock, devices.again, cores, request.settings)
        return Chain(setting, world, params)

    return make


def _chosen(
    dtype: str, dtypes: tuple[D, ...], cases: str | None, every: tuple[str, ...]
) -> tuple[D, tuple[str, ...]]:
    """Return the element type and the cases that are asked for."""
    (element,) = chosen(dtype, dtypes, "element type", "--dtype", most=1)
    return element, every if cases is None else chosen(cases, every, "case", "--cases")


def _chooser(bench: str, given: Binding | None, request: Request) -> Choose:
    """Return what chooses the reference: the given one, or one by a look at the devices."""

    def choose(bindings: Sequence[Binding], devices: Opened, params: Any, pilot: Pilot) -> Binding:
        from gpumap.bench.pilot import patience, reference, reference_of

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


@dataclass(frozen=True, slots=True)
class Copies:
    """`transfer-cost`, as its options have it."""

    sizes: str
    cases: str | None
    model: bool


def measure_copies(request: Request, asked: Copies) -> None:
    """Measure copies between the host and the devices of this process; fit, and decide on them."""
    from gpumap.bench.model import fits
    from gpumap.bench.transfer import needs

    settings = request.settings
    params = _transfer_params(asked, settings.seed)

    def task(turn: Turn) -> Task:
        bindings = turn.resolution.bindings

        def make(devices: Opened) -> Transfer:
            from gpumap.bench.transfer import Transfer

            return Transfer(bindings, devices.sessions, params, devices.again)

        decide = _decider(turn, params, request) if params.workloads else None
        return Task(needs(bindings, params), make, decide=decide)

    with recorded_alone("transfer-cost", request) as record:
        record.draft.fit = partial(fits, confidence=settings.confidence, seed=settings.seed)
        run_alone(record, request, task)
        if settings.dry_run and params.workloads:
            record.draft.remarks.append(_afterwards(params.workloads))


def _decider(turn: Turn, params: TransferParams, request: Request) -> Any:
    """Return what decides from which size a device pays."""

    def decide(devices: Opened, rows: Sequence[Measurement], end: float) -> Iterator[BreakEven]:
        from gpumap.bench.breakeven import break_evens
        from gpumap.bench.search import World
        from gpumap.machine.blas import Cores

        cores = Cores(len(turn.inventory.host.topology.cpus))
        world = World(devices.sessions, devices.clock, devices.again, cores, request.settings)
        wanted = [size.nbytes for size in params.sizes]
        bindings = turn.resolution.bindings
        return break_evens(world, bindings, params.workloads, wanted, rows, end)

    return decide


def _afterwards(workloads: Sequence[str]) -> Diagnostic:
    """Return what a plan cannot list: which sizes are measured depends on what is found."""
    said = f"{' and '.join(workloads)} are no rows: break-evens are looked for afterwards"
    return Diagnostic("break-even", said, severity="note")


def _transfer_params(asked: Copies, seed: int) -> TransferParams:
    from gpumap.bench.sizes import transfers
    from gpumap.bench.transfer import CASES, Params
    from gpumap.bench.workloads import WORKLOADS

    wanted = CASES if asked.cases is None else chosen(asked.cases, CASES, "case", "--cases")
    sweep = asked.sizes.strip() == "sweep"
    if sweep and not asked.model:
        raise QuestionError("--sizes sweep shows the model's size sweep", "omit --no-model")
    if not asked.model and all(case in WORKLOADS for case in wanted):
        fix = "omit --no-model, or ask for copies too"
        raise QuestionError("break-evens need the model's size sweep", fix)
    params = Params(() if sweep else transfers(asked.sizes), wanted, seed)
    return params if asked.model else replace(params, ladder=())

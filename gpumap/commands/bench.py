"""`gpumap bench`: measure a benchmark on the devices of a map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.allreduce import allreduce
from gpumap.commands.bind import bind
from gpumap.commands.gate import gate_options
from gpumap.commands.measure import chosen, measure_options
from gpumap.commands.options import map_options, output_options, setting
from gpumap.commands.train import train
from gpumap.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import TypeVar

    from gpumap.app.opened import Opened
    from gpumap.app.output import Output
    from gpumap.app.program import Program
    from gpumap.bench.base import Settings
    from gpumap.bench.chain import Chain
    from gpumap.bench.chain import Params as ChainParams
    from gpumap.bench.dot import Dot, Params
    from gpumap.judge.gate import Gate
    from gpumap.machine.blas import Cores
    from gpumap.model import Binding

    D = TypeVar("D", bound=str)
    Pilot = Callable[..., Mapping[str, float]]  # a benchmark's own: seconds by name
    Choose = Callable[[Sequence[Binding], Opened, Any, Pilot], Binding]

_DOT_BUDGET = 8.0  # seconds
_CHAIN_BUDGET = 20.0
_reference_option = setting(
    "--reference",
    metavar="NAME",
    help="Name of the device that speed-ups are relative to. [default: the baseline's with --base,"
    " else the first name, or the fastest of several models]",
)


@click.group(invoke_without_command=True, no_args_is_help=False)
@click.pass_context
def bench(ctx: click.Context) -> None:
    """Measure a benchmark on the devices of a map."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    ctx.default_map = dict.fromkeys(bench.commands, ctx.default_map)  # gpumap.toml is for each


@bench.command()
@setting(
    "--size",
    default="1024",
    show_default=True,
    help="Square sizes: 1024, or 256,1024, or 256:4096:x2.",
)
@setting(
    "--dtype",
    default="float32",
    show_default=True,
    help="The type of the elements: float32, float64, float16, bfloat16 or tf32.",
)
@setting(
    "--cases",
    metavar="NAMES",
    help="Only these: solo, one, many, one+fetch, many+fetch, many+fetch+threads.",
)
@_reference_option
@map_options
@measure_options(budget=_DOT_BUDGET)
@gate_options("dot", "anchor")
@output_options
@click.pass_obj
def dot(
    program: Program,
    *,
    size: str,
    dtype: str,
    cases: str | None,
    reference: str | None,
    option: str | None,
    map_file: Path | None,
    backend: str | None,
    settings: Settings,
    gate: Gate,
    output: Output,
) -> None:
    """Measure one matrix product for each name, on one device and on all of them.

    Every product is verified. Without a map: every CUDA device, else every OpenCL GPU, else one
    name for each of two cores.
    """
    from gpumap.app.benchmark import find, measure, recorded_alone
    from gpumap.bench.asked import check_names, named
    from gpumap.bench.dot import CASES, DTYPES, Params, plan
    from gpumap.bench.sizes import squares

    element, wanted = _chosen(dtype, DTYPES, cases, CASES)
    params = Params(squares(size), element, wanted, settings.seed)
    with recorded_alone("bench", program, output, settings, gate) as record:
        opens = not settings.dry_run
        for resolution, inventory in find(record, program, option, map_file, backend, opens=opens):
            check_names(resolution.bindings, cases and params.cases)
            given = named(resolution.bindings, reference)
            first = plan(resolution.bindings, params, given or resolution.bindings[0])
            choose = _chooser("dot", given, gate, settings.budget)
            make = _dot_maker(resolution.bindings, params, choose)
            measure(record, program, inventory, resolution, first, make, settings, output)


@bench.command()
@setting(
    "--rows",
    default="10000",
    show_default=True,
    help="Rows of x, 10 numbers each: 10000, or 1000,100000, or 1000:1000000:x10.",
)
@setting(
    "--dtype",
    default="float32",
    show_default=True,
    help="The type of the elements: float32 or float64.",
)
@setting(
    "--cases",
    metavar="NAMES",
    help="Only these: separate, fused, host, solo, many, op, cold.",
)
@_reference_option
@map_options
@measure_options(budget=_CHAIN_BUDGET)
@gate_options("chain", "anchor")
@output_options
@click.pass_obj
def chain(
    program: Program,
    *,
    rows: str,
    dtype: str,
    cases: str | None,
    reference: str | None,
    option: str | None,
    map_file: Path | None,
    backend: str | None,
    settings: Settings,
    gate: Gate,
    output: Output,
) -> None:
    """Measure log(exp(relu(x.w + b))): in one kernel, in one for each operation, on the host.

    x is on the device already. Every result is verified. Without a map: every CUDA device, else
    every OpenCL GPU, else one name for each of two cores.
    """
    from gpumap.app.benchmark import find, measure, recorded_alone
    from gpumap.bench.asked import named
    from gpumap.bench.chain import CASES, DTYPES, Params, Setting, check_asked, plan
    from gpumap.bench.sizes import squares
    from gpumap.machine.blas import Cores

    element, wanted = _chosen(dtype, DTYPES, cases, CASES)
    params = Params(squares(rows, "--rows"), element, wanted, settings.seed)
    with recorded_alone("bench", program, output, settings, gate) as record:
        opens = not settings.dry_run
        for resolution, inventory in find(record, program, option, map_file, backend, opens=opens):
            bindings = resolution.bindings
            check_asked(bindings, params, cases and params.cases)
            given = named(bindings, reference)
            first = plan(Setting(bindings, given or bindings[0], {}), params)
            cores = Cores(len(inventory.host.topology.cpus))
            choose = _chooser("chain", given, gate, settings.budget)
            make = _chain_maker(bindings, params, cores, settings, choose)
            measure(record, program, inventory, resolution, first, make, settings, output)


def _chosen(
    dtype: str, dtypes: tuple[D, ...], cases: str | None, every: tuple[str, ...]
) -> tuple[D, tuple[str, ...]]:
    """Return the element type and the cases that are asked for."""
    (element,) = chosen(dtype, dtypes, "element type", "--dtype", most=1)
    return element, every if cases is None else chosen(cases, every, "case", "--cases")


def _chooser(bench: str, given: Binding | None, gate: Gate, budget: float) -> Choose:
    """Return what chooses the reference: the given one, or one by a look at the devices."""

    def choose(bindings: Sequence[Binding], devices: Opened, params: Any, pilot: Pilot) -> Binding:
        from gpumap.bench.pilot import patience, reference, reference_of

        def look(some: Sequence[Binding]) -> Mapping[str, float]:
            return pilot(some, devices.sessions, devices.clock, params, patience(budget))

        if given is not None:
            return given
        before = gate.against.base if gate.against else None
        base = reference_of(before, bench, bindings[0].device.backend) if before else None
        return reference(bindings, look, base)

    return choose


def _chain_maker(
    bindings: tuple[Binding, ...],
    params: ChainParams,
    cores: Cores,
    settings: Settings,
    choose: Choose,
) -> Callable[[Opened], Chain]:
    """Return what makes the benchmark once its devices are open."""

    def make(devices: Opened) -> Chain:
        from gpumap.bench.asked import check_features
        from gpumap.bench.chain import Chain, Setting, lacking, pilot
        from gpumap.bench.search import World

        check_features(bindings, devices.sessions, params.dtype)
        without = lacking(bindings, devices.sessions)
        able = [b for b in bindings if b.name not in without]
        first = choose(able or bindings, devices, params, pilot)
        if able and first.name in without:
            raise Unsupported(without[first.name].text, "name another device by --reference")
        setting_ = Setting(bindings, first, without)
        world = World(devices.sessions, devices.clock, devices.again, cores, settings)
        return Chain(setting_, world, params)

    return make


def _dot_maker(
    bindings: tuple[Binding, ...], params: Params, choose: Choose
) -> Callable[[Opened], Dot]:
    """Return what makes the benchmark once its devices are open."""

    def make(devices: Opened) -> Dot:
        from gpumap.bench.asked import check_features
        from gpumap.bench.dot import Dot, pilot

        check_features(bindings, devices.sessions, params.dtype)
        first = choose(bindings, devices, params, pilot)
        return Dot(bindings, devices.sessions, devices.clock, params, first)

    return make


bench.add_command(allreduce)
bench.add_command(bind)
bench.add_command(train)

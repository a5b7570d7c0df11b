"""`gpumap bench`: measure a benchmark on the devices of a map."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpumap.commands.allreduce import allreduce
from gpumap.commands.bind import bind
from gpumap.commands.gate import gate_options
from gpumap.commands.measure import chosen, measure_options
from gpumap.commands.options import map_options, output_options, setting
from gpumap.commands.train import train

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import TypeVar

    from gpumap.bench.base import Settings
    from gpumap.bench.chain import Chain
    from gpumap.bench.chain import Params as ChainParams
    from gpumap.bench.dot import Dot, Params
    from gpumap.commands.opening import Opened
    from gpumap.commands.output import Output
    from gpumap.commands.program import Program
    from gpumap.judge.gate import Gate
    from gpumap.model import Binding

    D = TypeVar("D", bound=str)

_DOT_BUDGET = 8.0  # seconds
_CHAIN_BUDGET = 20.0


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
    from gpumap.bench.asked import check_names
    from gpumap.bench.dot import CASES, DTYPES, Params, plan
    from gpumap.bench.sizes import squares
    from gpumap.commands.measuring import find, measure, recorded_alone

    element, wanted = _chosen(dtype, DTYPES, cases, CASES)
    params = Params(squares(size), element, wanted, settings.seed)
    with recorded_alone("bench", program, output, settings, gate) as record:
        opens = not settings.dry_run
        for resolution, inventory in find(record, program, option, map_file, backend, opens=opens):
            check_names(resolution.bindings, cases and params.cases)
            first = plan(resolution.bindings, params, resolution.bindings[0])
            make = _dot_maker(resolution.bindings, params, settings, gate)
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
    from gpumap.bench.chain import CASES, DTYPES, Params, Setting, check_asked, plan
    from gpumap.bench.sizes import squares
    from gpumap.commands.measuring import find, measure, recorded_alone

    element, wanted = _chosen(dtype, DTYPES, cases, CASES)
    params = Params(squares(rows, "--rows"), element, wanted, settings.seed)
    with recorded_alone("bench", program, output, settings, gate) as record:
        opens = not settings.dry_run
        for resolution, inventory in find(record, program, option, map_file, backend, opens=opens):
            bindings = resolution.bindings
            check_asked(bindings, params, cases and params.cases)
            first = plan(Setting(bindings, bindings[0], {}), params)
            threads = len(inventory.host.topology.cpus)
            make = _chain_maker(bindings, params, threads, settings, gate)
            measure(record, program, inventory, resolution, first, make, settings, output)


def _chosen(
    dtype: str, dtypes: tuple[D, ...], cases: str | None, every: tuple[str, ...]
) -> tuple[D, tuple[str, ...]]:
    """Return the element type and the cases that are asked for."""
    (element,) = chosen(dtype, dtypes, "element type", "--dtype", most=1)
    return element, every if cases is None else chosen(cases, every, "case", "--cases")


def _chain_maker(
    bindings: tuple[Binding, ...],
    params: ChainParams,
    threads: int,
    settings: Settings,
    gate: Gate,
) -> Callable[[Opened], Chain]:
    """Return what makes the benchmark once its devices are open."""

    def make(devices: Opened) -> Chain:
        from gpumap.bench.asked import check_features
        from gpumap.bench.chain import KEY, Chain, Setting, lacking, pilot
        from gpumap.bench.pilot import patience, reference
        from gpumap.bench.search import World
        from gpumap.machine.blas import Cores

        check_features(bindings, devices.sessions, params.dtype)
        without = lacking(bindings, devices.sessions)
        able = [b for b in bindings if b.name not in without]

        most = patience(settings.budget)

        def look(some: Sequence[Binding]) -> Mapping[str, float]:
            return pilot(some, devices.sessions, devices.clock, params, most)

        before = _before(gate, KEY)
        fastest = reference(able or bindings, look, devices.clock, before, most)
        setting_ = Setting(bindings, fastest, without)
        cores = Cores(threads)
        world = World(devices.sessions, devices.clock, devices.again, cores, settings)
        return Chain(setting_, world, params)

    return make


def _dot_maker(
    bindings: tuple[Binding, ...], params: Params, settings: Settings, gate: Gate
) -> Callable[[Opened], Dot]:
    """Return what makes the benchmark once its devices are open."""

    def make(devices: Opened) -> Dot:
        from gpumap.bench.asked import check_features
        from gpumap.bench.dot import KEY, Dot, pilot
        from gpumap.bench.pilot import patience, reference

        check_features(bindings, devices.sessions, params.dtype)

        most = patience(settings.budget)

        def look(some: Sequence[Binding]) -> Mapping[str, float]:
            return pilot(some, devices.sessions, devices.clock, params, most)

        fastest = reference(bindings, look, devices.clock, _before(gate, KEY), most)
        return Dot(bindings, devices.sessions, devices.clock, params, fastest)

    return make


def _before(gate: Gate, bench: str) -> str | None:
    """Return the name that the reference runs on in the base, if there is one."""
    from gpumap.bench.pilot import reference_of

    return reference_of(gate.against.base, bench) if gate.against else None


bench.add_command(allreduce)
bench.add_command(bind)
bench.add_command(train)

"""`gpumap transfer-cost`: what moving bytes to and from each device costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from gpumap.commands.gate import gate_options
from gpumap.commands.measure import chosen, measure_options
from gpumap.commands.options import map_options, output_options, setting
from gpumap.errors import Diagnostic, QuestionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gpumap.app.opened import Opened
    from gpumap.app.output import Output
    from gpumap.app.program import Program
    from gpumap.bench.base import Settings
    from gpumap.bench.transfer import Params, Transfer
    from gpumap.judge.gate import Gate
    from gpumap.model import BreakEven, Measurement

_BUDGET = 15.0  # seconds


@click.command("transfer-cost")
@setting(
    "--sizes",
    default="small,large",
    show_default=True,
    help="small (400 B), large (400 kB), 4KiB, 1MB or 64B:1GiB:x8; commas between. Or sweep: the "
    "sizes of the model.",
)
@setting("--cases", metavar="NAMES", help="Only these: h2d, d2h, bidir, d2d, affine, product.")
@setting(
    "--model/--no-model",
    default=True,
    show_default=True,
    help="Measure the ladder of sizes that the model is fitted to.",
)
@map_options
@measure_options(budget=_BUDGET)
@gate_options("transfer", "anchor")
@output_options
@click.pass_obj
def transfer_cost(
    program: Program,
    *,
    sizes: str,
    cases: str | None,
    model: bool,
    option: str | None,
    map_file: Path | None,
    backend: str | None,
    settings: Settings,
    gate: Gate,
    output: Output,
) -> None:
    """Measure copies between the host and the devices, and model what they cost.

    Every byte is verified. small and large are 10 x 10 and 10000 x 10 float32 values. The model is
    time = latency + bytes / bandwidth, from sizes of its own.
    """
    from functools import partial

    from gpumap.app.benchmark import find, measure, recorded_alone
    from gpumap.bench.model import fits
    from gpumap.bench.transfer import needs

    params = _params(sizes, cases, settings.seed, model=model)
    with recorded_alone("transfer-cost", program, output, settings, gate) as record:
        record.model = partial(fits, confidence=settings.confidence, seed=settings.seed)
        opens = not settings.dry_run
        for resolution, inventory in find(record, program, option, map_file, backend, opens=opens):
            bindings = resolution.bindings

            def make(devices: Opened) -> Transfer:
                from gpumap.bench.transfer import Transfer

                return Transfer(bindings, devices.sessions, params, devices.again)  # noqa: B023 - called in this turn

            def decide(
                devices: Opened, rows: Sequence[Measurement], end: float
            ) -> Iterator[BreakEven]:
                from gpumap.bench.breakeven import break_evens
                from gpumap.bench.search import World
                from gpumap.machine.blas import Cores

                cores = Cores(len(inventory.host.topology.cpus))  # noqa: B023 - as above
                world = World(devices.sessions, devices.clock, devices.again, cores, settings)
                wanted = [size.nbytes for size in params.sizes]
                return break_evens(world, bindings, params.workloads, wanted, rows, end)  # noqa: B023 - as above

            first, asked = needs(bindings, params), decide if params.workloads else None
            measure(
                record, program, inventory, resolution, first, make, settings, output, decide=asked
            )
        if settings.dry_run and params.workloads:
            record.remarks.append(_afterwards(params.workloads))


def _afterwards(workloads: Sequence[str]) -> Diagnostic:
    """Return what a plan cannot list: which sizes are measured depends on what is found."""
    said = f"{' and '.join(workloads)} are no rows: break-evens are looked for afterwards"
    return Diagnostic("break-even", said, severity="note")


def _params(sizes: str, cases: str | None, seed: int, *, model: bool) -> Params:
    from gpumap.bench.sizes import transfers
    from gpumap.bench.transfer import CASES, Params
    from gpumap.bench.workloads import WORKLOADS

    wanted = CASES if cases is None else chosen(cases, CASES, "case", "--cases")
    sweep = sizes.strip() == "sweep"
    if sweep and not model:
        raise QuestionError("--sizes sweep is the model's ladder", "leave --no-model away")
    if not model and all(case in WORKLOADS for case in wanted):
        fix = "leave --no-model away, or ask for copies too"
        raise QuestionError("break-evens stand on the model's ladder", fix)
    params = Params(() if sweep else transfers(sizes), wanted, seed)
    return params if model else replace(params, ladder=())

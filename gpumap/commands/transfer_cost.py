"""`gpumap transfer-cost`: what moving bytes to and from each device costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpumap.commands.measure import chosen, measure_options
from gpumap.commands.options import map_options, output_options, setting

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpumap.backends.base import Clock, Session
    from gpumap.bench.base import Settings
    from gpumap.bench.transfer import Transfer
    from gpumap.commands.output import Output
    from gpumap.commands.program import Program

_BUDGET = 15.0  # seconds


@click.command("transfer-cost")
@setting(
    "--sizes",
    default="small,large",
    show_default=True,
    help="small (400 B), large (400 kB), 4KiB, 1MB or 64B:1GiB:x8; commas between.",
)
@setting("--cases", metavar="NAMES", help="Only these: h2d, d2h.")
@map_options
@measure_options(budget=_BUDGET)
@output_options
@click.pass_obj
def transfer_cost(
    program: Program,
    *,
    sizes: str,
    cases: str | None,
    option: str | None,
    map_file: Path | None,
    backend: str | None,
    settings: Settings,
    output: Output,
) -> None:
    """Measure copies between the host and each device, alone and all at once.

    Every byte is verified. small and large are 10 x 10 and 10000 x 10 float32 values.
    """
    from gpumap.bench.sizes import transfers
    from gpumap.bench.transfer import CASES, Params, Transfer, needs
    from gpumap.commands.measuring import find, measure, recorded

    wanted = CASES if cases is None else chosen(cases, CASES, "case", "--cases")
    params = Params(transfers(sizes), wanted, settings.seed)
    with recorded("transfer-cost", program, output, settings) as record:
        for resolution, inventory in find(record, program, option, map_file, backend):
            bindings = resolution.bindings

            def make(sessions: Mapping[str, Session], clock: Clock) -> Transfer:
                del clock
                return Transfer(bindings, sessions, params)  # noqa: B023 - called in this turn

            first = needs(bindings, params)
            measure(record, program, inventory, resolution, first, make, settings, output)

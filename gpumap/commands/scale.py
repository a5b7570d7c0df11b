"""`gpumap scale`: a program on one name of a map, on two and so on; what limits its speed-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.option_types import DurationType, ShareType
from gpumap.commands.options import (
    backend_option,
    map_argument,
    map_texts,
    output_options,
    setting,
)

if TYPE_CHECKING:
    from gpumap.app.program import Program


def _counts(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[int, ...]:
    words = text.split(",") if text else []
    if not all(word.strip().isdecimal() and int(word) > 0 for word in words):
        raise click.BadParameter(f"{text!r} is no list of numbers: write 1,2,4", ctx, param)
    return tuple(map(int, words))


@click.command()
@map_argument
@map_texts
@backend_option("Drive the devices with this backend, in the program too.")
@setting(
    "--counts",
    metavar="N,N",
    callback=_counts,
    help="Numbers of names: 1,2,4. One is always among them.  [default: every number]",
)
@setting(
    "--weak",
    is_flag=True,
    help="The program does GPUMAP_COUNT times the work: a speed-up is that number times the ratio "
    "of the times.",
)
@setting(
    "--expect",
    metavar="SPEEDUP",
    type=click.FloatRange(0.0, min_open=True),
    help="Exit code 1 where all names are not at least this many times as fast as one.",
)
@setting(
    "--inconclusive",
    type=click.Choice(["fail", "pass"]),
    default="fail",
    show_default=True,
    help="pass: where the figures are too uncertain for an answer, exit 0 and say so.",
)
@setting("--timeout", type=DurationType(), help="End a run after this time; it has failed.")
@setting(
    "--precision",
    type=ShareType(),
    default="2%",
    show_default=True,
    help="Stop once every half-interval is within this share.",
)
@setting(
    "--budget",
    type=DurationType(),
    default="60s",
    show_default=True,
    help="Time for all runs. One turn is always taken; six make an interval.",
)
@output_options
@click.pass_obj
def scale(program: Program, /, **options: Any) -> None:
    """Run a program on one name, on two and so on; say how much faster it is, and what limits it.

    gpumap scale [MAP] [OPTIONS] -- COMMAND ARG... runs COMMAND as one process with the devices and
    cores of the first name of the map, of the first two, and so on, in turns. Each run must end
    with exit code 0. The process has its names in GPUMAP_CONTEXTS and their number in GPUMAP_COUNT;
    CUDA_VISIBLE_DEVICES, OMP_NUM_THREADS and the cores it may run on are those of its names, as
    `gpumap run` sets them. It reads nothing from stdin, and what it prints is not shown.

    The exit code is 0 for an answer, 5 where it is inconclusive, that of the program where a run
    failed (128 and its number for a signal), and 124 after --timeout.
    """
    from gpumap.app.scaling import ScaleRequest
    from gpumap.app.scaling import scale as measured

    measured(program, ScaleRequest(**options))

"""`gpumap scale`: a program on one name of a map, on two and so on; what limits its speed-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.option_types import DurationType
from gpumap.commands.options import (
    backend_option,
    inconclusive_option,
    map_argument,
    map_texts,
    output_options,
    setting,
)

if TYPE_CHECKING:
    from gpumap.app.program import Program


@click.command()
@map_argument
@map_texts
@backend_option("Drive the devices with this backend, in the program too.")
@setting(
    "--expect",
    metavar="SPEEDUP",
    type=click.FloatRange(0.0, min_open=True),
    help="Exit code 1 where all names are not at least this many times as fast as one.",
)
@inconclusive_option
@setting("--timeout", type=DurationType(), help="End a run after this time; it has failed.")
@setting(
    "--budget",
    type=DurationType(),
    default="60s",
    show_default=True,
    help="Time for all runs. One turn is always taken; six make an interval.",
)
@output_options
@click.pass_obj  # fmt: skip
def scale(program: Program, /, **options: Any) -> None:
    """Run a program on one name, on two and so on; say how much faster it is, and what limits it.

    gpumap scale [MAP] [OPTIONS] -- COMMAND ARG... runs COMMAND as one process with the devices and
    cores of the first name of the map, of the first two, and so on (of more than 8 names: 1, 2, 4,
    8 ... and all), in turns. Each run must end with exit code 0. The process has its names in
    GPUMAP_CONTEXTS and their number in GPUMAP_COUNT; CUDA_VISIBLE_DEVICES, OMP_NUM_THREADS and the
    cores it may run on are those of its names, as `gpumap run` sets them. It reads nothing from
    stdin, and what it prints is not shown.

    The exit code is 0 for an answer, 5 where it is inconclusive, that of the program where a run
    failed (128 and its number for a signal), and 124 after --timeout.
    """
    from gpumap.app import watched_programs

    watched_programs.scale(program, watched_programs.ScaleRequest(**options))

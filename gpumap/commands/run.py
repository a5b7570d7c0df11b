"""`gpumap run`: a command, once for each name of a map, on its device and on its cores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gpumap.commands.option_types import DurationType, FileType
from gpumap.commands.options import backend_option, map_argument, map_texts, setting

if TYPE_CHECKING:
    from pathlib import Path

    from gpumap.app.program import Program


@click.command()
@map_argument
@map_texts
@click.option(
    "--cfg",
    metavar="FILE",
    type=FileType(),
    help="In place of a map and a command: Theano-MPI's session file, read as data, never by a "
    "shell. Starts the bench train that it asks for, or trains its ModelClass; further options of "
    'bench train stand behind "--".',
)
@backend_option("Drive the devices with this backend, in the processes too.")
@setting(
    "--launcher",
    type=click.Choice(["local", "mpi"]),
    default="local",
    show_default=True,
    help="What starts the processes, on this machine: gpumap itself, or mpirun; that puts no names "
    "before lines, and has one file for all.",
)
@setting("--no-bind", is_flag=True, help="Bind no process to cores and memory.")
@setting(
    "--dry-run",
    is_flag=True,
    help="Print the places and variables, or the call of mpirun; start nothing.",
)
@setting(
    "--output-dir",
    metavar="DIR",
    type=FileType(),
    help="Write what each process prints to files: DIR/NAME.out, DIR/NAME.err.",
)
@setting("--timeout", type=DurationType(), help="End all processes after this time.")
@setting(
    "--grace",
    type=DurationType(),
    default="5s",
    show_default=True,
    help="Time for a process to end after a signal; then it is killed.",
)
@setting(
    "--watch",
    is_flag=True,
    help="Show what each name's device does: a line each on a terminal, and a table at the end.",
)
@setting(
    "--expect-used",
    is_flag=True,
    help="Exit code 1 instead of 0 if a name's device was not used, 5 if gpumap cannot tell.",
)
@setting("--quiet", is_flag=True, help="No notes and no report of places on stderr.")
@click.pass_context
def run(context: click.Context, /, *, cfg: Path | None, **options: Any) -> None:
    """Run a command once for each name of a map, on its device and on its cores.

    The command comes after "--": gpumap run MAP [OPTIONS] -- COMMAND ARG... Each process has its
    name in GPUMAP_NAME, its own entry of the map in GPUMAP_CONTEXTS, and RANK, WORLD_SIZE,
    MASTER_ADDR and so on as torchrun sets them; it reads nothing from stdin. What it prints comes
    out line by line behind its name. The first process that fails ends the others, and its exit
    code is gpumap's (128 and its number for a signal); 124 after --timeout, 130 after Ctrl-C, 126
    and 127 for a command that cannot be run. When gpumap ends, nothing that it started is left.
    """
    from gpumap.app.placed_run import RunRequest, run_names

    program: Program = context.obj
    request = RunRequest(**options)
    if cfg is None:
        run_names(program, request)
        return
    from gpumap.app.placed_run import start

    typed = ParameterSource.COMMANDLINE
    written = {name for name in context.params if context.get_parameter_source(name) is typed}
    start(program, cfg, request, frozenset(written))

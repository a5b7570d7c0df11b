"""Section Run of the help: `trace`, `watch`, `run` and `exec`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gpumap.commands.option_types import FileType, UnitType
from gpumap.commands.options import map_option, map_options, output_options, setting
from gpumap.errors import QuestionError

if TYPE_CHECKING:
    from pathlib import Path

    from gpumap.app.program import Program


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("path", metavar="SCRIPT", type=FileType())
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
@map_option
@output_options
def trace(program: Program, /, **options: Any) -> None:
    """Run a script that uses gpumap; show what ran where.

    gpumap trace [OPTIONS] SCRIPT ARGS... runs it by `python SCRIPT ARGS...`, and shows implicit
    transfers too. --map is what
    `gpumap.open()` finds in it, and GPUMAP_BACKEND what drives its devices. The exit code is 0 if
    the script ended well, 1 if it did not, or opened no context, 2 if it cannot be read, 3 if a
    device is not there, or failed. A script that ends by os._exit or a signal leaves no trace; one
    that Ctrl-C interrupts does.

    The result comes after the script's own output: to keep them apart, use --output. `gpumap watch`
    looks at any other program.
    """
    from gpumap.app.tracing import trace_script

    trace_script(program, **options)


@click.command()
@map_options("Look for the devices with this backend.")
@setting(
    "--expect-used",
    is_flag=True,
    help="Exit code 1 instead of 0 if a name's device was not used, 5 if gpumap cannot tell.",
)
@output_options
def watch(program: Program, /, **options: Any) -> None:
    """Run a program; show which devices it used, and how busy.

    gpumap watch [MAP] [OPTIONS] -- COMMAND ARG... runs any program as a shell would, unmodified,
    and looks once a second at its processes and at the devices: NVML, fdinfo of DRM, CPU time by
    core. Without a map it takes the devices that a benchmark would. The exit code is the program's
    (128 and its number for a signal), 126 or 127 if it cannot be run. What cannot be observed is
    "cannot tell", never "not used".

    The result comes after the program's own output: to keep them apart, use --output.
    """
    from gpumap.app.watched_programs import watch_program

    watch_program(program, **options)


_where = map_options("Drive the devices with this backend, in the processes too.")
_no_bind = setting("--no-bind", is_flag=True, help="Bind no process to cores.")
_quiet = setting("--quiet", is_flag=True, help="No notes and no report of the placement on stderr.")


@click.command()
@_where
@click.option(
    "--cfg",
    metavar="FILE",
    type=FileType(),
    help="In place of a map and a command: Theano-MPI's session file, read as data, never by a "
    "shell. Starts the bench train that it asks for, or trains its ModelClass; further options of "
    'bench train follow "--".',
)
@_no_bind
@setting("--dry-run", is_flag=True, help="Print the placement and variables; start nothing.")
@setting(
    "--output-dir",
    metavar="DIR",
    type=FileType(),
    help="Write what each process prints to files: DIR/NAME.out, DIR/NAME.err.",
)
@setting("--timeout", type=UnitType("duration"), help="End all processes after this time.")
@setting(
    "--grace",
    type=UnitType("duration"),
    default="5s",
    help="Time for a process to end after a signal; then it is killed.",
)
@_quiet
@click.pass_context
def run(context: click.Context, /, *, cfg: Path | None, **options: Any) -> None:
    """Run a command once for each name of a map, on its device.

    Each runs on the cores of its device. The command comes after "--": gpumap run MAP [OPTIONS] --
    COMMAND ARG... Each process has its name in GPUMAP_NAME, in GPUMAP_CONTEXTS its own entry of the
    map, numbered as it sees its devices and cores, and RANK, WORLD_SIZE, MASTER_ADDR and so on as
    torchrun sets them; it reads nothing from stdin. What it prints comes out line by line behind
    its name. The first process that fails ends the others, and its exit code is gpumap's (128 and
    its number for a signal); 124 after --timeout, 130 after Ctrl-C, 126 and 127 for a command that
    cannot be run. When gpumap ends, nothing that it started is left.
    """
    from gpumap.app.placed_run import RunRequest, run_names

    program: Program = context.obj
    request = RunRequest(**options)
    if cfg is None:
        run_names(program, request)
        return
    from gpumap.app.session_run import start

    typed = ParameterSource.COMMANDLINE
    others = ("argument", "option", "no_bind", "output_dir", "timeout", "grace")
    if any(context.get_parameter_source(name) is typed for name in others):
        message = "beside --cfg only --backend, --dry-run and --quiet may stand before --"
        raise QuestionError(message, "omit the rest; options of bench train follow --")
    start(program, cfg, request)


@click.command("exec")
@_where
@click.option("--name", metavar="NAME", help="Take the entry of this name, whatever the rank.")
@setting(
    "--rank-from",
    metavar="VARIABLE",
    help="The variable that has the local rank, in place of the launcher's own.",
)
@_no_bind
@setting(
    "--verify",
    is_flag=True,
    help="Compare the cores and the visible devices with the plan before the command starts, and "
    "the devices with those of the node's other ranks.",
)
@_quiet
@click.pass_obj
def exec_(program: Program, /, **options: Any) -> None:
    """Become a command on the device of this rank's entry of the map.

    Under torchrun, Slurm, Open MPI, MPICH, PALS or Flux, local rank i of each node takes entry i:
    srun gpumap exec MAP [OPTIONS] -- COMMAND ARG... The process gets the variables that `gpumap
    run` gives it, but for RANK and its like, which stay the launcher's, and runs on the entry's
    cores; then the command takes its place, and no process of gpumap is left. One variable makes
    the device the only visible one of its kind. More or fewer ranks than entries end in exit code
    2, a device that is not there, or is another rank's, in 3, a command that cannot be run in 126
    or 127; else the exit code is the command's.
    """
    from gpumap.app.execute import execute
    from gpumap.app.own_entry import ExecRequest

    execute(program, ExecRequest(**options))

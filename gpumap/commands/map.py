"""Section Map of the help: `check`, `devices`, `doctor`, `preflight` and their like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.option_types import FileType, UnitType
from gpumap.commands.options import (
    backend_option,
    if_absent_option,
    inconclusive_option,
    map_options,
    output_options,
    setting,
    timeout_option,
)

if TYPE_CHECKING:
    from pathlib import Path

    from gpumap.app.program import Program


replay_option = click.option(
    "--replay",
    metavar="FILE",
    type=FileType(),
    help="Look in this file of `gpumap env --output`, and not at this machine.",
)


@click.command()
@map_options("Drive the devices with this backend.")
@setting("--syntax-only", is_flag=True, help="Parse the map; look for no device.")
@setting("--no-open", is_flag=True, help="Find the devices; do not open them.")
@replay_option
@setting("--needs", metavar="NAMES", help="Names that must be in the map: dev0,dev1.")
@setting("--distinct", is_flag=True, help="No two names may share hardware.")
@if_absent_option
@setting("--strict", is_flag=True, help="Treat warnings as errors (exit code 1).")
@timeout_option(60.0)
@output_options
def check(program: Program, /, **options: Any) -> None:
    """Check that every name of a map is a device that works.

    Each device is opened, and 4 KiB go there and back, verified. Either every name resolves and
    is printed in Theano's words, or none is and the exit code is 3. In a job of several processes
    each rank checks its own entry: srun gpumap exec MAP --verify -- gpumap check.
    """
    from gpumap.app.checking import CheckRequest, check_map

    check_map(program, CheckRequest(**options))


@click.command()
@backend_option("Query this backend only.")
@replay_option
@output_options
def devices(program: Program, /, **options: Any) -> None:
    """List the devices of each backend, and why one has none.

    The last line is a command to paste.
    """
    from gpumap.app.checking import list_devices

    list_devices(program, **options)


@click.command("check-files")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=FileType())
@click.pass_obj
def check_files(program: Program, *, files: tuple[Path, ...]) -> None:
    """Check the maps in files, by their syntax alone.

    A gpumap.toml has its map behind `map =`, a .theanorc behind `contexts` of [global]; every
    other FILE is a map as @FILE reads it. No device is looked for. Every problem is printed with
    its file, and of a map with its line, and ends in exit code 2. As a hook of pre-commit it is
    called gpumap-maps.
    """
    from gpumap.app import checking

    checking.check_files(program, files)


@click.command()
@map_options("Drive the devices with this backend.")
@click.option(
    "--python",
    metavar="PYTHON",
    help="Examine the frameworks that are installed for this interpreter: .venv/bin/python.",
)
@replay_option
@timeout_option(28.0)  # with the report it ends within 30 s
@output_options
def doctor(program: Program, /, **options: Any) -> None:
    """Say for each name whether its device is used; if not, why.

    Reads what decides placement, and uses each device: copies and products are verified, and what
    they cost is timed. Each driver has a time limit. A cause has a code: `gpumap explain GM102`.

    With --python it says the same of torch, jax, tensorflow, cupy and onnxruntime: it reads their
    packages, and imports each library in a child process. A MAP beside them is examined too.
    """
    from gpumap.app.examination import DoctorRequest, examine

    examine(program, DoctorRequest(**options))


@click.command()
@map_options("Drive the devices with this backend.")
@setting("--within", metavar="TIME", type=UnitType("duration"), default="10s",
         help="The limit: 10s; from 60s on memory, links and all devices at once too; from 10m on "
         "a soak.")  # fmt: skip
@click.option(
    "--expect", metavar="N[xMODEL]", help="So many devices must be there: 8xH200, or any 8."
)
@click.option("--require", metavar="FILE", type=FileType(),
              help="TOML: count, model, memory, driver, link_width, link_generation, power_limit, "
              "mig, ecc, ignore.")  # fmt: skip
@replay_option
@inconclusive_option
@output_options
def preflight(program: Program, /, **options: Any) -> None:
    """Say in limited time whether this machine may take a job.

    Of each device: its driver's counters and settings, other processes on it, verified copies from
    and to the host and between all pairs both ways, a verified product, and its speed against the
    others of its model. What cannot be read is no pass. Without a map it takes the GPUs that
    answer, or else cores: name the devices, or use --expect, so that a lost one is missing.

    The exit code is 0 for fit, 3 where a device is missing, 4 for wrong bytes, 5 where it cannot
    tell, and 1 where the machine is unfit for another reason: so a prolog or an init container of a
    scheduler runs it on each node. It never takes longer than --within, also where a driver hangs.
    """
    from gpumap.app import preflight as node

    node.preflight(program, node.PreflightRequest(**options))


@click.command()
@click.option("--output", metavar="FILE", type=FileType(),
              help="Write the devices to a file, too, for `gpumap devices --replay`.")  # fmt: skip
@click.option("--with", "keep", multiple=True, help="Keep these (repeatable).",
              type=click.Choice(("hosts", "users", "paths", "serials")))  # fmt: skip
@click.pass_obj
def env(program: Program, *, output: Path | None, keep: tuple[str, ...]) -> None:
    """Print a block for an issue: versions, devices, map, variables.

    It is Markdown, and has the topology too. Variables are an allow-list; names of hosts and users,
    paths, serial numbers and tokens are replaced, in FILE too.
    """
    from gpumap.app.examination import environment

    click.echo(environment(program, keep), nl=False)
    if output is not None:
        from gpumap.app.machine_file import write_machine

        write_machine(program, output, keep)

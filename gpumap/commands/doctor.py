"""`gpumap doctor` and `gpumap env`: is each device used, and what an issue needs of a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.option_types import FileType
from gpumap.commands.options import map_argument, map_texts, output_options, setting, timeout_option

if TYPE_CHECKING:
    from gpumap.app.program import Program

LIMIT = 28.0  # seconds: with the report it ends within 30


@click.command()
@map_argument
@map_texts
@setting("--backend", metavar="NAME", help="Drive the devices with this backend.")
@click.option(
    "--script",
    metavar="FILE",
    type=FileType(),
    help="Read a program's text too, without running it: does it set a device too late?",
)
@click.option(
    "--python",
    metavar="PYTHON",
    help="Examine the frameworks of this interpreter: .venv/bin/python.",
)
@click.option(
    "--framework",
    metavar="NAME[,NAME...]",
    help="Examine these: torch, jax, tensorflow, cupy, onnxruntime. With --python: all installed.",
)
@timeout_option(LIMIT)
@output_options
@click.pass_obj
def doctor(program: Program, /, **options: Any) -> None:
    """Say for each name whether its device is used, and if not, why.

    Reads what decides placement and runs three workloads on each device, with a time limit for
    each driver. A cause has a code: `gpumap explain GM102`.

    With --python or --framework it says the same of frameworks: it reads their packages, and
    imports each library in a child process. A MAP beside them is examined too.
    """
    from gpumap.app.examination import DoctorRequest, examine

    examine(program, DoctorRequest(**options))


@click.command()
@click.option("--python", metavar="PYTHON", help="Add the frameworks of this interpreter.")
@click.pass_obj
def env(program: Program, *, python: str | None) -> None:
    """Print a block for an issue: versions, devices, topology, the map and variables.

    It is Markdown. Variables are an allow-list; user names and home folders are replaced.
    """
    from gpumap.app.examination import environment

    click.echo(environment(program, python), nl=False)

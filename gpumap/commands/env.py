"""`gpumap env`: what an issue needs of this machine, to paste."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gpumap.app.program import Program


@click.command()
@click.option("--python", metavar="PYTHON", help="Add the frameworks of this interpreter.")
@click.pass_obj
def env(program: Program, *, python: str | None) -> None:
    """Print a block for an issue: versions, devices, topology, the map and variables.

    It is Markdown. Variables are an allow-list; user names and home folders are replaced.
    """
    from gpumap.app.examination import environment

    click.echo(environment(program, python), nl=False)

"""`gpumap devices`: what is there, and why the rest is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpumap.commands.options import output_options, setting, timeout_option

if TYPE_CHECKING:
    from gpumap.app.output import Output
    from gpumap.app.program import Program


@click.command()
@setting("--backend", metavar="NAME", help="Ask this backend only.")
@timeout_option(60.0)
@output_options
@click.pass_obj
def devices(program: Program, *, backend: str | None, timeout: float, output: Output) -> None:
    """List every device that each backend finds, and why a backend finds none.

    The last line is a command to paste.
    """
    from gpumap.app.checking import list_devices

    list_devices(program, backend, timeout, output)

"""`gpumap report`: saved reports, shown again; several of them side by side, or over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.option_types import FileType, SelectorType
from gpumap.commands.options import edited_option, output_options, setting

if TYPE_CHECKING:
    from gpumap.app.program import Program


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, type=FileType())
@setting(
    "--over-time",
    metavar="SELECTOR",
    type=SelectorType(),
    help="Follow a figure through the reports in the order of their runs: dot.many.speedup, or "
    "dot.many[size=1024].speedup.",
)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of reports instead.")
@edited_option
@output_options
@click.pass_obj
def report(program: Program, /, **options: Any) -> None:
    """Show saved reports again: one in any format, several side by side.

    A FILE is JSON that --output has written. Several become one table, rows joined by id, each
    figure with its ratio to the first report; verdicts are for `gpumap compare`. The exit code is
    0 if they could be shown, whatever theirs was, and 2 if not.
    """
    from gpumap.app.showing import ReportRequest, show_reports

    show_reports(program, ReportRequest(**options))

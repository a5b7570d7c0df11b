"""`gpumap compare`: what changed from one saved report to another?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.option_types import FileType
from gpumap.commands.options import edited_option, output_options, setting, terms_options

if TYPE_CHECKING:
    from gpumap.app.program import Program


@click.command()
@click.argument("base", type=FileType())
@click.argument("new", type=FileType())
@click.option("--accept", metavar="REASON", help="Write NEW over BASE, with the reason inside.")
@edited_option
@terms_options
@setting("--inconclusive", type=click.Choice(["fail", "pass"]), default="fail",
         show_default=True, help="pass: what cannot be told is exit 0, and said.")  # fmt: skip
@output_options
@click.pass_obj
def compare(program: Program, /, **options: Any) -> None:
    """Judge the saved report NEW against the saved report BASE.

    Rows are joined by id. Each time, through its control, and each speed-up is a regression (exit
    1), an improvement, the same or inconclusive (exit 5), by its interval against --threshold. A
    row that only one report has is exit 1, and reports that cannot be compared are exit 2.
    """
    from gpumap.app.comparison import CompareRequest, compare_reports

    compare_reports(program, CompareRequest(**options))

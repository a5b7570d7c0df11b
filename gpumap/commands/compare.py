"""`gpumap compare`: what changed from one saved report to another?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gpumap.commands.option_types import FileType
from gpumap.commands.options import edited_option, output_options, setting, terms_options

if TYPE_CHECKING:
    from gpumap.app.program import Program

_OF_REPORTS = {
    "base": "BASE", "new": "NEW", "accept": "--accept", "accept_edited": "--accept-edited",
    "confirm": "--confirm", "other_machine": "--other-machine",
}  # fmt: skip


@click.command()
@click.argument("base", type=FileType(), required=False)
@click.argument("new", type=FileType(), required=False)
@click.option("--ab", nargs=2, metavar="'CMD A' 'CMD B'",
              help="Run two commands, interleaved sample by sample, and judge B against A. Each is "
              "[VAR=VALUE ...] [PYTHON -m] gpumap bench ...")  # fmt: skip
@click.option("--accept", metavar="REASON", help="Write NEW over BASE, with the reason inside.")
@edited_option
@terms_options
@setting("--inconclusive", type=click.Choice(["fail", "pass"]), default="fail",
         show_default=True, help="pass: inconclusive results exit 0, with a warning.")  # fmt: skip
@output_options
@click.pass_obj
def compare(program: Program, /, **options: Any) -> None:
    """Judge the saved report NEW against the saved report BASE, or one command against another.

    Rows are joined by id. Each time, through its control, and each speed-up is a regression (exit
    1), an improvement, the same or inconclusive (exit 5), by its interval against --threshold. A
    row that only one report has is exit 1, and reports that cannot be compared are exit 2.
    """
    from gpumap.app.comparison import CompareRequest, compare_reports

    for name, word in _OF_REPORTS.items():
        source = click.get_current_context().get_parameter_source(name)
        if options["ab"] is not None and source is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--ab measures both sides itself; omit {word}")
        if options["ab"] is None and name in ("base", "new") and options[name] is None:
            raise click.MissingParameter(param_hint=f"'{word}'", param_type="argument")
    if options["ab"] is None:
        compare_reports(program, CompareRequest(**options))
    else:
        from gpumap.app.interleaved import compare_commands

        compare_commands(program, CompareRequest(**options))

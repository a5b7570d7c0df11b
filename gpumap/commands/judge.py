"""Section Judge of the help: `compare`, `report` and `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.option_types import FileType
from gpumap.commands.options import inconclusive_option, output_options, setting, terms_options

if TYPE_CHECKING:
    from gpumap.app.program import Program


@click.command()
@click.argument("base", type=FileType(), required=False)
@click.argument("new", type=FileType(), required=False)
@click.option("--ab", nargs=2, metavar="'CMD A' 'CMD B'",
              help="Run two commands in whole runs, A B B A, each with its own --budget, and judge "
              "B against A by what all runs show: for a machine whose speed varies. Each is "
              "[VAR=VALUE ...] [LAUNCHER ...] [PYTHON -m] gpumap bench ...")  # fmt: skip
@setting("--confirm", is_flag=True,
         help="Run NEW's command once more where a metric is a regression, which it is only if "
         "both runs show it.")  # fmt: skip
@terms_options
@inconclusive_option
@output_options
def compare(program: Program, /, **options: Any) -> None:
    """Judge a new report, or command, against another.

    Rows are joined by id. Each time, through its control, and each speed-up is a regression (exit
    1), an improvement, the same or inconclusive (exit 5), by its interval against --threshold. A
    row that only one report has is exit 1; a report of another machine or command is exit 2.
    """
    from gpumap.app.comparison import CompareRequest, compare_reports

    request = CompareRequest(**options)
    if request.ab is None:
        if request.base is None or request.new is None:
            raise click.UsageError("name two saved reports: BASE and NEW")
        compare_reports(program, request)
        return
    from gpumap.app.sides import compare_commands

    if request.base is not None or request.confirm:
        raise click.UsageError("--ab measures both sides itself; omit BASE, NEW and --confirm")
    compare_commands(program, request)


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, type=FileType())
@click.option("--schema", is_flag=True, help="Print the JSON Schema of reports instead.")
@click.option("--nodes", metavar="DIR", type=FileType(),
              help="Show each node's report of preflight in DIR; write passing.txt and failing.txt "
              "there.")  # fmt: skip
@output_options
def report(program: Program, /, **options: Any) -> None:
    """Show saved reports again: one, or several side by side.

    A FILE is JSON that --output has written. Several become one table, rows joined by id, each
    figure with its ratio to the first report; verdicts are for `gpumap compare`. The exit code is
    0 if they could be shown, whatever theirs was, and 2 if not.
    """
    from gpumap.app.showing import show_reports

    show_reports(program, **options)


@click.command()
@click.argument("words", metavar="[TOPIC]...", nargs=-1)
@click.pass_obj
def explain(program: Program, *, words: tuple[str, ...]) -> None:
    """Say what a word of a report means, and what to do about it.

    A topic is a metric, a cause, a flag, a mark, a status, an exit code, a column, a code, or a
    cause that `doctor` names, such as GM102; GM2 has all of the second group. Without one, all
    topics are listed.
    """
    from gpumap.app.explaining import explain_words

    explain_words(program, words)

"""`gpumap explain`: what a word of a report means, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from gpumap.commands.options import chosen_format, json_option, setting
from gpumap.report.topics import FORMATS

if TYPE_CHECKING:
    from gpumap.app.program import Program


def _completed(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return the topics that begin so, for a shell."""
    from gpumap.app.showing import begun_by

    return [CompletionItem(name, help=line) for name, line in begun_by(begun).items()]


@click.command()
@click.argument("words", metavar="[TOPIC]...", nargs=-1, shell_complete=_completed)
@setting(
    "--format",
    "format_",
    type=click.Choice(["auto", *FORMATS]),
    default="auto",
    show_default=True,
    help="The form of the text on stdout.",
)
@json_option
@click.pass_obj
def explain(program: Program, *, words: tuple[str, ...], format_: str, json: bool) -> None:
    """Say what a word of a report means, and what to do about it.

    A topic is a metric, a cause, a flag, a mark, a status, an exit code, a column, a code, or a
    cause that `doctor` names, such as GM102; GM2 has all of the second group. Without one, all
    topics are listed.
    """
    from gpumap.app.showing import explain_words

    explain_words(program, words, chosen_format(format_, json=json))

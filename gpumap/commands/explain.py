"""`gpumap explain`: what a word of a report means, and what to do about it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from gpumap.app.output import show
from gpumap.commands.options import setting
from gpumap.doctor.pages import PAGES, pages
from gpumap.errors import Diagnostic, QuestionError
from gpumap.escape import printable
from gpumap.judge.topics import TOPICS, named, nearest, typed
from gpumap.report.topics import FORMATS, render

if TYPE_CHECKING:
    from gpumap.app.program import Program
    from gpumap.judge.topics import Topic

_SHOWN = 60  # characters of the user's word


def _completed(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return the topics that begin so, for a shell; a word with several meanings once."""
    found: dict[str, str] = {}
    for topic in (*TOPICS, *PAGES):
        found.setdefault(typed(topic), topic.summary)
    return [CompletionItem(n, help=line) for n, line in found.items() if n.startswith(begun)]


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
@click.pass_obj
def explain(program: Program, *, words: tuple[str, ...], format_: str) -> None:
    """Say what a word of a report means, and what to do about it.

    A topic is a metric, a cause, a flag, a mark, a status, an exit code, a column, a code, or a
    cause that `doctor` names, such as GM102; GM2 has all of the second group. Without one, all
    topics are listed.
    """
    show(partial(render, _topics(words)), format_, program)


def _topics(words: tuple[str, ...]) -> tuple[Topic, ...]:
    """Return the topics of all words, each once, or say which words are none."""
    unknown = tuple(_unknown(word) for word in dict.fromkeys(words) if not _found(word))
    if unknown:
        raise QuestionError(unknown)
    return tuple(dict.fromkeys(topic for word in words for topic in _found(word)))


def _found(word: str) -> tuple[Topic, ...]:
    return named(word) or pages(word)


def _unknown(word: str) -> Diagnostic:
    *others, last = nearest(word) or ("",)
    near = f"{', '.join(others)} or {last}" if others else last
    fix = f"did you mean {near}?" if near else "`gpumap explain` lists all topics"
    return Diagnostic("unknown-topic", f'no topic is called "{printable(word[:_SHOWN])}"', hint=fix)

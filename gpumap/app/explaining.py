"""The topics of a report's words, found by what a user calls them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpumap.app.output import show
from gpumap.doctor.pages import pages
from gpumap.errors import Diagnostic, QuestionError
from gpumap.escape import printable
from gpumap.explain.lookup import every, named, nearest, typed
from gpumap.report.topics import render

if TYPE_CHECKING:
    from gpumap.app.program import Program
    from gpumap.explain.lookup import Topic

_SHOWN = 60  # characters of the user's word


def explain_words(program: Program, words: tuple[str, ...], format_: str) -> None:
    """Show the topics of all words, or the list of all topics."""
    show(partial(render, _topics(words)), format_, program)


def begun_by(begun: str) -> dict[str, str]:
    """Return the summary of each topic that begins so; of a word with several meanings one."""
    found: dict[str, str] = {}
    for topic in (*every(), *pages()):
        found.setdefault(typed(topic), topic.summary)
    return {name: line for name, line in found.items() if name.startswith(begun)}


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

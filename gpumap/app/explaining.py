"""Topics: what a word of a report means, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.app.program import Program, columns
from gpumap.doctor.diagnose import pages
from gpumap.errors import Diagnostic, QuestionError
from gpumap.explain import KINDS, Topic, every, named, nearest, typed
from gpumap.report.diagnostics import fitted
from gpumap.text import cut

if TYPE_CHECKING:
    from collections.abc import Iterator


_NO_FAULT = ("metric", "column", "case", "parameter", "route", "concept")  # nothing to fix: a hint
_MORE = "`gpumap explain TOPIC` says more of each, and what to do"


def explain_words(program: Program, words: tuple[str, ...]) -> None:
    """Print the topics of all words, or the list of all topics: a line for each thing in a pipe.

    Raises:
        QuestionError: a word is no topic.
    """
    if _matches(together := " ".join(words)):
        words = (together,)  # `explain vs control`, without quotes
    unknown = tuple(_unknown(word) for word in dict.fromkeys(words) if not _matches(word))
    if unknown:
        raise QuestionError(unknown)
    topics = dict.fromkeys(topic for word in words for topic in _matches(word))
    lines = list(_explained(list(topics)) if topics else _listed())
    program.stdout.write("".join(f"{line}\n" for line in fitted(lines, columns(program.stdout))))


def _matches(word: str) -> tuple[Topic, ...]:
    return named(word) or pages(word)


def _unknown(word: str) -> Diagnostic:
    *others, last = nearest(word) or ("",)
    near = f"{', '.join(others)} or {last}" if others else last
    fix = f"did you mean {near}?" if near else "`gpumap explain` lists all topics"
    return Diagnostic("unknown-topic", f'no topic is called "{cut(word)}"', hint=fix)


def _explained(topics: list[Topic]) -> Iterator[str]:
    for number, topic in enumerate(topics):
        if number:
            yield ""
        yield f"{topic.kind} {topic.name}: {topic.summary}"
        if topic.text:
            yield f"  {topic.text}"
        if topic.fix is not None:
            label = "hint" if topic.kind in _NO_FAULT else "fix"
            yield f"  {label}: {topic.fix}"


def _listed() -> Iterator[str]:
    topics = (*every(), *pages())
    column = max(len(typed(topic)) for topic in topics)
    yield _MORE
    for kind, heading in KINDS.items():
        yield ""
        yield heading
        for topic in (each for each in topics if each.kind == kind):
            yield f"  {typed(topic):{column}}  {topic.summary}"

"""Every word of a report that may need explaining, in one table: what it says, what to do.

The lists are closed: a metric, cause, flag, mark, status, exit code or code that has no topic here
fails a test, and so does a topic for something that does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import spelling
from gpumap.bench import registry
from gpumap.judge.topics import (
    cases,
    codes_map,
    codes_run,
    columns,
    concepts,
    endings,
    marks,
    metrics,
)
from gpumap.judge.topics.topic import KINDS, Kind, Topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["KINDS", "TOPICS", "Kind", "Topic", "every", "named", "nearest", "typed"]

_NEAR = 3  # topics offered for a word that is none
_TELLING = 3  # letters that are enough to find a word by a part of it
_LONGEST = 40  # letters that are compared: more than any topic has

TOPICS = (
    *metrics.TOPICS,
    *marks.TOPICS,
    *endings.TOPICS,
    *columns.TOPICS,
    *cases.TOPICS,
    *concepts.TOPICS,
    *codes_map.TOPICS,
    *codes_run.TOPICS,
)


def every() -> tuple[Topic, ...]:
    """Return all topics: those of the table, and what benchmarks say of their own words."""
    there = {(topic.kind, topic.name) for topic in TOPICS}
    return (*TOPICS, *(t for t in _of_benchmarks() if (t.kind, t.name) not in there))


def _of_benchmarks() -> Iterator[Topic]:
    for spec in registry.every():
        command = " ".join(("gpumap", *spec.command))
        for case in spec.cases:
            if case.about:
                yield Topic(case.name, "case", case.about, f"`{command}` measures it.")
        for column in spec.columns:
            if isinstance(column, registry.Column) and column.about:
                yield Topic(column.name, "column", column.about, f"`{command}` has it.")


def named(word: str) -> tuple[Topic, ...]:
    """Return every topic of this name.

    Case, blanks, hyphens, underscores and apostrophes make no difference. Benchmarks are loaded for
    a word that the table does not have.
    """
    return _named(word, TOPICS) or _named(word, every())


def _named(word: str, topics: Sequence[Topic]) -> tuple[Topic, ...]:
    return tuple(topic for topic in topics if _plain(topic.name) == _plain(word))


def nearest(word: str) -> tuple[str, ...]:
    """Return the names that a shortened or misspelled word may have meant."""
    asked = _plain(word)[:_LONGEST]
    names = {_plain(topic.name): typed(topic) for topic in every()}
    longer = [name for name in names if len(asked) >= _TELLING and asked in name]
    alike = spelling.nearest(asked, names, _NEAR)
    return tuple(names[found] for found in dict.fromkeys([*longer, *alike]))[:_NEAR]


def typed(topic: Topic) -> str:
    """Return a topic's name as it is typed: one word, which needs no quotes."""
    return topic.name.replace(" ", "-").replace("'", "")


def _plain(word: str) -> str:
    return "".join(c for c in word.casefold() if c not in " -_'")

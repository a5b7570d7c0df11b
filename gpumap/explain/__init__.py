"""Topics that explain the terms of a report: their meaning, and what to do.

Their texts are in the TOML files of this folder, those of metrics in that of the model, and are
read when one is looked up. The lists are closed: a metric, cause, flag, mark, status, exit code or
code that has no topic there fails a test, and so does a topic for something that does not exist.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from gpumap.bench import registry
from gpumap.files import shipped
from gpumap.text import nearest as nearest_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Each kind, in the order of the list, and its heading.
KINDS = {
    "metric": "Metrics: the figures of a row",
    "cause": "Causes: why a speed-up or a copy stays below what could be",
    "flag": "Flags: what to bear in mind with a row",
    "mark": "Marks: what is odd about a single sample",
    "row status": "Status of a row",
    "report status": "Status of a report",
    "stop": "Stops: why measuring a row ended",
    "exit code": "Exit codes",
    "column": "Columns of the tables that are no metric",
    "case": "Cases: what a benchmark measures",
    "parameter": "Parameters: how a case copies, as `params` and ids have it",
    "route": "Routes: how a copy between devices went",
    "verdict": "Verdicts on limits, and on what changed since a base",
    "concept": "Concepts",
    "code": "Codes of errors, warnings, notes and reasons, as JSON has them",
    "diagnosis": "Causes that `doctor` names: why a device is not used",  # gpumap.doctor.diagnose
}
_FILES = ("metrics", "flags", "statuses", "columns", "cases", "concepts", "codes")
_OFFERED = 3  # topics offered for an unknown word
_ENOUGH = 3  # letters from which on a part of a word matches
_LONGEST = 40  # letters that are compared: more than any topic has


class Topic(NamedTuple):
    """A term with a summary; where that does not say all, an explanation, and what to do."""

    name: str
    kind: str
    summary: str
    text: str = ""
    fix: str | None = None


def table() -> tuple[Topic, ...]:
    """Return the topics of all files."""
    return tuple(topic for file in _FILES for topic in read(file))


@cache
def read(file: str) -> tuple[Topic, ...]:
    """Return the topics of a file, in its order."""
    folder = "model" if file == "metrics" else "explain"  # the schema has metrics too
    tables = shipped(f"gpumap.{folder}", f"{file}.toml")
    return tuple(
        Topic(name, kind, texts) if isinstance(texts, str) else Topic(name, kind, **texts)
        for kind in KINDS
        for name, texts in tables.get(kind, {}).items()
    )


def every() -> tuple[Topic, ...]:
    """Return all topics: those of the table, of the reasons of verdicts, and of benchmarks."""
    from gpumap.judge.phrases import texts

    reasons = (Topic(reason, "verdict", why) for reason, why in texts("reasons").items())
    return (*table(), *reasons, *_of_benchmarks())


def _of_benchmarks() -> Iterator[Topic]:
    for spec in registry.every():
        command = " ".join(("gpumap", *spec.command))
        for case, about in spec.about.items():
            yield Topic(case, "case", about, f"`{command}` measures it.")
        for column in spec.columns:
            if isinstance(column, registry.Column) and column.about:
                yield Topic(column.name, "column", column.about, f"`{command}` has it.")


def named(word: str) -> tuple[Topic, ...]:
    """Return every topic of this name.

    Case, blanks, hyphens, underscores and apostrophes make no difference. Benchmarks are loaded for
    a word that the table does not have. A word that a topic lists as *word* is that topic's.
    """
    listing = tuple(topic for topic in table() if f"*{word.casefold()}*" in topic.text)
    return _named(word, table()) or listing or _named(word, every())


def _named(word: str, topics: Sequence[Topic]) -> tuple[Topic, ...]:
    query = _plain(word)
    return tuple(topic for topic in topics if _plain(topic.name) == query)


def nearest(word: str) -> tuple[str, ...]:
    """Return the names closest to a shortened or misspelled word."""
    query = _plain(word)[:_LONGEST]
    names = {_plain(topic.name): typed(topic) for topic in every()}
    longer = [name for name in names if len(query) >= _ENOUGH and query in name]
    alike = nearest_words(query, names, _OFFERED)
    return tuple(names[name] for name in dict.fromkeys([*longer, *alike]))[:_OFFERED]


def typed(topic: Topic) -> str:
    """Return a topic's name as it is typed: one word, which needs no quotes."""
    return topic.name.replace(" ", "-").replace("'", "")


def _plain(word: str) -> str:
    return "".join(c for c in word.casefold() if c not in " -_'")

"""Every word of a report that may need explaining, in one table: what it says, what to do.

The lists are closed: a metric, cause, flag, mark, status, exit code or code that has no topic here
fails a test, and so does a topic for something that does not exist.
"""

from __future__ import annotations

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

__all__ = ["KINDS", "TOPICS", "Kind", "Topic", "named", "nearest", "typed"]

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


def named(word: str) -> tuple[Topic, ...]:
    """Return every topic of this name.

    Case, blanks, hyphens, underscores and apostrophes make no difference.
    """
    return tuple(topic for topic in TOPICS if _plain(topic.name) == _plain(word))


def nearest(word: str) -> tuple[str, ...]:
    """Return the names that a shortened or misspelled word may have meant."""
    from difflib import get_close_matches

    asked = _plain(word)[:_LONGEST]
    names = {_plain(topic.name): typed(topic) for topic in TOPICS}
    longer = [name for name in names if len(asked) >= _TELLING and asked in name]
    alike = get_close_matches(asked, names, _NEAR)
    return tuple(names[found] for found in dict.fromkeys([*longer, *alike]))[:_NEAR]


def typed(topic: Topic) -> str:
    """Return a topic's name as it is typed: one word, which needs no quotes."""
    return topic.name.replace(" ", "-").replace("'", "")


def _plain(word: str) -> str:
    return "".join(c for c in word.casefold() if c not in " -_'")

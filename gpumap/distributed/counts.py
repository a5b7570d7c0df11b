"""Numbers of devices, as a user writes them: single ones, several, or a geometric range."""

from __future__ import annotations

import re

from gpumap.errors import QuestionError

MOST = 1_000_000  # nobody has more
_COUNT = re.compile(r"[1-9][0-9]{0,6}", re.ASCII)
_FACTOR = re.compile(r"x([2-9]|[1-9][0-9]{1,5})", re.ASCII)
_FIX = "write 2, or 2,4,8, or 2:1024:x2"
_SHOWN = 40  # characters of what is wrong


def counts(text: str) -> tuple[int, ...]:
    """Parse ``2``, ``2,4,8`` or ``2:1024:x2`` into numbers of devices, ascending.

    Raises:
        QuestionError: it is none of them; the message ends in the fix.
    """
    found: list[int] = []
    for part in text.split(","):
        first, *others = part.strip().split(":")
        found += _range(part, first, *others) if others else [_count(part, first)]
    if len(set(found)) < len(found):
        raise QuestionError("a number of devices stands twice", "name each once")
    return tuple(sorted(found))


def _count(part: str, word: str) -> int:
    if not _COUNT.fullmatch(word) or int(word) > MOST:
        raise QuestionError(f"{part[:_SHOWN]!r} is no number of devices", _FIX)
    return int(word)


def _range(part: str, *words: str) -> list[int]:
    if len(words) != 3 or not (factor := _FACTOR.fullmatch(words[2])):  # noqa: PLR2004 - first:last:xfactor
        raise QuestionError(f"{part[:_SHOWN]!r} is no range of devices", _FIX)
    number, last = _count(part, words[0]), _count(part, words[1])
    if number > last:
        raise QuestionError(f"{part[:_SHOWN]!r} goes nowhere", _FIX)
    found = []
    while number <= last:
        found.append(number)
        number *= int(factor[1])
    return found

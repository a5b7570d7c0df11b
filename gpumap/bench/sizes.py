"""The sizes of a benchmark, as a user writes them: single ones, several, or a geometric range."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap import spelling, units
from gpumap.errors import QuestionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.model import Param

# As keys of rows.
KEYS = ("bytes", "size_name")
NAMED = {"small": 10 * 10 * 4, "large": 10000 * 10 * 4}  # bytes: Theano users' float32 matrices
MOST = 10**9 - 1  # rows, or a side: no machine has room for more
_SHOWN = 20  # digits of a number that is too large


@dataclass(frozen=True, slots=True)
class Size:
    """A number of bytes, and the user's word for it."""

    nbytes: int
    name: str | None = None


def told(params: Mapping[str, Param]) -> str:
    """Return the bytes of a row, with the user's word for them: ``small = 400 bytes``."""
    word = f"{params['size_name']} = " if "size_name" in params else ""
    return f"{word}{params['bytes']} {'byte' if params['bytes'] == 1 else 'bytes'}"


def squares(text: str, option: str = "--size", key: str = "") -> tuple[int, ...]:
    """Parse ``1024``, ``256,1024`` or ``256:4096:x2``; `option` and `key` are what a fix names.

    Raises:
        QuestionError: it is none of them; the message ends in the fix.
    """
    said, found = f"{option} {key}", list[int]()
    for part in text.split(","):
        stripped = part.strip()
        found += _squares(stripped, said) if ":" in part else [_side(stripped, said)]
    if any(later in found[:n] for n, later in enumerate(found)):
        raise QuestionError(f"a size stands twice in {text!r}", "name each size once")
    return tuple(found)


def _side(text: str, said: str) -> int:
    whole = text.isascii() and text.isdigit()
    if whole and len(text.lstrip("0")) > len(str(MOST)):
        raise QuestionError(f"{text[:_SHOWN]!r} is too large: a size is {MOST} at most",
                            f"write {said}1024")  # fmt: skip
    if not whole or not text.strip("0"):
        raise QuestionError(
            f"{text!r} is not a size: a whole number from 1 on", f"write {said}1024"
        )
    return int(text)


def _squares(text: str, said: str) -> list[int]:
    ends = text.split(":")
    if len(ends) != 3 or not ends[2].startswith("x"):  # noqa: PLR2004 - first:last:xfactor
        fix = "write first:last:xfactor, such as 256:4096:x2"
        raise QuestionError(f"{text!r} is not a range of sizes", fix)
    size, last, factor = (_side(end, said) for end in (*ends[:2], ends[2][1:]))
    if size > last or factor < 2:  # noqa: PLR2004 - a factor of 1 never ends
        raise QuestionError(f"{text!r} goes nowhere", "first <= last, and a factor of 2 or more")
    found = []
    while size <= last:
        found.append(size)
        size *= factor
    return found


def transfers(text: str, named: Mapping[str, int] = NAMED) -> tuple[Size, ...]:
    """Parse ``small,large``, ``4KiB`` or ``64B:1GiB:x2``; ``sweep`` is the model's own ladder.

    Args:
        text: what a user wrote.
        named: bytes that have a word.

    Raises:
        QuestionError: it is none of them; the message ends in the fix.
    """
    found: list[Size] = []
    for part in text.split(","):
        try:
            found += _transfers(part.strip(), named)
        except ValueError as error:
            problem, _, fix = str(error).partition(": ")
            if part.strip()[:1].isalpha():  # a word
                known = f"write 4KiB, or one of {', '.join(named)}"
                fix = spelling.fix(part.strip(), named, known)
            raise QuestionError(problem, fix or "write small, large, 4KiB or 1MB") from None
    repeated = {s.nbytes for n, s in enumerate(found) if s.nbytes in {f.nbytes for f in found[:n]}}
    if repeated:
        raise QuestionError(f"{min(repeated)} bytes stand twice in {text!r}", "name each size once")
    return tuple(found)


def _transfers(part: str, named: Mapping[str, int]) -> list[Size]:
    if not part:
        raise ValueError("an empty size: drop one comma, or write small,large")
    if part in named:
        return [Size(named[part], part)]
    if ":" not in part:
        return [Size(units.nbytes(part))]
    ends = part.split(":")
    if len(ends) != 3 or not re.fullmatch("x[0-9]{1,9}", ends[2]):  # noqa: PLR2004 - three parts
        raise ValueError(f"{part!r} is not a range of sizes: write 64B:1GiB:x2")
    size, last, factor = units.nbytes(ends[0]), units.nbytes(ends[1]), int(ends[2][1:])
    if size > last or factor < 2:  # noqa: PLR2004 - a factor of 1 never ends
        raise ValueError(f"{part!r} goes nowhere: first <= last, and a factor of 2 or more")
    found = []
    while size <= last:
        found.append(Size(size))
        size *= factor
    return found

"""Sizes as a user writes them: of matrices, of arrays in bytes, and numbers of devices."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.errors import QuestionError
from gpumap.text import cut
from gpumap.text import fix as fix_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

NAMED = {"small": 4 << 10, "medium": 1 << 20, "large": 64 << 20}  # bytes
MOST = 10**9 - 1  # rows, or a side: no machine has room for more
_DEVICES = 1_000_000


def squares(text: str, option: str = "--size") -> tuple[int, ...]:
    """Parse ``1024``, ``256,1024`` or ``256:4096:x2``; messages name `option`.

    Raises:
        QuestionError: it is none of them, with the fix.
    """
    read = partial(_whole, MOST, f"write {option} 1024")
    return _series(option, text, read, "256:4096:x2")


def counts(text: str) -> tuple[int, ...]:
    """Parse ``2``, ``2,4,8`` or ``2:1024:x2`` into numbers of devices, ascending.

    Raises:
        QuestionError: it is none of them, with the fix.
    """
    read = partial(_whole, _DEVICES, "write 2, or 2,4,8, or 2:1024:x2")
    return tuple(sorted(_series("--devices", text, read, "2:1024:x2")))


def transfers(text: str, named: Mapping[str, int] = NAMED) -> tuple[int, ...]:
    """Parse ``small,large``, ``4KiB`` or ``64B:1GiB:x2`` into bytes; `named` have a word.

    Raises:
        QuestionError: it is none of them, with the fix.
    """
    return _series("--sizes", text, partial(_bytes, named), "64B:1GiB:x2")


def _series(option: str, text: str, read: Callable[[str], int], example: str) -> tuple[int, ...]:
    """Parse numbers and ranges ``first:last:xfactor``; `read` parses one number."""
    found: list[int] = []
    try:
        for part in map(str.strip, text.split(",")):
            found += _range(part, read, example) if ":" in part else [read(part)]
    except QuestionError as error:
        (wrong,) = error.diagnostics
        raise QuestionError(f"{option}: {wrong.message}", wrong.hint) from None
    if len(set(found)) < len(found):
        raise QuestionError(f"{option}: {text!r} has a number twice", "name each once")
    return tuple(found)


def _range(part: str, read: Callable[[str], int], example: str) -> Iterator[int]:
    ends = part.split(":")
    if len(ends) != 3 or not re.fullmatch("x[0-9]{1,9}", ends[2]):  # noqa: PLR2004 - three parts
        fix = f"write first:last:xfactor, such as {example}"
        raise QuestionError(f"{cut(part)!r} is not a range", fix)
    size, last, factor = read(ends[0]), read(ends[1]), int(ends[2][1:])
    if size > last or factor < 2:  # noqa: PLR2004 - a factor of 1 never ends
        fix = "first <= last, and a factor of 2 or more"
        raise QuestionError(f"{cut(part)!r} goes nowhere", fix)
    while size <= last:
        yield size
        size *= factor


def _whole(most: int, fix: str, text: str) -> int:
    digits = text.lstrip("0") if text.isascii() and text.isdigit() else ""
    if not digits or len(digits) > len(str(most)) or int(digits) > most:
        problem = f"{cut(text)!r} is not a whole number from 1 to {most:,}"
        raise QuestionError(problem, fix)
    return int(digits)


def _bytes(named: Mapping[str, int], text: str) -> int:
    try:
        return named.get(text) or units.nbytes(text)
    except units.UnitError as error:
        known = f"write 4KiB, or one of {', '.join(named)}"
        fix = fix_word(text, named, known) if text[:1].isalpha() else error.fix
        raise QuestionError(error.problem, fix) from None

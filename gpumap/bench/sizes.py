"""The sizes of a benchmark, as a user writes them: single ones, several, or a geometric range.

What cannot be asked of a map and of its devices, said before anything is measured.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpumap import spelling, units
from gpumap.errors import QuestionError, Unsupported
from gpumap.escape import printable
from gpumap.model import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumap.backends.base import Session
    from gpumap.bench.registry import BenchmarkSpec
    from gpumap.dtypes import Arithmetic
    from gpumap.model import Binding, Param

# As keys of rows.
KEYS = ("bytes", "size_name")
NAMED = {"small": 10 * 10 * 4, "large": 10000 * 10 * 4}  # bytes: Theano users' float32 matrices
MOST = 10**9 - 1  # rows, or a side: no machine has room for more
_SHOWN = 20  # digits of a number that is too large


def check_names(
    spec: BenchmarkSpec, bindings: Sequence[Binding], asked: Sequence[str] | None
) -> None:
    """Refuse a case that was asked for and needs more names than the map has.

    Raises:
        QuestionError: one does; a case that was not requested is skipped instead.
    """
    for case in asked or ():
        if _several(spec, case) and len(bindings) == 1:
            fix = "map a second name, or leave the case away"
            raise QuestionError(f"the case {case} needs two names, and the map has one", fix)


def named(bindings: Sequence[Binding], name: str | None) -> Binding | None:
    """Return the binding that --reference names; None where it is not given.

    Raises:
        QuestionError: the map does not have the name.
    """
    found = next((binding for binding in bindings if binding.name == name), None)
    if name is not None and found is None:
        fix = f"use one of the map's names: {printable(', '.join(b.name for b in bindings))}"
        raise QuestionError(f"--reference: the map has no name {printable(name)}", fix)
    return found


def check_features(
    bindings: Iterable[Binding], sessions: Mapping[str, Session], dtype: Arithmetic
) -> None:
    """Raise Unsupported if a device has no products of this type."""
    for binding in bindings:
        features: Any = sessions[binding.name].features
        if dtype != "float32" and dtype not in features:
            device = binding.device
            raise Unsupported(
                f"{device.ref} ({device.backend}) has no {dtype} products",
                f"use --dtype float32, or map {binding.name} to a device that has them",
            )


def one_device(spec: BenchmarkSpec, case: str, bindings: Sequence[Binding]) -> Reason | None:
    """Return why a case of several devices that was not requested is skipped; None if it is not."""
    if _several(spec, case) and len(bindings) == 1:
        return Reason("one-device", "the map has one name: a speed-up needs two")
    return None


def _several(spec: BenchmarkSpec, case: str) -> bool:
    return any(one.several for one in spec.cases if one.name == case)


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

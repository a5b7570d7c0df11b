"""Quantities for people: SI base units inside, scaled and rounded only here."""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SI = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15))
_SMALL = (("", 1.0), ("m", 1e-3), ("µ", 1e-6), ("n", 1e-9), ("p", 1e-12))
_LARGE = _SI[::-1]  # as _SMALL, the largest first
_BINARY = (("", 1), ("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("Ti", 1 << 40))

_BYTES = {"KB": 1e3, **{f"{p}B": float(f) for p, f in (*_SI[:5], *_BINARY[1:])}}
_AMBIGUOUS = ("k", "m", "g", "t")  # 1K: 1000 or 1024 bytes?
# What a limit may be written in, by the unit of its metric, or an option; and an example.
_QUANTITIES = {
    "1": ({"": 1.0, "x": 1.0, "%": 1e-2}, "1.8 or 90%"),
    "s": ({"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "\u03bcs": 1e-6, "ns": 1e-9}, "5ms"),
    "duration": ({"": 1.0, "s": 1.0, "ms": 1e-3, "m": 60.0, "min": 60.0, "h": 3600.0},
                 "30, 30s, 500ms or 2m"),
    "share": ({"%": 1e-2}, "2% or 0.5%"),
    "B": (_BYTES, "4KiB"),
    "bytes": ({"": 1.0, **_BYTES}, "400, 4KiB or 1MB"),
    "B/s": ({f"{unit}/s": size for unit, size in _BYTES.items()}, "50GB/s"),
    "FLOP/s": ({f"{prefix}FLOP/s": factor for prefix, factor in _SI}, "10TFLOP/s"),
    "1/s": ({f"{prefix}/s": factor for prefix, factor in _SI}, "100/s"),
}  # fmt: skip
_DIGITS = 3  # of a figure: its interval tells how many of them count
_ROUNDS_UP = 0.9995  # 999.6 G is shown as 1.00 T
_LONGEST = 32  # characters of a figure that can be meant
_MOST = 10**18  # bytes: a report holds whole numbers of 18 digits
_AGES = 1e9  # seconds; nothing here waits for thirty years


def memory(nbytes: int | None) -> str:
    """Return bytes in binary units, such as ``23.5 GiB``; a dash for what is unknown."""
    if nbytes is None:
        return "-"
    prefix, factor = next(((p, f) for p, f in reversed(_BINARY) if nbytes >= f), _BINARY[0])
    return f"{nbytes} B" if factor == 1 else f"{nbytes / factor:.1f} {prefix}B"


def same_prefix(values: Sequence[float], unit: str) -> list[str]:
    """Return figures of three digits: ``35.2 ms``, then others with its prefix and decimals."""
    prefix, factor = _prefix(values[0], unit)
    decimals = _decimals(values[0] / factor)
    texts = [f"{value / factor:.{decimals}f}" for value in values]
    label = "" if unit == "1" else f" {prefix}{unit.removeprefix('1')}"  # 7.4 k/s: 1/s is a rate
    return [texts[0] + label, *texts[1:]]


def single(value: float, unit: str) -> str:
    """Return one figure of three digits, with its unit."""
    return same_prefix((value,), unit)[0]


def short(value: float, unit: str) -> str:
    """Return one figure without zeros that tell nothing: ``1 ms``, ``250 kB``."""
    return _trimmed(single(value, unit))


def amount(nbytes: float) -> str:
    """Return a size without such zeros, binary where it is whole: ``400 kB``, ``16 MiB``."""
    whole = nbytes >= _BINARY[1][1] and nbytes % _BINARY[1][1] == 0
    return _trimmed(memory(int(nbytes))) if whole else short(nbytes, "B")


def _trimmed(text: str) -> str:
    number, blank, rest = text.partition(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number}{blank}{rest}"


def time_of(value: float) -> str:
    """Return a time with its unit: ``42.0 s``."""
    return single(value, "s")


def column(values: Sequence[float], unit: str) -> tuple[str, list[str]]:
    """Return the unit of the smallest figure, and all of them in it, with three digits or more."""
    prefix, factor = _prefix(min(map(abs, values)), unit)
    scaled = [value / factor for value in values]
    return f"{prefix}{unit}", [f"{value:,.{_decimals(value)}f}" for value in scaled]


def about(value: float, unit: str) -> str:
    """Return a figure of two digits, ``~3.4 ms``: one that few samples tell."""
    text, _, label = same_prefix((float(f"{value:.1e}"),), unit)[0].partition(" ")
    if "." in text and (cut := text.rstrip("0").rstrip(".")):
        text = f"{cut}.0" if len(cut) == 1 else cut
    return f"~{text}{' ' if label else ''}{label}"


def _decimals(value: float) -> int:
    """Return how many decimals make three digits; 9.999 is shown as 10.0."""
    whole = len(str(int(float(f"{abs(value):.{_DIGITS}g}")))) if isfinite(value) else 1
    return max(_DIGITS - whole, 0)


def _prefix(value: float, unit: str) -> tuple[str, float]:
    """Return the largest prefix that leaves a figure of one or more; none for plain numbers."""
    if unit == "1" or value == 0.0 or not isfinite(value):
        return "", 1.0
    steps = _SMALL if unit == "s" else _LARGE
    return next((step for step in steps if abs(value) >= step[1] * _ROUNDS_UP), steps[-1])


class UnitError(ValueError):
    """A text is no size or figure: what is wrong with it, and the fix."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"{problem}: {fix}")
        self.problem, self.fix = problem, fix


def duration(text: str) -> float:
    """Parse ``30``, ``30s``, ``500ms`` or ``2m`` into seconds.

    Raises:
        UnitError: it is no duration above zero.
    """
    return _below(text, "duration", _AGES)


def share(text: str) -> float:
    """Parse ``2%`` into 0.02.

    Raises:
        UnitError: it is no share above 0 and below 100 %.
    """
    return _below(text, "share", 1.0)


def _below(text: str, what: str, most: float) -> float:
    """Parse a figure between zero and another one."""
    found = quantity(text, what)
    if not 0.0 < found < most:
        raise UnitError(f"{text!r} is no {what} that there is", f"write {_QUANTITIES[what][1]}")
    return found


def nbytes(text: str) -> int:
    """Parse ``400``, ``4KiB`` or ``1MB`` into bytes.

    Raises:
        UnitError: it is no size above zero.
    """
    size = quantity(text, "bytes")
    if not 1 <= size < _MOST or size != int(size):
        problem = f"{text!r} is not a whole number of bytes from 1 to 1000 PB"
        raise UnitError(problem, "write 400 or 4KiB")
    return int(size)


def quantity(text: str, unit: str) -> float:
    """Parse ``1.8``, ``90%``, ``5ms``, ``4KiB``, ``50GB/s`` or ``10TFLOP/s`` as a figure in `unit`.

    Raises:
        UnitError: it is no figure, has no unit, or one of another dimension.
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-zµ\u03bc%/]*)", text.strip(), re.ASCII)
    known, example = _QUANTITIES[unit]
    if not match or len(text) >= _LONGEST:
        raise UnitError(f"{text!r} is not a figure", f"write {example}")
    number, given = match.groups()
    if given not in known:
        problem, fix = _wrong(number, given, unit)
        raise UnitError(f"{text!r} {problem}", fix)
    from decimal import Decimal

    return float(Decimal(number) * Decimal(repr(known[given])))  # 5us is 5e-6, to the last bit


def _wrong(number: str, given: str, unit: str) -> tuple[str, str]:
    """Return what is wrong with the unit that a figure has, and the fix."""
    _, example = _QUANTITIES[unit]
    letter, _, per = given.partition("/")
    if unit in ("B", "B/s", "bytes") and letter.lower() in _AMBIGUOUS and per in ("", "s"):
        rest, prefix = "/s" if unit == "B/s" else "", letter.upper()
        both = f"{number}{prefix}iB{rest} or {number}{prefix.replace('K', 'k')}B{rest}"
        return "can mean two figures", f"write {both}"
    return "has no unit that is known here", f"write {example}"


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as the kernel lists them: ``0-3,8``."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and spans[-1][-1] == number - 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    return ",".join("-".join(map(str, span)) for span in spans)


def counted(count: int, noun: str) -> str:
    """Return a number of things: ``1 row``, ``2 rows``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"

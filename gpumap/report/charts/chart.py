"""What a chart is: a title, the same in words, and how it is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import quantiles
from typing import TYPE_CHECKING, Any, TypeVar

from gpumap import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Estimate, Measurement

T = TypeVar("T")
_LARGEST, _SMALLEST = 1e30, 1e-30  # beyond, a file was edited: no chart has room for it
_FAR = 3.0  # times the distance of quartiles: Tukey's outer fence


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture to be drawn, `height` high; `told` says in text what it shows."""

    title: str
    told: tuple[str, ...]
    height: float
    draw: Callable[[Any], None]  # on a figure of matplotlib

    def noting(self, text: str) -> Chart:
        """Return the chart with one more thing said of it."""
        return replace(self, told=(*self.told, text))


def drawable(*figures: Estimate | None) -> bool:
    """Return whether figures have a place on an axis: above zero, and of this world."""
    return all(f and _SMALLEST < f.value < _LARGEST for f in figures)


def reach(values: Sequence[float], base: float | None = None) -> tuple[float, float]:
    """Return the ends of an axis, by quartiles: an outlier does not flatten the rest.

    Of an axis that starts at `base`, the rest keeps a quarter.
    """
    if len(values) < 2:  # noqa: PLR2004 - there is no other
        return min(values), max(values)
    first, _, last = quantiles(values, method="inclusive")
    room = _FAR * (last - (first if base is None else base)) or math.inf
    return max(min(values), first - room), min(max(values), last + room)


def first(
    found: Sequence[T], most: int, words: str = "rows are drawn"
) -> tuple[Sequence[T], list[str]]:
    """Return what there is room for, and what is to be said of the others."""
    more = [f"the first {most} of {len(found)} {words}"] if len(found) > most else []
    return found[:most], more


def counted(row: Measurement, figure: Estimate) -> str:
    """Return the remark after a figure without an interval: how few samples it has."""
    if figure.has_interval or row.samples is None:
        return ""
    count = len(row.samples.seconds)
    return f" ({count} {'sample' if count == 1 else 'samples'})"


def ends(figure: Estimate) -> tuple[float, float]:
    """Return the interval of a figure, an end that is infinite or unknown brought near."""
    low = figure.low if math.isfinite(figure.low) else figure.value
    high = figure.high if math.isfinite(figure.high) else figure.value
    return max(low, figure.value / 100), min(high, figure.value * 100)


def short(value: float, unit: str) -> str:
    """Return a figure without the zeros that an axis does not need: ``1 ms``, ``250 kB``."""
    number, blank, rest = units.together((value,), unit)[0].partition(" ")
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    return f"{number}{blank}{rest}"

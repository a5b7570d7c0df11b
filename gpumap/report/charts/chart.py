"""What a chart is: a title, the same in words, and how it is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpumap import units

if TYPE_CHECKING:
    from gpumap.model import Estimate

_LARGEST, _SMALLEST = 1e30, 1e-30  # beyond, a file was edited: no chart has room for it


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
    """Return whether figures can have a place: with intervals, above zero, and of this world."""
    return all(f and f.has_interval and _SMALLEST < f.value < _LARGEST for f in figures)


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

"""Figures with their intervals, as they were before they were written."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpumap.model import Estimate
from gpumap.saved.shape_1 import UNITS
from gpumap.saved.tree import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.saved.shape_1 import Figure, Metric

_BELOW_ZERO = ("fetch",)  # a difference
_REFUSED = ("speedup", "speedup_over_one", "ideal", "ideal_balanced", "efficiency")  # by a ceiling
_COUNTED = ("calls_to_amortise_setup",)  # there is no call number infinity


def metrics(shapes: Mapping[Metric, Figure], path: str) -> dict[str, Estimate]:
    """Return the metrics of a row, each in the one unit that it has.

    Raises:
        Refused: a unit is another, an interval is none, a figure is below 0 that cannot be.
    """
    return {name: _metric(name, shape, f"{path}.{name}") for name, shape in shapes.items()}


def _metric(name: Metric, shape: Figure, path: str) -> Estimate:
    if shape.unit != UNITS[name]:
        raise Refused(f'the unit of {name} is "{UNITS[name]}", not "{shape.unit}"', f"{path}.unit")
    found = estimate(shape, path)
    least = found.low if found.has_interval else found.value
    if least < 0.0 and name not in _BELOW_ZERO:
        raise Refused(f"{name} is never below 0", f"{path}.low")
    if found.impossible and name not in _REFUSED:
        raise Refused(f"{name} has no ceiling", path)
    if name in _COUNTED and len(set(map(math.isfinite, (found.low, found.value, found.high)))) > 1:
        raise Refused(f"{name} is a number, or infinite", path)
    return found


def estimate(shape: Figure, path: str) -> Estimate:
    """Return a figure; what is null is what `nonfinite` says, and two null ends are no interval.

    Raises:
        Refused: `nonfinite` is missing or too much, or the interval does not hold the value.
    """
    ends = (shape.value, shape.low, shape.high)
    refused = shape.nonfinite == "impossible"
    if refused and ends == (None, None, None):
        return Estimate.refused(shape.unit)
    if shape.value is not None and (*ends[1:], shape.nonfinite) == (None, None, None):
        return Estimate.without_interval(shape.value, shape.unit)
    if refused or (None in ends) != (shape.nonfinite is not None):
        raise Refused("nonfinite stands beside null, and nowhere else", path)
    value, low, high = (_number(x, shape.nonfinite) for x in ends)
    if low > value or value > high:
        raise Refused("the interval does not hold its value", path)
    return Estimate(value, low, high, shape.unit)


def _number(found: float | None, instead: str | None) -> float:
    if found is not None:
        return found
    return math.nan if instead is None else float(instead)

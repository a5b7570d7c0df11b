"""Figures with their intervals, what bounds them, and what explains them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

LimitOrigin = Literal["measured", "computed", "reported"]  # by gpumap; or by a table, or a driver


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval; the interval holds in this run.

    From -inf to inf means that there is no interval: no comparison with an end of it is then true.
    """

    value: float
    low: float
    high: float
    unit: str

    @classmethod
    def without_interval(cls, value: float, unit: str) -> Self:
        """Return a figure of too few samples for an interval."""
        return cls(value, -math.inf, math.inf, unit)

    @classmethod
    def refused(cls, unit: str) -> Self:
        """Return the place of a ratio that no hardware can have."""
        return cls(math.nan, -math.inf, math.inf, unit)

    @property
    def has_interval(self) -> bool:
        """Return whether it has one."""
        return (self.low, self.high) != (-math.inf, math.inf)

    @property
    def impossible(self) -> bool:
        """Return whether it is the place of a refused ratio."""
        return math.isnan(self.value) and not self.has_interval


@dataclass(frozen=True, slots=True)
class Limit:
    """What physics allows a metric to be, and how that is known."""

    metric: str
    value: float
    unit: str
    source: str  # how it was measured, or what it was computed from
    origin: LimitOrigin


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What physics allows a figure to be, and how much of it was reached."""

    metric: str
    value: float
    unit: str
    share: float
    source: str  # how it was measured, or what it was computed from
    origin: LimitOrigin


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a figure is not what it could be: one cause of a closed list, and its figures."""

    cause: str
    text: str
    figures: Mapping[str, Estimate] = field(default_factory=dict)

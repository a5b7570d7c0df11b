"""Figures with their intervals, what bounds them, and what explains them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval; the interval holds in this run."""

    value: float
    low: float
    high: float
    unit: str


@dataclass(frozen=True, slots=True)
class Limit:
    """What physics allows a metric to be, and how that is known."""

    metric: str
    value: float
    unit: str
    source: str  # measured, and how; or computed, and from what


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What physics allows a figure to be, and how much of it was reached."""

    metric: str
    value: float
    unit: str
    share: float
    source: str  # measured, and how; or computed, and from what


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a figure is not what it could be: one cause of a closed list, and its figures."""

    cause: str
    text: str
    figures: Mapping[str, Estimate] = field(default_factory=dict)

"""Figures with their intervals, what bounds them, and what explains them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Self

LimitOrigin = Literal["measured", "computed", "reported"]  # by gpumap; or by a table, or a driver
Unit = Literal["s", "FLOP/s", "B/s", "1", "B", "1/s"]
UNITS: dict[str, Unit] = {  # of each metric
    "time": "s", "rate": "FLOP/s", "bandwidth": "B/s", "bus_bandwidth": "B/s",
    "speedup": "1", "speedup_over_one": "1", "speedup_over_host": "1", "efficiency": "1",
    "ideal": "1", "ideal_balanced": "1", "overlap": "1", "fetch": "s",
    "device_time": "s", "issue_interval": "s", "latency": "s", "peak_bandwidth": "B/s",
    "n_half": "B",
    "examples_per_s": "1/s", "input": "s", "transfer": "s", "compute": "s", "sync": "s",
    "comm": "s", "update": "s", "moved": "B", "loss": "1",
    "size_90": "B", "break_even": "B", "predicted_break_even": "B", "calls_to_amortise_setup": "1",
}  # fmt: skip


class Estimate:
    """A figure with its interval; the interval holds in this run.

    From -inf to inf means that there is no interval: no comparison with an end of it is then true.
    No dataclass: msgspec would write its fields, and JSON has no infinity (`gpumap.report.json`).
    """

    __slots__ = ("high", "low", "unit", "value")

    def __init__(self, value: float, low: float, high: float, unit: str) -> None:
        self.value, self.low, self.high, self.unit = value, low, high, unit

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Estimate) and self._all == other._all

    def __hash__(self) -> int:
        return hash(self._all)

    def __repr__(self) -> str:
        return f"Estimate{self._all}"

    @property
    def _all(self) -> tuple[float, float, float, str]:
        return self.value, self.low, self.high, self.unit

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
    unit: Unit
    source: str  # how it was measured, or what it was computed from
    origin: LimitOrigin

"""The figures of a report as series, as trackers keep them: `gab`, `bmf` and `openmetrics`.

Each line with a figure is a point of a series, which has the same name in every run. A name says
where the figure is of a script, so that it is never taken for a device's. What has no figure is not
there: a row that failed or was skipped, a ratio that was refused, an answer, which repeats one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap.escape import printable
from gpumap.model.maps import METRICS
from gpumap.report.parts import unique

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.report.parts import Shown

# behind the name of a metric, for who is told no unit; none where the metric has it in its name
_SUFFIXES = {"s": "seconds", "B": "bytes", "B/s": "bytes_per_second", "FLOP/s": "flop_per_second"}


class Metric(NamedTuple):
    """A metric and its SI unit."""

    name: str
    unit: str

    @property
    def suffix(self) -> str:
        """Return the unit in words; empty where the metric needs none."""
        return _SUFFIXES.get(self.unit, "")

    @property
    def full(self) -> str:
        """Return the name with its unit: ``time_seconds``."""
        return f"{self.name}_{self.suffix}" if self.suffix else self.name

    @property
    def meaning(self) -> str:
        """Return what it is, in words."""
        return METRICS[self.name][1] if self.name in METRICS else f"{self.name}, as in CSV."


class Point(NamedTuple):
    """A figure of a series; an end is None where there is no interval.

    Attributes:
        name: Of the series, unique for its metric.
        value: The figure.
        low: Lower end of its interval.
        high: Upper end.
        line: All cells of its line.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    line: Mapping[str, Any]


def points(shown: Shown) -> dict[Metric, list[Point]]:
    """Return the figures of a report by their metrics, in the order of its lines."""
    lines = defaultdict(list)
    for line in shown.lines():
        if line.get("unit") and line["value"] is not None:
            lines[Metric(line["metric"], line["unit"])].append(line)
    return {metric: _points(of_metric, shown) for metric, of_metric in lines.items()}


def finite(point: Point) -> bool:
    """Return whether JSON can hold a figure."""
    return math.isfinite(point.value)


def _points(lines: list[Mapping[str, Any]], shown: Shown) -> list[Point]:
    mark = " (simulated)" if shown.simulated else ""
    names = unique(f"{printable(_name(line))}{mark}" for line in lines)
    ends = ((line["value"], line.get("low"), line.get("high")) for line in lines)
    return [Point(name, *end, line) for name, end, line in zip(names, ends, lines, strict=True)]


def _name(line: Mapping[str, Any]) -> str:
    """Return the id of what was measured; of anything else what its line is of."""
    if line.get("bench"):
        return str(line["id"])
    return " ".join(line[key] for key in ("record", "id", "case", "names") if line.get(key))

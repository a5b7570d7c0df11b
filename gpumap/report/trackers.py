"""The figures of a report as series, as trackers keep them: `gab`, `bmf` and `openmetrics`.

Each figure of a record is a point of a series, which has the same name in every run. A name says
where the figure is of a script, so that it is never taken for a device's. What has no figure is not
there: a row that failed or was skipped, a ratio that was refused, an answer, which repeats one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from gpumap.escape import printable
from gpumap.report.parts import Record, Shown, unique

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.model import Estimate

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


class Point(NamedTuple):
    """A figure of a series, whose name is unique for its metric; and what it is of."""

    name: str
    figure: Estimate
    record: Record


def points(shown: Shown) -> dict[Metric, list[Point]]:
    """Return the figures of a report by their metrics, in the order of its records."""
    found: defaultdict[Metric, list[tuple[Estimate, Record]]] = defaultdict(list)
    for record in shown.records():
        for name, figure in record.figures.items():
            if figure.unit and not figure.impossible:
                found[Metric(name, figure.unit)].append((figure, record))
    mark = " (simulated)" if shown.report.simulated else ""
    return {metric: list(_series(each, mark)) for metric, each in found.items()}


def finite(point: Point) -> bool:
    """Return whether JSON can hold a figure."""
    return math.isfinite(point.figure.value)


def _series(found: Sequence[tuple[Estimate, Record]], mark: str) -> Iterator[Point]:
    names = unique(f"{printable(_name(record))}{mark}" for _, record in found)
    for name, (figure, record) in zip(names, found, strict=True):
        yield Point(name, figure, record)


def _name(record: Record) -> str:
    """Return the id of what was measured; of anything else what it is of."""
    if record.cells.get("bench"):
        return record.id or ""
    known = record.kind, record.id, record.cells.get("case"), record.cells.get("names")
    return " ".join(filter(None, known))

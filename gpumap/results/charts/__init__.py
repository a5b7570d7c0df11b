"""Charts of a report; they place what was measured, and compute no figure."""

from __future__ import annotations

from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.model import Report
    from gpumap.report.charts import Chart

KINDS = ("speedups", "curves", "matrices")
MOST = 6  # charts of a kind: more than that are too many to look at


def charts(report: Report) -> Iterator[Chart]:
    """Yield what there is to draw of rows, the first of each kind."""
    for kind in KINDS:
        drawn: Iterator[Chart] = import_module(f"gpumap.results.charts.{kind}").drawn(report)
        yield from islice(drawn, MOST)

"""Charts of a report; they place what was measured, and compute no figure."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gpumap.report.charts import Chart, titled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.model import Report

KINDS = ("speedups", "curves", "matrices")
MOST = 6  # charts of a kind: more than that are too many to look at


def charts(report: Report) -> Iterator[Chart]:
    """Yield what there is to draw of rows, the first of each kind; the last one says so."""
    for kind in KINDS:
        found: list[Chart] = [*import_module(f"gpumap.results.charts.{kind}").drawn(report)]
        for number, chart in enumerate(found[:MOST], 1):
            last = number == MOST
            yield chart._replace(title=titled(chart.title, MOST, len(found))) if last else chart

"""Charts of a report; they place what was measured, and compute no figure."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gpumap.report.charts import Chart, capped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.model import Report

__all__ = ["KINDS", "Chart", "charts"]

KINDS = ("speedups.speedup", "transfers.transfer", "transfers.matrix")


def charts(report: Report) -> Iterator[Chart]:
    """Yield what there is to draw of rows, of each kind no more than anyone looks at."""
    for kind in KINDS:
        file, _, name = kind.partition(".")
        drawn = getattr(import_module(f"gpumap.results.charts.{file}"), name)
        yield from capped(list(drawn(report)))

"""Charts of a report, one file for each kind; they place what was measured, and compute no figure.

A kind has `charts(report)`, which yields what is to be drawn with its text. Only `paper` draws, by
matplotlib: where that is missing there is the text all the same.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.model import Report
    from gpumap.report.charts.chart import Chart

KINDS = ("forest", "speedup", "scaling", "transfer", "matrix", "timeline", "samples")
MOST = 6  # charts of a kind


def charts(report: Report) -> Iterator[Chart]:
    """Yield what there is to draw of a report, of each kind no more than anyone looks at."""
    for kind in KINDS:
        module = import_module(f"gpumap.report.charts.{kind}")
        yield from capped(list(module.charts(report)))


def capped(found: list[Chart]) -> list[Chart]:
    """Return the first MOST charts; the last one says how many are left out."""
    if len(found) <= MOST:
        return found
    last = found[MOST - 1].noting(f"of {len(found)} such figures the first {MOST} are drawn")
    return [*found[: MOST - 1], last]

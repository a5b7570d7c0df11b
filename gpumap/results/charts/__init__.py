"""Charts of a report; they place what was measured, and compute no figure."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gpumap.report.charts import left_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.model import Report
    from gpumap.report.charts import Chart

KINDS = ("speedups", "curves", "matrices")
MOST = 6  # charts of a kind: more than that are too many to look at


def charts(report: Report) -> Iterator[Chart]:
    """Yield what there is to draw of rows; the last chart of a kind says what is left out."""
    for kind in KINDS:
        found: list[Chart] = list(import_module(f"gpumap.results.charts.{kind}").drawn(report))
        yield from found[: MOST - 1]
        for last in found[MOST - 1 : MOST]:
            yield last._replace(note=left_out(len(found), MOST, "such charts") or last.note)

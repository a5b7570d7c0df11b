"""Charts of copies by their size: time, bandwidth, and what the model says."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from gpumap.bench.keys import LADDER, CopyKey
from gpumap.bench.registry import how
from gpumap.model.measurements import fit_id
from gpumap.report.charts import COLORS, LINE, Chart, amounts, drawable, ends, legend, titled
from gpumap.results.cells import named
from gpumap.text import label

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpumap.model import Estimate, Fit, Measurement, Report

    Rows = dict[int, Measurement]  # by their bytes

_METRICS = {"time": "s", "bandwidth": "B/s"}
_HIGH = 340.0  # pixels of both panels
_POINTS = 49  # of a fitted line
_BESIDE = 1.1  # times a size: from one curve to the next, so that intervals do not hide each other


def drawn(report: Report) -> Iterator[Chart]:
    """Yield a chart for each backend and names that have models."""
    points = _points(report)
    groups: dict[tuple[str, ...], list[Fit]] = {}
    for fit in report.fits:
        if points.get(fit.id):
            groups.setdefault((fit.case.bench, named(fit.case), fit.case.backend), []).append(fit)
    for (bench, names, backend), fits in groups.items():
        curves = [(fit, points[fit.id]) for fit in fits[: len(COLORS)]]
        title = f"Time and bandwidth of {bench} on {names}, {backend}"
        title = titled(title, len(COLORS), len(fits))
        height = _HIGH + LINE * (2 + len(curves))
        yield Chart(title, height, partial(_draw, curves))


def _points(report: Report) -> dict[str, Rows]:
    """Return what is measured of each size of a kind of copy, one at a time, by its model."""
    found: dict[str, Rows] = {fit.id: {} for fit in report.fits}
    for row in report.measurements:
        if (id_ := fit_id(row.case)) in found and drawable(row.metrics.get("time")):
            size = CopyKey.of(row.case)
            found[id_] |= {size.bytes: row} if size.pattern in (LADDER, "alone") else {}
    return {id_: dict(sorted(sized.items())) for id_, sized in found.items()}


def _draw(curves: Sequence[tuple[Fit, Rows]], figure: Figure) -> None:
    from numpy import geomspace

    panels = figure.subplots(len(_METRICS), sharex=True)
    for axes, (metric, unit) in zip(panels, _METRICS.items(), strict=True):
        axes.set(xscale="log", yscale="log", ylabel=metric)
        axes.grid(visible=True)
        for n, ((fit, rows), color) in enumerate(zip(curves, COLORS, strict=False)):
            words = (fit.case.name, *map(str, how(fit.case).values()))
            beside = _BESIDE ** (n - (len(curves) - 1) / 2)
            found = {size * beside: row.metrics.get(metric) for size, row in rows.items()}
            dots(axes, found, color)
            sizes = geomspace(min(rows), max(rows), _POINTS)
            times = {size: _seconds(fit, size) for size in sizes}
            line = times if metric == "time" else {size: size / times[size] for size in times}
            axes.plot([*line], [*line.values()], color=color, alpha=1.0 if fit.fits else 0.4,
                      label=label(" ".join(words)) if metric == "time" else None)  # fmt: skip
        amounts(axes.yaxis, unit)
    amounts(axes.xaxis, "B")
    panels[-1].set_xlabel("bytes")
    legend(figure)


def dots(axes: Axes, figures: Mapping[float, Estimate | None], color: str) -> None:
    """Draw figures as dots on their intervals: hollow without one."""
    known = {size: figure for size, figure in figures.items() if figure and drawable(figure)}
    for size, figure in known.items():
        below, above = ends(figure)
        fill = "full" if figure.has_interval else "none"
        axes.errorbar(size, figure.value, [[below], [above]], color=color, marker="o",
                      markersize=5.0, fillstyle=fill)  # fmt: skip


def _seconds(fit: Fit, size: float) -> float:
    """Return what a size takes by the model; not a number where that is none, or below zero."""
    begun = [line for line in fit.lines if line.start <= size] or fit.lines[:1]
    time = begun[-1].seconds(size) if begun else math.nan
    return time if time > 0.0 else math.nan

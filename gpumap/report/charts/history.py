"""A figure over time: one dot with its interval for each run, in the order of their runs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpumap.report.charts import capped, paper
from gpumap.report.charts.chart import Chart, drawable, ends, reach
from gpumap.report.charts.svg import SERIES, SOFT, TITLE
from gpumap.report.table import estimate
from gpumap.text import label, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.figure import Figure

    from gpumap.judge.several_reports import Line
    from gpumap.model import Estimate

    # A run's place among all, and its figure.
    Points = Sequence[tuple[int, Estimate]]

_RUNS = 60  # the last of them are drawn
_HIGH, _BOTTOM = 200.0, 78.0  # pixels
_LEFT = 64.0
_NAMED = 12  # runs whose names stand below; of more some
_LEGEND = ((SERIES[0], "a run, with its interval", "patch"), (SOFT, "another machine", "dashes"))


def charts(
    lines: Sequence[Line], labels: Sequence[str], changed: Sequence[bool | None]
) -> Iterator[Chart]:
    """Yield a chart for each figure that more than one run has; `labels` are those of the runs."""
    found = []
    for line in lines:
        points = [
            (n, cell.figure)
            for n, cell in enumerate(line.cells)
            if cell is not None and cell.figure is not None and drawable(cell.figure)
        ]
        if len(points) > 1:
            found.append(_chart(line, points, labels, changed))
    yield from capped(found)


def _chart(
    line: Line, points: Points, labels: Sequence[str], changed: Sequence[bool | None]
) -> Chart:
    shown = points[-_RUNS:]
    told = [f"{labels[n]}: {estimate(figure)}" for n, figure in shown[-_NAMED:]]
    if len(points) > len(shown):
        told.append(f"the last {_RUNS} of {len(points)} runs are drawn")
    if len(shown) > _NAMED:
        told.append(f"the last {_NAMED} are named here; the table has every run")
    if missing := len(line.cells) - len(points):
        told.append(f"{missing} {'run has' if missing == 1 else 'runs have'} no such figure")
    height = paper.LINE + 6.0 + _HIGH + _BOTTOM
    draw = partial(_draw, shown, labels, changed)
    return Chart(f"{line.metric} over time: {line.id}", tuple(told), height, draw)


def _draw(
    points: Points, labels: Sequence[str], changed: Sequence[bool | None], figure: Figure
) -> None:
    first, last = points[0][0], points[-1][0]
    moved = [n for n in range(first + 1, last + 1) if changed[n]]
    paper.legend(figure, _LEGEND if moved else _LEGEND[:1])
    axes = paper.axes(figure, paper.LINE + 6.0, _HIGH, left=_LEFT, right=16.0)
    axes.grid(visible=True, axis="y")
    for n in moved:
        axes.axvline(n - 0.5, color=SOFT, linewidth=1.5, linestyle=(0, (3, 2)))
    axes.plot([n for n, _ in points], [f.value for _, f in points], color=SERIES[0],
              linewidth=1.0, alpha=0.5)  # fmt: skip
    axes.set_xlim(first - 0.5, last + 0.5)
    low, high = reach([end for _, found in points for end in ends(found)])
    for n, found in points:
        paper.dot(axes, n, found, (low, high), SERIES[0])
    room = (high - low) * 0.08 or high * 0.05
    axes.set_ylim(low - room, high + room)
    paper.between(axes.yaxis, low, high, points[0][1].unit)
    step = -(-len(points) // _NAMED)
    named = [n for n, _ in points][::step]
    paper.ticks(axes.xaxis, named, [label(labels[n], 16) for n in named])
    for n, text in zip(named, axes.get_xticklabels(), strict=True):
        text.set(rotation=35, ha="right", rotation_mode="anchor", gid=TITLE + printable(labels[n]))

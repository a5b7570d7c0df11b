"""Raw samples as distributions: a dot for each, in the order in which they were taken."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from gpumap.bench.registry import loaded
from gpumap.report.charts import paper
from gpumap.report.charts.chart import drawable, ends, first, short
from gpumap.report.charts.svg import BAD, INK, SERIES
from gpumap.report.rows import shown
from gpumap.report.table import estimate, named
from gpumap.text import briefly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from matplotlib.axes import Axes

    from gpumap.model import Case, Estimate, Measurement, Report
    from gpumap.report.charts.chart import Chart

_ROWS, _DOTS = 10, 200  # of a chart; of a row
_HIGH = 50.0  # pixels
_FROM, _TO = 0.38, 0.82  # shares of a row between which its dots stand, the first one above
_NEAREST, _FARTHEST = 0.5, 2.0  # times the median: what is beyond stands at the edge
_LEGEND = (
    (SERIES[0], "a sample, the first one above", "patch"),
    (BAD, "marked", "patch"),
    (SERIES[0], "under 6 samples", "hollow"),
    (INK, "median, interval", "line"),
)


def charts(report: Report) -> Iterator[Chart]:
    """Yield a chart for each benchmark: of its rows those that come first."""
    groups: dict[str, list[Measurement]] = {}
    for row in shown(report):
        if row.status == "ok" and len(_seconds(row)) > 1:
            groups.setdefault(row.case.bench, []).append(row)
    for bench, group in groups.items():
        yield _chart(f"Samples of {bench}", group)


def _seconds(row: Measurement) -> list[float]:
    """Return the samples that have a place: those of a faulty clock, or edited, have none."""
    seconds = row.samples.seconds if row.samples else ()
    return [s for s in seconds if 1e-15 < s < 1e9]  # noqa: PLR2004 - a time


def _chart(title: str, group: Sequence[Measurement]) -> Chart:
    drawn, more = first(group, _ROWS)
    told = [_told(row) for row in drawn]
    if any(len(_seconds(row)) > _DOTS for row in drawn):
        told.append(f"of a row with more samples {_DOTS} are drawn, evenly taken")
    texts = [
        (_named(row, briefly), _named(row), short(median(_seconds(row)), "s"), INK) for row in drawn
    ]
    draw = partial(_draw, drawn)
    return paper.listing(title, [*told, *more], _legend(drawn), texts, _HIGH, draw)


def _named(row: Measurement, names: Callable[[Case], str] = named) -> str:
    params, spec = row.case.params, loaded(row.case.bench)
    how = "".join(f" {params[key]}" for key in spec.how if key in params)
    size = "".join(f", {key} {params[key]}" for key in spec.sizes if key in params)
    return f"{row.case.name} on {names(row.case)}{how}{size}"


def _told(row: Measurement) -> str:
    seconds = _seconds(row)
    marks = row.samples.sample_notes if row.samples else ()
    marked = len({mark.sample for mark in marks})
    beside = f", {marked} marked" if marked else ""
    span = f"{short(min(seconds), 's')} to {short(max(seconds), 's')}"
    return f"{_named(row)}: n {len(seconds)}, {span}, {estimate(_time(row))}{beside}"


def _time(row: Measurement) -> Estimate | None:
    return row.metrics.get("time") or row.metrics.get("issue_interval")


def _legend(rows: Sequence[Measurement]) -> list[paper.Entry]:
    few = any(map(_few, rows))
    return [entry for entry in _LEGEND if few or entry[2] != "hollow"]


def _draw(rows: Sequence[Measurement], axes: Axes) -> None:
    for place, row in enumerate(rows):
        _strip(axes, place, row)
    axes.set_xscale("log")
    axes.set_xlim(_NEAREST * 0.97, _FARTHEST * 1.03)
    places = [0.5, 0.7, 1.0, 1.4, 2.0]
    paper.ticks(axes.xaxis, places, ["≤50%", "70%", "median", "140%", "≥200%"])
    paper.inside(axes.xaxis)


def _strip(axes: Axes, place: int, row: Measurement) -> None:
    seconds = _seconds(row)
    middle = median(seconds)
    step = max(1, -(-len(seconds) // _DOTS))
    marked = {mark.sample for mark in row.samples.sample_notes} if row.samples else set()
    for color, wanted in ((SERIES[0], False), (BAD, True)):
        dots = [
            (_near(s / middle),
             place + _FROM + (_TO - _FROM) * (n + 0.5) / len(seconds))
            for n, s in enumerate(seconds)
            if n % step == 0 and (n in marked) is wanted
        ]  # fmt: skip
        _dots(axes, dots, color, hollow=_few(row))
    time = _time(row)
    if time is not None and drawable(time) and not _few(row):
        low, high = (_near(end / middle) for end in ends(time))
        y = place + _TO + 0.05
        axes.plot([low, high], [y, y], color=INK, linewidth=1.5, solid_capstyle="butt")
        at = _near(time.value / middle)
        axes.plot([at, at], [y - 0.06, y + 0.06], color=INK, linewidth=1.5)


def _near(ratio: float) -> float:
    """Return a ratio to the median, or the edge that it is beyond."""
    return min(max(ratio, _NEAREST), _FARTHEST)


def _few(row: Measurement) -> bool:
    """Return whether a row has too few samples for an interval."""
    time = _time(row)
    return time is not None and not time.has_interval


def _dots(axes: Axes, dots: Sequence[tuple[float, float]], color: str, *, hollow: bool) -> None:
    """Draw dots as one path, of lines without a length: a tenth of what separate ones take."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    if hollow:
        axes.plot([x for x, _ in dots], [y for _, y in dots], "o", color=color, markersize=4.5,
                  markerfacecolor="none")  # fmt: skip
    elif dots:
        corners = [corner for dot in dots for corner in (dot, dot)]
        codes = [Path.MOVETO, Path.LINETO] * len(dots)
        patch = PathPatch(Path(corners, codes), facecolor="none", edgecolor=color, linewidth=3.5,
                          capstyle="round", alpha=0.7)  # fmt: skip
        axes.add_patch(patch)

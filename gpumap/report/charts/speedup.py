"""Speed-ups as bars, with their intervals and what this placement can reach."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpumap.bench.registry import charted, loaded
from gpumap.report.charts import paper
from gpumap.report.charts.chart import Chart, drawable, ends
from gpumap.report.charts.svg import INK, SERIES, SOFT
from gpumap.report.cut import briefly, label
from gpumap.report.table import estimate, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from matplotlib.figure import Figure

    from gpumap.model import Case, Measurement, Report

_ROWS = 12
_LEGEND = (
    (SERIES[0], "measured, with its interval", "patch"),
    (INK, "ideal here", "ideal"),
    (SOFT, "as one device", "line"),
)
_HIGH, _TOP, _BOTTOM = 40.0, 22.0, 26.0  # pixels
_BAR, _AT = 0.32, 0.66  # shares of a row: how high a bar is, where its middle is
_BESIDE = 1.15  # times the largest figure that an axis reaches
_MANY = 8.0  # from here on not every whole number has a tick


def charts(report: Report) -> Iterator[Chart]:
    """Yield a chart for each benchmark and backend that has speed-ups."""
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for row in report.measurements:
        case = row.case
        if charted(case, "speedup") and drawable(row.metrics.get("speedup")):
            groups.setdefault((case.bench, case.backend), []).append(row)
    for (bench, backend), group in groups.items():
        yield _chart(f"Speed-up of {bench}, {backend}", group)


def _chart(title: str, group: Sequence[Measurement]) -> Chart:
    cases = [row.case for row in group]
    told = [_told(*each) for each in zip(group, _names(cases), strict=True)][:_ROWS]
    shown = list(zip(group, _names(cases, briefly), strict=True))[:_ROWS]
    if len(group) > _ROWS:
        told.append(f"the first {_ROWS} of {len(group)} rows are drawn; the tables have all")
    height = _TOP + _HIGH * len(shown) + _BOTTOM
    return Chart(title, tuple(told), height, partial(_draw, shown))


def _names(cases: Sequence[Case], names: Callable[[Case], str] = named) -> list[str]:
    """Return what tells each case from the others: parameters that are the same do not."""
    telling = [
        key
        for key in loaded(cases[0].bench).telling
        if len({str(case.params.get(key, "")) for case in cases}) > 1
    ]
    return [
        ", ".join((
            f"{case.name} on {names(case)}",
            *(f"{key} {case.params[key]}" for key in telling if key in case.params),
        ))
        for case in cases
    ]  # fmt: skip


def _told(row: Measurement, name: str) -> str:
    ideal = row.metrics.get("ideal")
    beside = "" if ideal is None else f", ideal {estimate(ideal)}"
    return f"{name}: {estimate(row.metrics['speedup'])}{beside}"


def _draw(rows: Sequence[tuple[Measurement, str]], figure: Figure) -> None:
    ideals = any(drawable(row.metrics.get("ideal")) for row, _ in rows)
    paper.legend(figure, [entry for entry in _LEGEND if ideals or entry[2] != "ideal"])
    axes = paper.rows(figure, _TOP, len(rows), _HIGH)
    most = 1.0
    for place, (row, name) in enumerate(rows):
        found, ideal = row.metrics["speedup"], row.metrics.get("ideal")
        low, high = ends(found)
        y = place + _AT
        axes.barh(y, found.value, _BAR, color=SERIES[0], alpha=0.85)
        axes.plot([low, high], [y, y], color=INK, linewidth=1.5, solid_capstyle="butt")
        for end in (low, high):
            axes.plot([end, end], [y - 0.08, y + 0.08], color=INK, linewidth=1.5)
        if ideal is not None and drawable(ideal):
            reach = [y - _BAR * 0.8, y + _BAR * 0.8]
            axes.plot([ideal.value] * 2, reach, color=INK, linewidth=1.5, linestyle=(0, (2, 1.5)))
        most = max(most, high, ideal.value if ideal is not None and drawable(ideal) else 0.0)
        top = _TOP + place * _HIGH + 13
        paper.write(figure, paper.EDGE, top, label(name, 46))
        paper.write(figure, paper.WIDTH - 12, top, f"{found.value:.2f}", ha="right")
    axes.axvline(1.0, color=SOFT, linewidth=1.0)
    axes.set_xlim(0.0, most * _BESIDE)
    step = 1 if most < _MANY else round(most / 6)
    places = [float(n) for n in range(0, int(most * _BESIDE) + 1, step)]
    paper.ticks(axes.xaxis, places, [f"{place:g}" for place in places])
    paper.inside(axes.xaxis, last=False)

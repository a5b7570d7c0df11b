"""Speed-ups as bars, with their intervals and what this placement can reach."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpumap.bench.registry import charted, loaded
from gpumap.cut import briefly
from gpumap.report.charts import paper
from gpumap.report.charts.chart import Chart, counted, drawable, ends, reach
from gpumap.report.charts.svg import INK, SERIES, SOFT
from gpumap.report.table import estimate, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from matplotlib.figure import Figure

    from gpumap.model import Case, Measurement, Report

_ROWS = 12
_LEGEND = (
    (SERIES[0], "measured, with its interval", "patch"),
    (SERIES[0], "under 6 samples", "hollow"),
    (INK, "ideal here", "ideal"),
    (SOFT, "as one device", "line"),
)
_HIGH, _BOTTOM = 40.0, 26.0  # pixels
_IDEAL, _AT = 0.26, 0.66  # shares of a row: of half a line at the ideal, where its middle is
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
    shown = list(zip(group, _names(cases, briefly), _names(cases), strict=True))[:_ROWS]
    if len(group) > _ROWS:
        told.append(f"the first {_ROWS} of {len(group)} rows are drawn; the tables have all")
    height = paper.legend_height(_legend(group[:_ROWS])) + _HIGH * len(shown) + _BOTTOM
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
    found = row.metrics["speedup"]
    return f"{name}: {estimate(found)}{counted(row, found)}{beside}"


def _legend(rows: Sequence[Measurement]) -> list[paper.Entry]:
    ideals = any(drawable(row.metrics.get("ideal")) for row in rows)
    few = not all(row.metrics["speedup"].has_interval for row in rows)
    absent = {sign for sign, there in (("ideal", ideals), ("hollow", few)) if not there}
    return [entry for entry in _LEGEND if entry[2] not in absent]


def _draw(rows: Sequence[tuple[Measurement, str, str]], figure: Figure) -> None:
    found = [row.metrics["speedup"] for row, *_ in rows]
    ideals = [row.metrics.get("ideal") for row, *_ in rows]
    legend = _legend([row for row, *_ in rows])
    paper.legend(figure, legend)
    head = paper.legend_height(legend)
    axes = paper.rows(figure, head, len(rows), _HIGH)
    whole = max(len(row.case.names) for row, *_ in rows)  # no outlier is below it
    values = [end for each in found for end in (*ends(each), each.value)]
    most = max(1.0, min(whole, max(values)), reach(values, 0.0)[1])
    most = max(most, *(each.value for each in ideals if each and drawable(each)), 0.0)
    for place, ((_, name, title), each, ideal) in enumerate(zip(rows, found, ideals, strict=True)):
        y = place + _AT
        axes.plot([1.0, 1.0], [y - _IDEAL, y + _IDEAL], color=SOFT, linewidth=1.0)
        paper.bar(axes, y, each, most * _BESIDE)
        if ideal is not None and drawable(ideal):
            axes.plot([ideal.value] * 2, [y - _IDEAL, y + _IDEAL], color=INK, linewidth=1.5,
                      linestyle=(0, (2, 1.5)))  # fmt: skip
        top = head + place * _HIGH + 13
        paper.write(figure, paper.EDGE, top, name, title=title)
        about = "" if each.has_interval else "~"
        paper.write(figure, paper.WIDTH - 12, top, f"{about}{each.value:.2f}", ha="right")
    axes.set_xlim(0.0, most * _BESIDE)
    step = 1 if most < _MANY else round(most / 6)
    places = [float(n) for n in range(0, int(most * _BESIDE) + 1, step)]
    paper.ticks(axes.xaxis, places, [f"{place:g}x" for place in places])
    paper.inside(axes.xaxis, last=False)

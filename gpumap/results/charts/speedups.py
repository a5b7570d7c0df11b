"""Charts of speed-ups: bars with their intervals, and what is ideal."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpumap.bench.registry import drawn, how, sizes
from gpumap.figures import estimate
from gpumap.report.charts import (
    INK,
    SERIES,
    SOFT,
    Chart,
    counted,
    drawable,
    ends,
    first,
    paper,
    reach,
)
from gpumap.results.cells import named
from gpumap.text import briefly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from matplotlib.axes import Axes

    from gpumap.model import Case, Estimate, Measurement, Report

_BARS_SHOWN = 12
_BAR_LEGEND = (
    (SERIES[0], "measured, with its interval", "patch"),
    (SERIES[0], "under 6 samples", "hollow"),
    (INK, "ideal here", "ideal"),
    (SOFT, "as one device", "line"),
)
_BAR_HIGH = 40.0  # pixels
_IDEAL, _AT = 0.26, 0.66  # shares of a row: of half a line at the ideal, where its middle is
_BESIDE = 1.15  # times the largest figure that an axis reaches
_MANY = 8.0  # from here on not every whole number has a tick


def speedup(report: Report) -> Iterator[Chart]:
    """Yield a chart for each benchmark that has speed-ups: backends are side by side in it."""
    groups: dict[str, list[Measurement]] = {}
    for row in report.measurements:
        if drawn(row.case) and drawable(row.metrics.get("speedup")):
            groups.setdefault(row.case.bench, []).append(row)
    for bench, group in groups.items():
        backends = {row.case.backend for row in group}
        of = f", {backends.pop()}" if len(backends) == 1 else ""
        yield _bars(f"Speed-up of {bench}{of}", _side_by_side(group))


def _side_by_side(rows: Sequence[Measurement]) -> list[Measurement]:
    """Return the rows, each beside those of the same case on other backends."""
    beside: dict[object, list[Measurement]] = {}
    for row in rows:
        case = row.case
        same = case.name, case.names, tuple(sorted(case.params.items()))
        beside.setdefault(same, []).append(row)
    return [row for together in beside.values() for row in together]


def _bars(title: str, group: Sequence[Measurement]) -> Chart:
    cases = [row.case for row in group]
    rows, more = first(group, _BARS_SHOWN, "rows are drawn; the tables have all")
    names = _names(cases)[:_BARS_SHOWN]
    texts = [
        (text, name, f"{'' if found.has_interval else '~'}{found.value:.2f}")
        for text, name, found in zip(_names(cases, briefly), names, map(_gain, rows), strict=False)
    ]
    lines = [*map(_bar_text, rows, names), *more]
    draw = partial(_draw_bars, rows)
    return paper.listing(title, lines, _bar_legend(rows), texts, _BAR_HIGH, draw)


def _gain(row: Measurement) -> Estimate:
    return row.metrics["speedup"]


def _names(cases: Sequence[Case], names: Callable[[Case], str] = named) -> list[str]:
    """Return what tells each case from the others: parameters that are the same do not."""
    telling = [{"backend": case.backend, **sizes(case), **how(case)} for case in cases]
    same = set.intersection(*(set(each.items()) for each in telling))
    return [
        ", ".join((
            f"{case.name} on {names(case)}",
            *(f"{key} {value}" for key, value in each.items() if (key, value) not in same),
        ))
        for case, each in zip(cases, telling, strict=True)
    ]  # fmt: skip


def _bar_text(row: Measurement, name: str) -> str:
    ideal = row.metrics.get("ideal")
    beside = "" if ideal is None else f", ideal {estimate(ideal)}"
    found = row.metrics["speedup"]
    return f"{name}: {estimate(found)}{counted(row, found)}{beside}"


def _bar_legend(rows: Sequence[Measurement]) -> list[paper.Entry]:
    ideals = any(drawable(row.metrics.get("ideal")) for row in rows)
    few = not all(row.metrics["speedup"].has_interval for row in rows)
    absent = {sign for sign, there in (("ideal", ideals), ("hollow", few)) if not there}
    return [entry for entry in _BAR_LEGEND if entry[2] not in absent]


def _draw_bars(rows: Sequence[Measurement], axes: Axes) -> None:
    ideals = [row.metrics.get("ideal") for row in rows]
    whole = max(len(row.case.names) for row in rows)  # no outlier is below it
    values = [end for row in rows for end in (*ends(_gain(row)), _gain(row).value)]
    most = max(1.0, min(whole, max(values)), reach(values, 0.0)[1])
    most = max(most, *(each.value for each in ideals if each and drawable(each)), 0.0)
    for place, (row, ideal) in enumerate(zip(rows, ideals, strict=True)):
        y = place + _AT
        axes.plot([1.0, 1.0], [y - _IDEAL, y + _IDEAL], color=SOFT, linewidth=1.0)
        paper.bar(axes, y, _gain(row), most * _BESIDE)
        if ideal is not None and drawable(ideal):
            axes.plot([ideal.value] * 2, [y - _IDEAL, y + _IDEAL], color=INK, linewidth=1.5,
                      linestyle=(0, (2, 1.5)))  # fmt: skip
    axes.set_xlim(0.0, most * _BESIDE)
    step = 1 if most < _MANY else round(most / 6)
    places = [float(n) for n in range(0, int(most * _BESIDE) + 1, step)]
    paper.ticks(axes.xaxis, places, [f"{place:g}x" for place in places])
    paper.inside(axes.xaxis)

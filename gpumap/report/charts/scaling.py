"""Training on more devices: how much faster, and where the time of 5120 examples goes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpumap.bench.registry import charted
from gpumap.report import training
from gpumap.report.charts import paper
from gpumap.report.charts.chart import Chart, counted, drawable, ends, first, reach, short
from gpumap.report.charts.svg import INK, SERIES, SOFT
from gpumap.report.table import estimate, named
from gpumap.text import briefly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpumap.model import Case, Measurement, Report

# What a bar is made of, in the words of the tables: (word, its phases, its colour).
_PARTS = (
    ("train", ("compute", "update"), SERIES[0]),
    ("comm", ("comm",), SERIES[1]),
    ("sync", ("sync",), SERIES[4]),
    ("wait", ("input", "transfer"), SERIES[5]),
)
_BARS = [(color, word, "patch") for word, _, color in _PARTS]  # a legend
_ROWS = 10
_HIGH, _ROW = 190.0, 40.0  # pixels
_GAP = 58.0  # pixels between the curves and the bars
_LEFT = 34.0
_BAR, _AT = 0.34, 0.66  # shares of a row


def charts(report: Report) -> Iterator[Chart]:
    """Yield a chart for each network and way to scale."""
    groups: dict[tuple[str, ...], list[Measurement]] = {}
    for row in report.measurements:
        case = row.case
        if charted(case, "scaling") and row.status == "ok" and _phases(row):
            key = (str(case.params["network"]), str(case.params["scaling"]), case.backend)
            groups.setdefault(key, []).append(row)
    for (network, scaling, backend), group in groups.items():
        steps = [row for row in group if row.case.name == "step"] or group
        yield _chart(f"{network}, {scaling} scaling, {backend}", steps)


def _phases(row: Measurement) -> dict[str, float]:
    """Return what each part of a bar takes, in seconds; nothing where a phase is not known."""
    found = row.metrics
    if not drawable(found.get("time")) or not all(name in found and 0.0 <= found[name].value < 1e9  # noqa: PLR2004 - seconds
               for _, phases, _ in _PARTS for name in phases):  # fmt: skip
        return {}
    return {word: sum(found[name].value for name in phases) for word, phases, _ in _PARTS}


def _chart(title: str, group: Sequence[Measurement]) -> Chart:
    rows, more = first(group, _ROWS)
    told = (*map(_told, rows), *more)
    curves = _curves(rows)
    upper = paper.legend_height(_legend(curves)) + _HIGH + _GAP if curves else 0.0
    height = upper + paper.legend_height(_BARS) + _ROW * len(rows) + paper.BOTTOM
    return Chart(f"Training {title}", told, height, partial(_draw, rows, curves))


def _word(row: Measurement, names: Callable[[Case], str] = named) -> str:
    rule = training.rule(row.case)
    return f"{names(row.case)}, {rule}" if len(row.case.names) > 1 else names(row.case)


def _told(row: Measurement) -> str:
    speedup = row.metrics.get("speedup")
    gain = f"speed-up {estimate(speedup)}{counted(row, speedup)}, " if speedup is not None else ""
    parts = ", ".join(f"{word} {short(s, 's')}" for word, s in _phases(row).items())
    return f"{_word(row)}: {gain}{parts}"


def _curves(rows: Sequence[Measurement]) -> dict[str, list[Measurement]]:
    """Return the rows of several devices by their rule, where a speed-up is known."""
    found: dict[str, list[Measurement]] = {}
    for row in rows:
        if len(row.case.names) > 1 and drawable(row.metrics.get("speedup")):
            found.setdefault(training.rule(row.case), []).append(row)
    return {rule: sorted(rows, key=lambda row: len(row.case.names))
            for rule, rows in list(found.items())[: len(SERIES)]}  # fmt: skip


def _legend(curves: Mapping[str, Sequence[Measurement]]) -> list[paper.Entry]:
    found = [(color, rule, "line") for color, rule in zip(SERIES, curves, strict=False)]
    return [*found, (SOFT, "as many times as devices", "dashes")]


def _draw(
    rows: Sequence[Measurement], curves: Mapping[str, Sequence[Measurement]], figure: Figure
) -> None:
    top = 0.0
    if curves:
        paper.legend(figure, _legend(curves))
        head = paper.legend_height(_legend(curves))
        _speedups(paper.axes(figure, head, _HIGH, left=_LEFT, right=16.0), curves)
        paper.write(figure, paper.WIDTH - 16, head + _HIGH + 34, "devices", SOFT, ha="right")
        top = head + _HIGH + _GAP
    texts = [
        (_word(row, briefly), _word(row), short(sum(_phases(row).values()), "s"), INK)
        for row in rows
    ]
    _times(paper.labelled(figure, _BARS, texts, _ROW, top), rows)


def _speedups(axes: Axes, curves: Mapping[str, Sequence[Measurement]]) -> None:
    most = max(len(row.case.names) for rows in curves.values() for row in rows)
    axes.grid(visible=True)
    axes.plot([1, most], [1, most], color=SOFT, linewidth=1.5, linestyle=(0, (3, 2)))
    found = [row.metrics["speedup"] for rows in curves.values() for row in rows]
    highest = max(most, reach([end for each in found for end in ends(each)], 0.0)[1])
    for n, (color, rows) in enumerate(zip(SERIES, curves.values(), strict=False)):
        beside = 0.015 * most * (n - len(curves) / 2)  # so that intervals do not hide each other
        places = [1.0, *(len(row.case.names) + beside for row in rows)]
        axes.plot(places, [1.0, *(r.metrics["speedup"].value for r in rows)], color=color,
                  linewidth=1.5)  # fmt: skip
        for place, row in zip(places[1:], rows, strict=True):
            paper.dot(axes, place, row.metrics["speedup"], (0.0, highest), color)
    axes.set_xlim(1 - 0.06 * most, most * 1.06)
    axes.set_ylim(0, highest * 1.08)
    counts = sorted({1, *(len(row.case.names) for rows in curves.values() for row in rows)})
    paper.ticks(axes.xaxis, counts, [str(count) for count in counts])
    step = max(1, round(highest / 5))
    whole = range(0, int(highest * 1.08) + 1, step)
    paper.ticks(axes.yaxis, list(whole), [f"{n}x" for n in whole])


def _times(axes: Axes, rows: Sequence[Measurement]) -> None:
    most = max(sum(_phases(row).values()) for row in rows) or 1.0
    for place, row in enumerate(rows):
        begin, solid = 0.0, row.metrics["time"].has_interval
        for seconds, (_, _, color) in zip(_phases(row).values(), _PARTS, strict=True):
            face = color if solid else "none"
            axes.barh(place + _AT, seconds, _BAR, left=begin, facecolor=face, edgecolor=color)
            begin += seconds
    axes.set_xlim(0.0, most)
    paper.linear(axes.xaxis, most, "s")

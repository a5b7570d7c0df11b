"""Charts of speed-ups, of training, of ratios to a baseline, and of figures over time."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from gpumap.bench import train_table
from gpumap.bench.keys import StepKey
from gpumap.bench.registry import charted, how, sizes
from gpumap.figures import estimate
from gpumap.model import Estimate
from gpumap.report.charts import (
    BAD,
    GOOD,
    INK,
    SERIES,
    SOFT,
    UNCLEAR,
    Chart,
    capped,
    counted,
    drawable,
    ends,
    first,
    paper,
    reach,
    short,
    titled,
)
from gpumap.report.outcomes import rank
from gpumap.report.table import named
from gpumap.text import briefly, label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpumap.judge.several_reports import Line
    from gpumap.model import Case, Measurement, Report, Verdict

    # A run's place among all, and its figure.
    Points = Sequence[tuple[int, Estimate]]


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
    """Yield a chart for each benchmark and backend that has speed-ups."""
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for row in report.measurements:
        case = row.case
        if charted(case, "speedup") and drawable(row.metrics.get("speedup")):
            groups.setdefault((case.bench, case.backend), []).append(row)
    for (bench, backend), group in groups.items():
        yield _bars(f"Speed-up of {bench}, {backend}", group)


def _bars(title: str, group: Sequence[Measurement]) -> Chart:
    cases = [row.case for row in group]
    rows, more = first(group, _BARS_SHOWN, "rows are drawn; the tables have all")
    names = _names(cases)[:_BARS_SHOWN]
    texts = [
        (text, name, f"{'' if found.has_interval else '~'}{found.value:.2f}", INK)
        for text, name, found in zip(_names(cases, briefly), names, map(_gain, rows), strict=False)
    ]
    lines = [*map(_bar_text, rows, names), *more]
    draw = partial(_draw_bars, rows)
    return paper.listing(title, lines, _bar_legend(rows), texts, _BAR_HIGH, draw)


def _gain(row: Measurement) -> Estimate:
    return row.metrics["speedup"]


def _names(cases: Sequence[Case], names: Callable[[Case], str] = named) -> list[str]:
    """Return what tells each case from the others: parameters that are the same do not."""
    telling = [{**sizes(case), **how(case)} for case in cases]
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
    paper.inside(axes.xaxis, last=False)


# What a bar is made of, in the words of the tables: (word, its phases, its colour).
_PARTS = (
    ("train", ("compute", "update"), SERIES[0]),
    ("comm", ("comm",), SERIES[1]),
    ("sync", ("sync",), SERIES[4]),
    ("wait", ("input", "transfer"), SERIES[5]),
)
_PARTS_LEGEND = [(color, word, "patch") for word, _, color in _PARTS]  # a legend
_TRAINED = 10
_CURVES_HIGH, _ROW = 190.0, 40.0  # pixels
_GAP = 58.0  # pixels between the curves and the bars
_CURVES_LEFT = 34.0
_BAR, _PART_AT = 0.34, 0.66  # shares of a row


def scaling(report: Report) -> Iterator[Chart]:
    """Yield a chart for each network and way to scale."""
    groups: dict[tuple[str, ...], list[Measurement]] = {}
    for row in report.measurements:
        case = row.case
        if charted(case, "scaling") and row.status == "ok" and _phases(row):
            step = StepKey.of(case)
            place = step.network, step.scaling, case.backend
            groups.setdefault(place, []).append(row)
    for (network, scaling, backend), group in groups.items():
        steps = [row for row in group if row.case.name == "step"] or group
        yield _training(f"{network}, {scaling} scaling, {backend}", steps)


def _phases(row: Measurement) -> dict[str, float]:
    """Return what each part of a bar takes, in seconds; nothing where a phase is not known."""
    found = row.metrics
    if not drawable(found.get("time")) or not all(name in found and 0.0 <= found[name].value < 1e9  # noqa: PLR2004 - seconds
               for _, phases, _ in _PARTS for name in phases):  # fmt: skip
        return {}
    return {word: sum(found[name].value for name in phases) for word, phases, _ in _PARTS}


def _training(title: str, group: Sequence[Measurement]) -> Chart:
    rows, more = first(group, _TRAINED)
    lines = (*map(_training_text, rows), *more)
    curves = _curves(rows)
    upper = paper.legend_height(_curves_legend(curves)) + _CURVES_HIGH + _GAP if curves else 0.0
    height = upper + paper.legend_height(_PARTS_LEGEND) + _ROW * len(rows) + paper.BOTTOM
    return Chart(f"Training {title}", lines, height, partial(_draw_training, rows, curves))


def _word(row: Measurement, names: Callable[[Case], str] = named) -> str:
    rule = train_table.rule(row.case)
    return f"{names(row.case)}, {rule}" if len(row.case.names) > 1 else names(row.case)


def _training_text(row: Measurement) -> str:
    speedup = row.metrics.get("speedup")
    gain = f"speed-up {estimate(speedup)}{counted(row, speedup)}, " if speedup is not None else ""
    parts = ", ".join(f"{word} {short(s, 's')}" for word, s in _phases(row).items())
    return f"{_word(row)}: {gain}{parts}"


def _curves(rows: Sequence[Measurement]) -> dict[str, list[Measurement]]:
    """Return the rows of several devices by their rule, where a speed-up is known."""
    found: dict[str, list[Measurement]] = {}
    for row in rows:
        if len(row.case.names) > 1 and drawable(row.metrics.get("speedup")):
            found.setdefault(train_table.rule(row.case), []).append(row)
    return {rule: sorted(rows, key=lambda row: len(row.case.names))
            for rule, rows in list(found.items())[: len(SERIES)]}  # fmt: skip


def _curves_legend(curves: Mapping[str, Sequence[Measurement]]) -> list[paper.Entry]:
    found = [(color, rule, "line") for color, rule in zip(SERIES, curves, strict=False)]
    return [*found, (SOFT, "as many times as devices", "dashes")]


def _draw_training(
    rows: Sequence[Measurement], curves: Mapping[str, Sequence[Measurement]], figure: Figure
) -> None:
    top = 0.0
    if curves:
        paper.legend(figure, _curves_legend(curves))
        head = paper.legend_height(_curves_legend(curves))
        _speedups(paper.axes(figure, head, _CURVES_HIGH, left=_CURVES_LEFT, right=16.0), curves)
        paper.write(figure, paper.WIDTH - 16, head + _CURVES_HIGH + 34, "devices", SOFT, ha="right")
        top = head + _CURVES_HIGH + _GAP
    texts = [
        (_word(row, briefly), _word(row), short(sum(_phases(row).values()), "s"), INK)
        for row in rows
    ]
    _times(paper.labelled(figure, _PARTS_LEGEND, texts, _ROW, top), rows)


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
            axes.barh(place + _PART_AT, seconds, _BAR, left=begin, facecolor=face, edgecolor=color)
            begin += seconds
    axes.set_xlim(0.0, most)
    paper.linear(axes.xaxis, most, "s")


_CHANGES = 20
_MOST = 100.0  # of a threshold: beyond, a file was edited
_NEAR = 0.11  # of the axis: as much as a label needs
_CHANGE_HIGH = 36.0  # pixels
_CHANGE_AT = 0.68  # of a row: where its dot is
_COLORS = {"regression": BAD, "improvement": GOOD, "inconclusive": UNCLEAR}
_CHANGE_LEGEND = ((SOFT, "as the baseline", "line"), (INK, "threshold", "dashes"))


def forest(report: Report) -> Iterator[Chart]:
    """Yield one chart of the changes that have a ratio, the worst first."""
    ratios = ((verdict, _ratio(verdict)) for verdict in sorted(report.verdicts, key=rank))
    found = [(verdict, ratio) for verdict, ratio in ratios if ratio and drawable(ratio)]
    if not found:
        return
    shown, more = first(found, _CHANGES, "are drawn, the worst first")
    lines = [
        f"{_named(verdict)}: {estimate(ratio)}{_limits(verdict)}, {verdict.verdict}"
        for verdict, ratio in shown
    ]
    names = _telling([verdict for verdict, _ in shown])
    texts = [
        (name, _named(verdict), f"{ratio.value:.3f} {verdict.verdict}", _color(verdict))
        for name, (verdict, ratio) in zip(names, shown, strict=True)
    ]
    title, draw = "Ratio to the baseline, new/base", partial(_draw_changes, shown)
    yield paper.listing(title, [*lines, *more], _CHANGE_LEGEND, texts, _CHANGE_HIGH, draw)


def _color(verdict: Verdict) -> str:
    return _COLORS.get(verdict.verdict, INK)


def _ratio(verdict: Verdict) -> Estimate | None:
    if verdict.base is None or verdict.value is None:  # a limit, or nothing to compare with
        return None
    low = -math.inf if verdict.low is None else verdict.low
    return Estimate(verdict.value, low, math.inf if verdict.high is None else verdict.high, "1")


def _named(verdict: Verdict) -> str:
    return f"{verdict.id}.{verdict.metric}"


def _telling(verdicts: Sequence[Verdict]) -> list[str]:
    """Return the ids of rows without the parameters that all of them have, and their metrics."""
    parted = [(verdict.id or "").rstrip("]").partition("[") for verdict in verdicts]
    params = [params.split(",") for _, _, params in parted]
    same = set(params[0]).intersection(*params[1:])
    return [
        " ".join((row, *(one for one in each if one not in same), verdict.metric))
        for (row, *_), each, verdict in zip(parted, params, verdicts, strict=True)
    ]


def _limits(verdict: Verdict) -> str:
    if verdict.threshold is None:
        return ""
    return f", limits {1 / (1 + verdict.threshold):.3f} and {1 + verdict.threshold:.3f}"


def _draw_changes(found: Sequence[tuple[Verdict, Estimate]], axes: Axes) -> None:
    shares = {verdict.threshold for verdict, _ in found}
    limits = {limit for share in shares if share and share < _MOST
              for limit in (1 / (1 + share), 1 + share)}  # fmt: skip
    low, high = reach([math.log(end) for _, ratio in found for end in ends(ratio)])
    low, high = min(0.0, low, *map(math.log, limits)), max(0.0, high, *map(math.log, limits))
    room = 0.06 * (high - low) or 0.01
    span = math.exp(low - room), math.exp(high + room)
    axes.axvline(1.0, color=SOFT, linewidth=1.0)
    for limit in limits:
        axes.axvline(limit, color=INK, linewidth=1.0, linestyle=(0, (3, 2)))
    for place, (verdict, ratio) in enumerate(found):
        y, color = place + _CHANGE_AT, _color(verdict)
        paper.whisker(axes, y, ratio, span)
        if span[0] <= ratio.value <= span[1]:
            axes.plot([ratio.value], [y], "o", color=color, markersize=6,
                      markerfacecolor=color if ratio.has_interval else "none")  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlim(*span)
    paper.ticks(axes.xaxis, *_ticks(limits, span))


def _ticks(limits: set[float], span: tuple[float, float]) -> tuple[list[float], list[str]]:
    """Return ticks with their labels: of those that are too near to others, the first."""
    least = _NEAR * math.log(span[1] / span[0])
    places: list[float] = []
    for place in (1.0, *sorted(limits), 0.1, 0.5, 0.8, 1.25, 2.0, 5.0, 10.0):
        far = all(abs(math.log(place / other)) > least for other in places)
        if far and span[0] < place < span[1]:
            places.append(place)
    return places, [f"{place:.3g}x" for place in places]


_RUNS = 60  # the last of them are drawn
_RUNS_HIGH, _BOTTOM = 200.0, 78.0  # pixels
_RUNS_LEFT = 64.0
_NAMED = 12  # runs whose names stand below; of more some
_RUNS_LEGEND = (
    (SERIES[0], "a run, with its interval", "patch"),
    (SOFT, "another machine", "dashes"),
)


def history(
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
            found.append(_over_time(line, points, labels, changed))
    yield from capped(found)


def _over_time(
    line: Line, points: Points, labels: Sequence[str], changed: Sequence[bool | None]
) -> Chart:
    shown = points[-_RUNS:]
    lines = [f"{labels[n]}: {estimate(figure)}" for n, figure in shown[-_NAMED:]]
    if len(points) > len(shown):
        lines.append(f"the last {_RUNS} of {len(points)} runs are drawn")
    if len(shown) > _NAMED:
        lines.append(f"the last {_NAMED} are named here; the table has every run")
    if missing := len(line.cells) - len(points):
        lines.append(f"{missing} {'run has' if missing == 1 else 'runs have'} no such figure")
    height = paper.LINE + 6.0 + _RUNS_HIGH + _BOTTOM
    draw = partial(_draw_runs, shown, labels, changed)
    return Chart(f"{line.metric} over time: {line.id}", tuple(lines), height, draw)


def _draw_runs(
    points: Points, labels: Sequence[str], changed: Sequence[bool | None], figure: Figure
) -> None:
    first, last = points[0][0], points[-1][0]
    moved = [n for n in range(first + 1, last + 1) if changed[n]]
    paper.legend(figure, _RUNS_LEGEND if moved else _RUNS_LEGEND[:1])
    axes = paper.axes(figure, paper.LINE + 6.0, _RUNS_HIGH, left=_RUNS_LEFT, right=16.0)
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
        text.set(rotation=35, ha="right", rotation_mode="anchor", gid=titled(labels[n]))

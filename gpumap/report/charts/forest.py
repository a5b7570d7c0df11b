"""What changed since a baseline as a forest plot: each ratio with its interval, and the limits."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from gpumap.model import Estimate
from gpumap.report.charts import paper
from gpumap.report.charts.chart import drawable, ends, first, reach
from gpumap.report.charts.svg import BAD, GOOD, INK, SOFT, UNCLEAR
from gpumap.report.judged import rank
from gpumap.report.table import estimate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes

    from gpumap.model import Report, Verdict
    from gpumap.report.charts.chart import Chart

_ROWS = 20
_MOST = 100.0  # of a threshold: beyond, a file was edited
_NEAR = 0.11  # of the axis: as much as a label needs
_HIGH = 36.0  # pixels
_AT = 0.68  # of a row: where its dot is
_COLORS = {"regression": BAD, "improvement": GOOD, "inconclusive": UNCLEAR}
_LEGEND = ((SOFT, "as the baseline", "line"), (INK, "threshold", "dashes"))


def charts(report: Report) -> Iterator[Chart]:
    """Yield one chart of the changes that have a ratio, the worst first."""
    ratios = ((verdict, _ratio(verdict)) for verdict in sorted(report.verdicts, key=rank))
    found = [(verdict, ratio) for verdict, ratio in ratios if ratio and drawable(ratio)]
    if not found:
        return
    shown, more = first(found, _ROWS, "are drawn, the worst first")
    told = [
        f"{_named(verdict)}: {estimate(ratio)}{_limits(verdict)}, {verdict.verdict}"
        for verdict, ratio in shown
    ]
    names = _telling([verdict for verdict, _ in shown])
    texts = [
        (name, _named(verdict), f"{ratio.value:.3f} {verdict.verdict}", _color(verdict))
        for name, (verdict, ratio) in zip(names, shown, strict=True)
    ]
    title, draw = "Ratio to the baseline, new/base", partial(_draw, shown)
    yield paper.listing(title, [*told, *more], _LEGEND, texts, _HIGH, draw)


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


def _draw(found: Sequence[tuple[Verdict, Estimate]], axes: Axes) -> None:
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
        y, color = place + _AT, _color(verdict)
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

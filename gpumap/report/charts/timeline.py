"""What each device did when: of a traced program, or of one block of a benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gpumap.bench.registry import alike, charted, is_control
from gpumap.report.charts import paper
from gpumap.report.charts.chart import first, short
from gpumap.report.charts.svg import INK, RULE, SERIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes

    from gpumap.model import Case, Measurement, Report, Trace
    from gpumap.report.charts.chart import Chart

_EVENTS = 400  # of a trace that are drawn
_LANES = 12
_CONTROLS = ("product",)
_HIGH = 42.0  # pixels
_BAR, _AT = 0.4, 0.66  # shares of a lane
_LEAST = 0.6  # pixels of the shortest bar
_COUNTED = 100  # comparisons, of thousands
_HOST = "cpu"  # the place of what is in host memory
_KINDS = {"operation": SERIES[0], "transfer": SERIES[1], "implicit transfer": SERIES[4]}
_LONGEST = 1e9  # seconds; beyond, a file was edited


@dataclass(frozen=True, slots=True)
class _Bar:
    lane: str
    word: str
    start: float
    stop: float


def charts(report: Report) -> Iterator[Chart]:
    """Yield a chart for each context of a program, or one for the last block of a benchmark."""
    for trace in report.traces:
        found = list(_events(trace))
        if found:
            yield _traced(trace, found, len(report.traces) > 1)
    if not report.traces and (bars := _block(report.measurements)):
        words = list(dict.fromkeys(bar.word for bar in bars))
        colors = {w: SERIES[min(n, len(SERIES) - 1)] for n, w in enumerate(words)}
        colors |= {word: INK for word in words if word in _CONTROLS}
        told = (*(_said(bars, word) for word in words), *_of_which(report.measurements))
        lanes = list(dict.fromkeys(bar.lane for bar in sorted(bars, key=lambda b: b.lane)))
        yield _chart("What each device did when, in the last block", lanes, bars, colors, told)


# --- traces ------------------------------------------------------------------------------------


def _events(trace: Trace) -> Iterator[_Bar]:
    for event in trace.events:
        if event.start is not None and event.stop is not None and _sane(event.start, event.stop):
            word = f"implicit {event.kind}" if event.implicit else event.kind
            place = "host" if event.device == _HOST else event.device
            yield _Bar(place, word if word in _KINDS else event.kind, event.start, event.stop)


def _sane(start: float, stop: float) -> bool:
    return -_LONGEST < start <= stop < _LONGEST


def _traced(trace: Trace, found: Sequence[_Bar], several: bool) -> Chart:  # noqa: FBT001 - of one
    shown, more = first(found, _EVENTS, "events are drawn: --perfetto has all")
    words = [word for word in _KINDS if any(bar.word == word for bar in shown)]
    told = [*(_said(shown, word) for word in words), *more]
    if missing := len(trace.events) - len(found):
        told.append(f"{missing} events have no times")
    names = [binding.name for binding in trace.bindings]
    lanes = list(dict.fromkeys([*names, *(bar.lane for bar in shown)]))
    title = f"What each device did when, context {trace.number}" if several else (
        "What each device did when"
    )  # fmt: skip
    return _chart(title, lanes, shown, {w: _KINDS[w] for w in words}, tuple(told))


# --- benchmarks --------------------------------------------------------------------------------


def _block(rows: Sequence[Measurement]) -> list[_Bar]:
    """Return the spans of the last block of a comparison on several devices, and what ran beside.

    Rows of other benchmarks have no times of their events.
    """
    wide = _wide(rows)
    if not wide:
        return []
    rows = [row for row in rows if charted(row.case, "timeline")]
    case = wide[0].case
    group = [row for row in rows if alike(row.case, case)]
    bars = [bar for row in group for bar in _last(row)]
    if not bars:
        return []
    start, stop = min(bar.start for bar in bars), max(bar.stop for bar in bars)
    beside = [bar for row in rows if is_control(row.case) for bar in _last(row)]
    return bars + [bar for bar in beside if start <= bar.start <= bar.stop <= stop]


def _wide(rows: Sequence[Measurement]) -> list[Measurement]:
    """Return the rows that ran on several devices, with the times of each."""
    rows = [row for row in rows if charted(row.case, "timeline")]
    return [row for row in rows if row.samples and len(row.samples.intervals) > 1]


def _of_which(rows: Sequence[Measurement]) -> Iterator[str]:
    """Yield what is not drawn: the blocks before, and comparisons behind the first one."""
    wide = _wide(rows)
    blocks = len(set(wide[0].samples.blocks)) if wide[0].samples else 0
    if blocks > 1:
        yield f"of {blocks} blocks the last is drawn; the tables are of all"
    found: list[Case] = []
    for row in wide:
        if not any(alike(row.case, one) for one in found):
            found.append(row.case)
        if len(found) == _COUNTED:
            break
    if len(found) > 1:
        many = "many" if len(found) == _COUNTED else f"{len(found)}"
        yield f"of {many} comparisons on several devices the first is drawn: {wide[0].case.id}"


def _last(row: Measurement) -> Iterator[_Bar]:
    if row.samples is not None and row.samples.blocks:
        at = [n for n, block in enumerate(row.samples.blocks) if block == row.samples.blocks[-1]]
        for name, spans in row.samples.intervals.items():
            found = (spans[n] for n in at if n < len(spans))
            yield from (_Bar(name, row.case.name, a, b) for a, b in found if _sane(a, b))


# --- drawing -----------------------------------------------------------------------------------


def _said(bars: Sequence[_Bar], word: str) -> str:
    """Return how much of a kind there was on each device."""
    of_word = [bar for bar in bars if bar.word == word]
    lanes = dict.fromkeys(bar.lane for bar in of_word)
    sums = {lane: [b.stop - b.start for b in of_word if b.lane == lane] for lane in lanes}
    parts = (f"{lane} {short(sum(s), 's')}" + (f" in {len(s)}" if len(s) > 1 else "")
             for lane, s in sums.items())  # fmt: skip
    return f"{word}: {', '.join(parts)}"


def _chart(
    title: str,
    lanes: Sequence[str],
    bars: Sequence[_Bar],
    colors: dict[str, str],
    told: tuple[str, ...],
) -> Chart:
    shown, more = first(lanes, _LANES, "places are drawn")
    legend = [(color, word, "patch") for word, color in colors.items()]
    drawn = [bar for bar in bars if bar.lane in shown]
    texts = [(lane, lane, "", INK) for lane in shown]
    draw = partial(_draw, shown, drawn, colors)
    return paper.listing(title, [*told, *more], legend, texts, _HIGH, draw)


def _draw(lanes: Sequence[str], bars: Sequence[_Bar], colors: dict[str, str], axes: Axes) -> None:
    start, stop = min(bar.start for bar in bars), max(bar.stop for bar in bars)
    for n, lane in enumerate(lanes):
        axes.axhline(n + _AT, color=RULE, linewidth=1.0, zorder=0.5)
        for word, color in colors.items():
            spans = [(b.start - start, b.stop - b.start) for b in bars
                     if (b.lane, b.word) == (lane, word)]  # fmt: skip
            axes.broken_barh(spans, (n + _AT - _BAR / 2, _BAR), facecolor=color, edgecolor=color,
                             linewidth=_LEAST)  # fmt: skip
    whole = (stop - start) or 1e-9
    axes.set_xlim(0.0, whole)
    paper.linear(axes.xaxis, whole, "s")

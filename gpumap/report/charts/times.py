"""Charts of times: raw samples as distributions, and what each device did when."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from gpumap.bench.registry import alike, charted, how, sizes
from gpumap.figures import estimate
from gpumap.judge.inconclusive import too_few
from gpumap.report.charts import BAD, INK, RULE, SERIES, drawable, ends, first, paper, short
from gpumap.report.rows import shown
from gpumap.report.table import named
from gpumap.text import briefly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from matplotlib.axes import Axes

    from gpumap.model import Case, Measurement, Report, Trace
    from gpumap.report.charts import Chart


_ROWS, _DOTS = 10, 200  # of a chart; of a row
_STRIP_HIGH = 50.0  # pixels
_FROM, _TO = 0.38, 0.82  # shares of a row between which its dots stand, the first one above
_NEAREST, _FARTHEST = 0.5, 2.0  # times the median: what is beyond stands at the edge
_LEGEND = (
    (SERIES[0], "a sample, the first one above", "patch"),
    (BAD, "marked", "patch"),
    (SERIES[0], "under 6 samples", "hollow"),
    (INK, "median, interval", "line"),
)


def samples(report: Report) -> Iterator[Chart]:
    """Yield a chart for each benchmark: of its rows those that come first."""
    groups: dict[str, list[Measurement]] = {}
    for row in shown(report):
        if row.status == "ok" and len(_seconds(row)) > 1:
            groups.setdefault(row.case.bench, []).append(row)
    for bench, group in groups.items():
        yield _samples(f"Samples of {bench}", group)


def _seconds(row: Measurement) -> list[float]:
    """Return the samples that have a place: those of a faulty clock, or edited, have none."""
    seconds = row.samples.seconds if row.samples else ()
    return [s for s in seconds if 1e-15 < s < 1e9]  # noqa: PLR2004 - a time


def _samples(title: str, group: Sequence[Measurement]) -> Chart:
    drawn, more = first(group, _ROWS)
    lines = [_summary(row) for row in drawn]
    if any(len(_seconds(row)) > _DOTS for row in drawn):
        lines.append(f"of a row with more samples {_DOTS} are drawn, evenly taken")
    texts = [
        (_named(row, briefly), _named(row), short(median(_seconds(row)), "s"), INK) for row in drawn
    ]
    draw = partial(_draw_samples, drawn)
    return paper.listing(title, [*lines, *more], _legend(drawn), texts, _STRIP_HIGH, draw)


def _named(row: Measurement, names: Callable[[Case], str] = named) -> str:
    size = (f", {key} {value}" for key, value in sizes(row.case).items())
    what = " ".join((row.case.name, "on", names(row.case), *map(str, how(row.case).values())))
    return f"{what}{''.join(size)}"


def _summary(row: Measurement) -> str:
    seconds = _seconds(row)
    marks = row.samples.sample_notes if row.samples else ()
    marked = len({mark.sample for mark in marks})
    beside = f", {marked} marked" if marked else ""
    span = f"{short(min(seconds), 's')} to {short(max(seconds), 's')}"
    return f"{_named(row)}: n {len(seconds)}, {span}, {estimate(row.time)}{beside}"


def _legend(rows: Sequence[Measurement]) -> list[paper.Entry]:
    few = any(map(too_few, rows))
    return [entry for entry in _LEGEND if few or entry[2] != "hollow"]


def _draw_samples(rows: Sequence[Measurement], axes: Axes) -> None:
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
        _dots(axes, dots, color, hollow=too_few(row))
    time = row.time
    if time is not None and drawable(time) and not too_few(row):
        low, high = (_near(end / middle) for end in ends(time))
        y = place + _TO + 0.05
        axes.plot([low, high], [y, y], color=INK, linewidth=1.5, solid_capstyle="butt")
        at = _near(time.value / middle)
        axes.plot([at, at], [y - 0.06, y + 0.06], color=INK, linewidth=1.5)


def _near(ratio: float) -> float:
    """Return a ratio to the median, or the edge that it is beyond."""
    return min(max(ratio, _NEAREST), _FARTHEST)


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


def timeline(report: Report) -> Iterator[Chart]:
    """Yield a chart for each context of a program, or one for the last block of a benchmark."""
    for trace in report.traces:
        found = list(_events(trace))
        if found:
            yield _traced(trace, found, len(report.traces) > 1)
    if not report.traces and (bars := _block(report.measurements)):
        words = list(dict.fromkeys(bar.word for bar in bars))
        colors = {w: SERIES[min(n, len(SERIES) - 1)] for n, w in enumerate(words)}
        colors |= {word: INK for word in words if word in _CONTROLS}
        lines = (*(_totals(bars, word) for word in words), *_of_which(report.measurements))
        lanes = list(dict.fromkeys(bar.lane for bar in sorted(bars, key=lambda b: b.lane)))
        yield _chart("What each device did when, in the last block", lanes, bars, colors, lines)


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
    lines = [*(_totals(shown, word) for word in words), *more]
    if missing := len(trace.events) - len(found):
        lines.append(f"{missing} events have no times")
    names = [binding.name for binding in trace.bindings]
    lanes = list(dict.fromkeys([*names, *(bar.lane for bar in shown)]))
    title = f"What each device did when, context {trace.number}" if several else (
        "What each device did when"
    )  # fmt: skip
    return _chart(title, lanes, shown, {w: _KINDS[w] for w in words}, tuple(lines))


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
    beside = [bar for row in rows if row.case.is_control for bar in _last(row)]
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


def _totals(bars: Sequence[_Bar], word: str) -> str:
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
    lines: tuple[str, ...],
) -> Chart:
    shown, more = first(lanes, _LANES, "lanes are drawn")
    legend = [(color, word, "patch") for word, color in colors.items()]
    drawn = [bar for bar in bars if bar.lane in shown]
    texts = [(lane, lane, "", INK) for lane in shown]
    draw = partial(_draw, shown, drawn, colors)
    return paper.listing(title, [*lines, *more], legend, texts, _HIGH, draw)


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

"""Speed-ups as bars for a terminal: solid to where the interval begins, and then the interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap.bench.registry import charted
from gpumap.cut import briefly
from gpumap.escape import printable, width
from gpumap.model import Estimate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.model import Measurement

MOST = 24  # bars
TITLE = "speed-up: ▒ is its interval, │ the ideal"
_WIDEST, _NARROWEST = 48, 12  # columns of a bar
_SOLID, _INTERVAL, _IDEAL, _NOTHING = "█▒│ "
_BEYOND = 1.25  # of what is known, how far an interval is shown
_EDGES = 14  # columns of a line beside label and bar: gaps, and the figure behind
_KEYS = {"size": "", "rows": "", "network": "", "batch": "batch "}  # that tell rows apart


@dataclass(frozen=True, slots=True)
class _Bar:
    """What a bar shows: whose it is, its figure, and what it could be."""

    label: str
    figure: Estimate
    ideal: float | None


def lines(measurements: Sequence[Measurement], columns: int) -> Iterator[str]:
    """Yield the bars below their title, as wide as a terminal has columns; none where none fits."""
    bars = [bar for bar in map(_bar, measurements) if bar is not None][:MOST]
    if not bars:
        return
    label = max(width(bar.label) for bar in bars)
    space = min(_WIDEST, columns - label - _EDGES)
    if space < _NARROWEST:
        return
    most = max(map(_reach, bars))
    if most <= 0.0:
        return
    yield TITLE
    for bar in bars:
        padding = " " * (label - width(bar.label))
        drawn = _drawn(bar, space, most)
        yield f"  {bar.label}{padding}  {drawn}  {bar.figure.value:.2f}"


def _bar(row: Measurement) -> _Bar | None:
    figure, case = row.metrics.get("speedup"), row.case
    finite = figure is not None and 0.0 <= figure.low <= figure.value <= figure.high < math.inf
    if figure is None or not finite or not charted(case, "bars") or len(case.names) < 2:  # noqa: PLR2004 - of several
        return None
    about = [f"{word}{case.params[key]}" for key, word in _KEYS.items() if key in case.params]
    label = printable(" ".join((str(case.params.get("rule", case.name)), briefly(case), *about)))
    found = row.metrics.get("ideal")
    ideal = found.value if found else float(len(case.names))
    return _Bar(label, figure, ideal if math.isfinite(ideal) else None)


def _reach(bar: _Bar) -> float:
    """Return how far a scale must go for a bar: an interval that goes far beyond runs out of it."""
    known = max(bar.figure.value, bar.ideal or 0.0)
    return max(known, min(bar.figure.high, known * _BEYOND))


def _drawn(bar: _Bar, space: int, most: float) -> str:
    def at(value: float) -> int:
        return round(min(space, value / most * space))

    low, high = at(bar.figure.low), max(at(bar.figure.high), at(bar.figure.low) + 1)
    cells = [*_SOLID * low, *_INTERVAL * (high - low), *_NOTHING * (space - high)][:space]
    if bar.ideal is not None:
        cells[max(at(bar.ideal) - 1, 0)] = _IDEAL
    return "".join(cells)

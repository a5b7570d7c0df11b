"""Several reports side by side: each figure of each row, in each of them. No verdict: `compare`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap.bench.registry import requested
from gpumap.judge.select import Identified
from gpumap.model import Estimate, Measurement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gpumap.judge.select import Selector
    from gpumap.model import Report

_TOLD = ("time", "issue_interval", "speedup", "latency", "peak_bandwidth", "break_even")


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure of one report, or why there is none; `ratio` is to the first report."""

    status: str  # of its row: ok, skipped, failed
    figure: Estimate | None
    ratio: float | None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of the rows of one id; a report without such a row has no cell."""

    id: str
    metric: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    """A row, a model or a break-even: what has an id and figures."""

    status: str
    metrics: Mapping[str, Estimate]
    row: Measurement | Identified
    flags: tuple[str, ...] = ()
    asked: bool = True  # not a control, nor of the ladder of a model


def lines(reports: Sequence[Report]) -> tuple[Line, ...]:
    """Return every figure that a report has, in the order of the first report that has it."""
    return _lines(reports, lambda found, _: bool(found))


def told(reports: Sequence[Report]) -> tuple[Line, ...]:
    """Return the figures that the others follow from, of the rows that were asked for."""
    asked = any(found.asked for report in reports for found in _rows(report).values())
    return _lines(reports, lambda found, name: name in _TOLD and (found.asked or not asked))


def selected(reports: Sequence[Report], selector: Selector) -> tuple[Line, ...]:
    """Return the figures that a selector means."""

    def meant(found: _Found, name: str) -> bool:
        return name == selector.metric and selector.matches(found.row)

    return _lines(reports, meant)


def in_time(reports: Iterable[Report]) -> list[int]:
    """Return the places of the reports in the order in which their runs started."""
    started = [report.started for report in reports]
    return sorted(range(len(started)), key=started.__getitem__)


def elsewhere(reports: Sequence[Report]) -> tuple[bool | None, ...]:
    """Return of each report whether it is of another machine than the first; None: unknown."""
    return tuple(_other(reports[0], report) for report in reports)


def changed(reports: Sequence[Report]) -> tuple[bool | None, ...]:
    """Return of each report whether it is of another machine than the one before it."""
    before = (reports[0], *reports)
    return tuple(map(_other, before, reports))


def _other(a: Report, b: Report) -> bool | None:
    if a.fingerprint is None or b.fingerprint is None:
        return None
    return a.fingerprint.hash != b.fingerprint.hash


def _lines(reports: Sequence[Report], wanted: Callable[[_Found, str], bool]) -> tuple[Line, ...]:
    every = [_rows(report) for report in reports]
    keys = dict.fromkeys(
        (id_, name)
        for rows in every
        for id_, found in rows.items()
        for name in found.metrics
        if wanted(found, name)
    )
    return tuple(
        Line(id_, name, _cells([rows.get(id_) for rows in every], name)) for id_, name in keys
    )


def _cells(rows: Sequence[_Found | None], name: str) -> tuple[Cell | None, ...]:
    first = rows[0].metrics.get(name) if rows[0] else None
    return tuple(_cell(found, name, first) if found else None for found in rows)


def _cell(found: _Found, name: str, first: Estimate | None) -> Cell:
    figure = found.metrics.get(name)
    return Cell(found.status, figure, _ratio(figure, first), found.flags)


def _ratio(figure: Estimate | None, first: Estimate | None) -> float | None:
    if figure is None or first is None or first.value == 0.0:
        return None
    ratio = figure.value / first.value
    return ratio if math.isfinite(ratio) else None


def _rows(report: Report) -> dict[str, _Found]:
    return dict(_identified(report))


def _identified(report: Report) -> Iterator[tuple[str, _Found]]:
    for row in report.measurements:
        case = row.case
        yield case.id, _Found(row.status, row.metrics, row, row.flags, requested(case))
    for fit in report.fits:
        yield fit.id, _Found("ok" if fit.fits else "failed", fit.metrics, fit)
    for found in report.break_evens:
        yield found.id, _Found("failed" if found.reason else "ok", found.metrics, found)

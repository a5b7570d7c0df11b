"""Several reports in one table, side by side. JSON has every figure.

    {"reports": [{"label", "file", "started", "status", "exit_code", "simulated",
                  "fingerprint", "other_machine"}],
     "rows": [{"id", "metric", "cells": [null | {"status", "figure", "ratio", "flags"}]}],
     "notes": [text]}

`cells` are in the order of `reports`, as given. `figure` is as in a report, or null; `ratio` is to
the first report. `other_machine`: than that of the first; null: one of them does not say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.figures import estimate
from gpumap.model import Estimate, Fit, Report
from gpumap.report.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumap.model import Measurement
    from gpumap.report import Style


_KEYS = ("started", "status", "exit_code", "simulated")  # of a report, as they are
# metrics that the others follow from: a table has these alone
_METRICS = ("time", "issue_interval", "speedup", "latency", "peak_bandwidth", "break_even")


@dataclass(frozen=True, slots=True)
class Cell:
    """A metric of one report, or why there is none; `ratio` is to the first report."""

    status: str  # of its row: ok, skipped, failed
    figure: Estimate | None
    ratio: float | None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """One metric of the rows of one id; a report without such a row has no cell."""

    id: str
    metric: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class Saved:
    """A report that was read, where from, and what it is called beside others."""

    label: str
    file: str
    report: Report

    @property
    def marked(self) -> str:
        """Return the label, with what its figures must not be read without."""
        simulated = ("simulated",) if self.report.simulated else ()
        status = () if self.report.status == "ok" else (self.report.status,)
        marks = (*simulated, *status)
        return f"{self.label} ({', '.join(marks)})" if marks else self.label


FORMATS = ("plain", "rich", "json", "html")


def render(saved: Sequence[Saved], format_: str, style: Style) -> str:
    """Return reports in one of FORMATS, rows joined by their ids."""
    return table_as(format_, style, table(saved), partial(_data, saved))


def table_as(format_: str, style: Style, found: Table, data: Callable[[], dict[str, Any]]) -> str:
    """Return a table in one of FORMATS; `data` returns what JSON has in its place."""
    if format_ == "json":
        from gpumap.model.json_text import text

        return text(data())
    if format_ == "html":
        from gpumap.report.html import several

        return several(found.title, found)
    from gpumap.report import plain
    from gpumap.report.table import PIPED

    if format_ == "rich":
        from gpumap.report.rich import printed

        return printed(plain.table(found, style.width, whole=style.verbose), style)
    room = None if style.verbose else PIPED
    return plain.written(plain.table(found, room, whole=style.verbose))


def lines(reports: Sequence[Report]) -> tuple[Line, ...]:
    """Return every metric of the reports, in the order of the first report that has it."""
    every = [_rows(report) for report in reports]
    keys = ((id_, name) for rows in every for id_, row in rows.items() for name in row.metrics)
    return tuple(
        Line(id_, name, tuple(_cells([rows.get(id_) for rows in every], name)))
        for id_, name in dict.fromkeys(keys)
    )


def _rows(report: Report) -> dict[str, Measurement | Fit]:
    rows: dict[str, Measurement | Fit] = {row.case.id: row for row in report.measurements}
    rows.update((fit.id, fit) for fit in report.fits)
    return rows


def _cells(rows: Sequence[Measurement | Fit | None], name: str) -> Iterator[Cell | None]:
    figures = [row.metrics.get(name) if row else None for row in rows]
    for row, figure in zip(rows, figures, strict=True):
        if row is None:
            yield None
        elif isinstance(row, Fit):
            yield Cell("ok" if row.fits else "failed", figure, _ratio(figure, figures[0]))
        else:
            yield Cell(row.status, figure, _ratio(figure, figures[0]), row.flags)


def _ratio(figure: Estimate | None, first: Estimate | None) -> float | None:
    if figure is None or first is None or first.value == 0.0:
        return None
    ratio = figure.value / first.value
    return ratio if math.isfinite(ratio) else None


def table(saved: Sequence[Saved]) -> Table:
    """Return a column for each report; a row for each metric that the others follow from."""
    rows, before = [], ""
    for line in _shown([each.report for each in saved]):
        id_ = "" if line.id == before else line.id
        before = line.id
        first, *others = line.cells
        rows.append((id_, line.metric, _figure(first), *map(_against_first, others)))
    what = f"x1.05: as many times the figure of {saved[0].label}"
    remark = f"{what}; no verdict: `gpumap compare` judges" if rows else "there is no figure"
    columns = ("row", "metric", *(each.marked for each in saved))
    remarks = (remark, *_notes(saved))
    return Table(f"{len(saved)} reports side by side", columns, tuple(rows), remarks)


def _shown(reports: Sequence[Report]) -> list[Line]:
    """Return the lines of a table: of requested rows and models, where there are any."""
    rows = (row for report in reports for row in report.measurements)
    chosen = {row.case.id for row in rows if row.case.requested}
    chosen |= {fit.id for report in reports for fit in report.fits}
    every = (line for line in lines(reports) if line.metric in _METRICS)
    return [line for line in every if not chosen or line.id in chosen]


def _against_first(cell: Cell | None) -> str:
    ratio = "" if cell is None or cell.ratio is None else f"{cell.ratio:#.3g}".rstrip(".")
    return f"{_figure(cell)}  x{ratio}" if ratio else _figure(cell)


def _figure(cell: Cell | None) -> str:
    """Return a figure with its interval; where there is none, why."""
    if cell is None:
        return "-"
    text = estimate(cell.figure) if cell.figure or cell.status == "ok" else cell.status
    return " ".join((text, *cell.flags))


def _notes(saved: Sequence[Saved]) -> Iterator[str]:
    """Yield which reports are hardly to be compared with the first."""
    first, *others = saved
    for each in others:
        if elsewhere(first.report, each.report):
            what = f"{each.label} is of another machine than {first.label}"
            yield f"{what}: `gpumap compare` says what differs"
        if first.report.simulated != each.report.simulated:
            one = each if each.report.simulated else first
            yield f"{one.label} is simulated: its figures are a script's"


def elsewhere(first: Report, other: Report) -> bool | None:
    """Return whether a report is of another machine than the first; None: one does not say."""
    if first.fingerprint is None or other.fingerprint is None:
        return None
    return first.fingerprint.hash != other.fingerprint.hash


def _data(saved: Sequence[Saved]) -> dict[str, Any]:
    """Return all figures."""
    from gpumap.model.io import plain

    reports = [each.report for each in saved]
    described = [
        {
            "label": each.label,
            "file": each.file,
            **{key: getattr(each.report, key) for key in _KEYS},
            "fingerprint": each.report.fingerprint.hash if each.report.fingerprint else None,
            "other_machine": elsewhere(reports[0], each.report),
        }
        for each in saved
    ]
    return {"reports": described, "rows": plain(lines(reports)), "notes": list(_notes(saved))}

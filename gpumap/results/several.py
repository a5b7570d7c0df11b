"""Several reports in one table, side by side. JSON has every figure.

    {"reports": [{"label", "file", "started", "status", "exit_code", "simulated",
                  "fingerprint", "other_machine"}],
     "rows": [{"id", "metric", "cells": [null | {"status", "figure", "ratio", "flags"}]}],
     "notes": [text]}

`cells` are in the order of `reports`, as given. `figure` is as in a report, or null; `ratio` is to
the first report. `other_machine`: than that of the first; null: one of them does not say.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.figures import estimate
from gpumap.judge import several_reports
from gpumap.model import Report
from gpumap.report.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumap.judge.several_reports import Cell
    from gpumap.report import Style


_KEYS = ("started", "status", "exit_code", "simulated")  # of a report, as they are


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


def table(saved: Sequence[Saved]) -> Table:
    """Return a column for each report."""
    figures = several_reports.key_figures([each.report for each in saved])
    rows, before = [], ""
    for line in figures:
        id_ = "" if line.id == before else line.id
        before = line.id
        first, *others = line.cells
        rows.append((id_, line.metric, _figure(first), *map(_against_first, others)))
    what = f"x1.05: as many times the figure of {saved[0].label}"
    remark = f"{what}; no verdict: `gpumap compare` judges" if figures else "there is no figure"
    columns = ("row", "metric", *(each.marked for each in saved))
    remarks = (remark, *_notes(saved))
    return Table(f"{len(saved)} reports side by side", columns, tuple(rows), remarks)


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
    elsewhere = several_reports.elsewhere([each.report for each in saved])
    for each, other in zip(others, elsewhere[1:], strict=True):
        if other:
            what = f"{each.label} is of another machine than {first.label}"
            yield f"{what}: `gpumap compare` says what differs"
        if other is None:
            yield f"{each.label} or {first.label} does not say which machine it is of"
        if first.report.simulated != each.report.simulated:
            one = each if each.report.simulated else first
            yield f"{one.label} is simulated: its figures are a script's"


def _data(saved: Sequence[Saved]) -> dict[str, Any]:
    """Return all figures."""
    from gpumap.model.io import plain

    reports = [each.report for each in saved]
    others = several_reports.elsewhere(reports)
    described = [
        {
            "label": each.label,
            "file": each.file,
            **{key: getattr(each.report, key) for key in _KEYS},
            "fingerprint": each.report.fingerprint.hash if each.report.fingerprint else None,
            "other_machine": other,
        }
        for each, other in zip(saved, others, strict=True)
    ]
    rows = plain(several_reports.lines(reports))
    return {"reports": described, "rows": rows, "notes": list(_notes(saved))}

"""Several reports in one table, side by side. JSON has every figure.

    {"reports": [{"label", "file", "started", "status", "exit_code", "simulated", "edited",
                  "fingerprint", "other_machine"}],
     "rows": [{"id", "metric", "cells": [null | {"status", "figure", "ratio", "flags"}]}],
     "notes": [text]}

`cells` are in the order of `reports`, as given. `figure` is as in a report, or null; `ratio` is to
the first report. `other_machine`: than that of the first; null: one of them does not say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from gpumap.figures import estimate
from gpumap.judge import several_reports
from gpumap.model import Report
from gpumap.report.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.judge.several_reports import Cell, Line
    from gpumap.report import Style


@dataclass(frozen=True, slots=True)
class Saved:
    """A report that was read, where from, and what it is called beside others."""

    label: str
    file: str
    report: Report

    @property
    def edited(self) -> bool:
        """Return whether it was edited, or judges a report that was."""
        from gpumap.model.io import EDITED

        return EDITED in self.report.notes

    @property
    def marked(self) -> str:
        """Return the label, with what its figures must not be read without."""
        simulated = ("simulated",) if self.report.simulated else ()
        edited = ("edited",) if self.edited else ()
        status = () if self.report.status == "ok" else (self.report.status,)
        marks = (*simulated, *edited, *status)
        return f"{self.label} ({', '.join(marks)})" if marks else self.label


@dataclass(frozen=True, slots=True)
class SideBySide:
    """The figures of several reports, rows joined by id."""

    saved: Sequence[Saved]

    @property
    def title(self) -> str:
        """Return how many there are."""
        return f"{len(self.saved)} reports side by side"

    def table(self) -> Table:
        """Return a column for each report."""
        reports = [each.report for each in self.saved]
        labels = tuple(each.marked for each in self.saved)
        figures, rows, before = several_reports.key_figures(reports), [], ""
        for line in figures:
            id_ = "" if line.id == before else line.id
            before = line.id
            first, *others = line.cells
            rows.append((id_, line.metric, _figure(first), *map(_against_first, others)))
        what = f"x1.05: as many times the figure of {self.saved[0].label}"
        remark = f"{what}; no verdict: `gpumap compare` judges" if figures else "there is no figure"
        columns = ("row", "metric", *labels)
        return Table(self.title, columns, tuple(rows), (remark, *self.notes()))

    def data(self) -> dict[str, Any]:
        """Return all figures."""
        reports = [each.report for each in self.saved]
        others = several_reports.elsewhere(reports)
        return _data(self.saved, others, several_reports.lines(reports), self.notes())

    def notes(self) -> tuple[str, ...]:
        """Return which reports are hardly to be compared with the first."""
        first, *others = self.saved
        elsewhere = several_reports.elsewhere([each.report for each in self.saved])
        return tuple(
            note
            for each, other in zip(others, elsewhere[1:], strict=True)
            for note in _notes(first, each, other=other)
        )


FORMATS = ("plain", "rich", "json", "html")


class View(Protocol):
    """What several reports are shown as."""

    @property
    def title(self) -> str:
        """Return what it is about."""

    def table(self) -> Table:
        """Return its table."""

    def data(self) -> dict[str, Any]:
        """Return what JSON has of it."""


def render(view: View, format_: str, style: Style) -> str:
    """Return a view in one of FORMATS."""
    if format_ == "html":
        from gpumap.report.html import several

        return several(view.title, view.table())
    if format_ == "json":
        from gpumap.model.json_text import text

        return text(view.data())
    from gpumap.report import plain
    from gpumap.report.table import PIPED

    if format_ == "rich":
        from gpumap.report.rich import printed

        return printed(plain.table(view.table(), style.width, whole=style.verbose), style)
    room = None if style.verbose else PIPED
    return plain.written(plain.table(view.table(), room, whole=style.verbose))


def _notes(first: Saved, other_one: Saved, *, other: bool | None) -> Iterator[str]:
    if other:
        what = f"{other_one.label} is of another machine than {first.label}"
        yield f"{what}: `gpumap compare` says what differs"
    if other is None:
        yield f"{other_one.label} or {first.label} does not say which machine it is of"
    if first.report.simulated != other_one.report.simulated:
        one = other_one if other_one.report.simulated else first
        yield f"{one.label} is simulated: its figures are a script's"


def _against_first(cell: Cell | None) -> str:
    ratio = _ratio(cell)
    return _figure(cell) if ratio == "-" else f"{_figure(cell)}  x{ratio}"


def _figure(cell: Cell | None) -> str:
    """Return a figure with its interval; where there is none, why."""
    if cell is None:
        return "-"
    text = estimate(cell.figure) if cell.figure or cell.status == "ok" else cell.status
    return " ".join((text, *cell.flags))


def _ratio(cell: Cell | None) -> str:
    return "-" if cell is None or cell.ratio is None else f"{cell.ratio:#.3g}".rstrip(".")


def _data(
    saved: Sequence[Saved],
    others: Sequence[bool | None],
    lines: Sequence[Line],
    notes: Sequence[str],
) -> dict[str, Any]:
    from gpumap.model.io import plain

    described = [_described(each, other) for each, other in zip(saved, others, strict=True)]
    return {"reports": described, "rows": plain(lines), "notes": list(notes)}


def _described(saved: Saved, other: bool | None) -> dict[str, Any]:  # noqa: FBT001 - None: unknown
    report = saved.report
    return {
        "label": saved.label,
        "file": saved.file,
        "started": report.started,
        "status": report.status,
        "exit_code": report.exit_code,
        "simulated": report.simulated,
        "edited": saved.edited,
        "fingerprint": report.fingerprint.hash if report.fingerprint else None,
        "other_machine": other,
    }

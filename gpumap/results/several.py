"""Several reports in one table, side by side: for people, each file has its own figures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from gpumap.figures import estimate
from gpumap.model import Estimate, Fit, Measurement, Report
from gpumap.report import Style, plain
from gpumap.report.table import PIPED, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


FORMATS = ("plain", "rich")
# metrics that the others follow from: a table has these alone
_METRICS = ("time", "issue_interval", "speedup", "latency", "peak_bandwidth", "break_even")


class Saved(NamedTuple):
    """A report that was read, and what it is called beside others."""

    label: str
    report: Report

    def marked(self, first: Report) -> str:
        """Return the label, with what its figures must not be read without."""
        mine, theirs = (each.fingerprint and each.fingerprint.hash for each in (self.report, first))
        marks = {
            "simulated": self.report.simulated,
            "another machine": None not in (mine, theirs) and mine != theirs,
            self.report.status: self.report.status != "ok",
        }
        words = ", ".join(word for word, true in marks.items() if true)
        return f"{self.label} ({words})" if words else self.label


def render(found: Table, format_: str, style: Style) -> str:
    """Return a table in one of FORMATS."""
    if format_ == "rich":
        from gpumap.report.rich import printed

        return printed(plain.table(found, style.width, whole=style.verbose), style)
    room = None if style.verbose else PIPED
    return plain.written(plain.table(found, room, whole=style.verbose))


def table(saved: Sequence[Saved]) -> Table:
    """Return a column for each report; a row for each metric that the others follow from."""
    every = [_rows(each.report) for each in saved]
    keys = ((id_, name) for rows in every for id_, row in rows.items() for name in row.metrics)
    lines, before = [], ""
    for id_, name in dict.fromkeys(keys):
        if name in _METRICS:
            cells = _cells([rows.get(id_) for rows in every], name)
            lines.append(("" if id_ == before else id_, name, *cells))
            before = id_
    what = f"x1.05: as many times the figure of {saved[0].label}"
    remark = f"{what}; no verdict: `gpumap compare` judges" if lines else "there is no figure"
    columns = ("row", "metric", *(each.marked(saved[0].report) for each in saved))
    title = f"{len(saved)} reports side by side"
    return Table(title, columns, tuple(lines), (remark,), right=())


def _rows(report: Report) -> Mapping[str, Measurement | Fit]:
    """Return the requested rows and models of a report by id; without any its other rows."""
    rows: dict[str, Measurement | Fit] = {row.case.id: row for row in report.measurements}
    found = {id_: row for id_, row in rows.items() if row.case.requested}
    return found | {fit.id: fit for fit in report.fits} or rows


def _cells(rows: Sequence[Measurement | Fit | None], name: str) -> Iterator[str]:
    """Yield the figure of each report, the later ones with their ratio to the first."""
    figures = [row.metrics.get(name) if row else None for row in rows]
    for number, (row, figure) in enumerate(zip(rows, figures, strict=True)):
        yield f"{_figure(row, figure)}{_ratio(figure, figures[0]) if number else ''}"


def _figure(row: Measurement | Fit | None, figure: Estimate | None) -> str:
    """Return a figure with its interval; where there is none, why."""
    if row is None:
        return "-"
    if isinstance(row, Fit):
        return estimate(figure) if figure or row.fits else "failed"
    text = estimate(figure) if figure or row.status == "ok" else row.status
    return " ".join((text, *row.flags))


def _ratio(figure: Estimate | None, first: Estimate | None) -> str:
    """Return how many times the first figure it is; nothing where that says nothing."""
    if figure is None or first is None or first.value == 0.0:
        return ""
    ratio = figure.value / first.value
    return f"  x{f'{ratio:#.3g}'.rstrip('.')}" if math.isfinite(ratio) else ""

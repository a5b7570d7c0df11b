"""Verdicts as tables of text: on limits, and on what changed since base; and why a run skipped."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.escape import printable
from gpumap.report.diagnostics import SHOWN
from gpumap.report.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.model import Estimate, Report, Verdict

_LIMIT, _SELFTEST = "limit", "selftest"  # the latter's verdicts stand in a table of their own
_FORGIVEN = "what is inconclusive was let pass: --inconclusive=pass"


def tables(report: Report) -> Iterator[Table]:
    """Yield a table of the verdicts on limits, and one of those on changes, where there are any."""
    limits = [verdict for verdict in report.verdicts if verdict.rule == _LIMIT]
    others = [verdict for verdict in report.verdicts if verdict.rule not in (_LIMIT, _SELFTEST)]
    if limits:
        yield _limits(report, limits)
    if others:
        yield _changes(report, others)


def skipped(report: Report) -> Iterator[str]:
    """Yield why nothing was measured, if that was allowed."""
    if report.status != "skipped":
        return
    for problem in report.errors[:SHOWN]:
        yield f"skipped: {printable(problem.diagnostic.message)}"
    if len(report.errors) > SHOWN:
        yield f"... and {len(report.errors) - SHOWN} more; --format json lists them all"


def _limits(report: Report, verdicts: Sequence[Verdict]) -> Table:
    columns, known = ("limit", "row", "figure", "verdict"), _units(report)
    rows = (
        (v.text, v.id or "-", _figure(v, known.get((v.id or "", v.metric), "1")), v.verdict)
        for v in verdicts
    )
    return Table("limits", columns, tuple(rows), _remarks(report, verdicts))


def _changes(report: Report, verdicts: Sequence[Verdict]) -> Table:
    columns = ("row", "metric", "new/base", "threshold", "verdict")
    rows = (
        (
            v.id or "-",
            v.metric,
            _figure(v, "1"),
            "-" if v.threshold is None else f"{v.threshold:.2%}",
            _word(v),
        )
        for v in verdicts
    )
    remarks = (*_again(verdicts), *_remarks(report, verdicts))
    return Table("changes", columns, tuple(rows), remarks)


def _word(verdict: Verdict) -> str:
    """Return a verdict's word, and whether another measurement said the same."""
    said = {True: " (confirmed)", False: " (see below)", None: ""}
    return f"{verdict.verdict}{said[verdict.confirmed]}"


def _again(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield what there was before a figure was measured once more, or why it was not."""
    return (printable(v.text) for v in verdicts if v.confirmed is not None)


def _figure(verdict: Verdict, unit: str) -> str:
    """Return a verdict's figure with its interval; a dash where there is none."""
    value, low, high = verdict.value, verdict.low, verdict.high
    if value is None or low is None or high is None:
        return "-"
    shown = units.together((value, low, high), unit)
    return f"{shown[0]} [{shown[1]}, {shown[2]}]"


def _units(report: Report) -> dict[tuple[str, str], str]:
    """Return the unit of each figure of a report, by the row's id and the metric."""
    rows: Iterator[tuple[str, Mapping[str, Estimate]]] = chain(
        ((row.case.id, row.metrics) for row in report.measurements),
        ((fit.id, fit.metrics) for fit in report.fits),
        ((found.id, found.metrics) for found in report.break_evens),
    )
    return {(id_, name): figure.unit for id_, metrics in rows for name, figure in metrics.items()}


def _remarks(report: Report, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    unclear = any(verdict.verdict == "inconclusive" for verdict in verdicts)
    return (_FORGIVEN,) if unclear and report.settings.get("inconclusive") == "pass" else ()

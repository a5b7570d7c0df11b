"""Verdicts as tables of text: on limits, and on what changed since base; and why a run skipped."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.escape import printable
from gpumap.report.diagnostics import SHOWN
from gpumap.report.table import Table, estimate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.model import Acceptance, Estimate, Report, Verdict

_LIMIT = "limit"
COLUMNS = {
    "limits": ("limit", "row", "figure", "verdict"),
    "changes": ("row", "metric", "new/base", "threshold", "verdict"),
}
_WORST = ("regression", "missing", "inconclusive", "new", "improvement", "pass")
_NOUNS = ("regression", "improvement")  # words that have a plural
_FORGIVEN = "what is inconclusive was let pass: --inconclusive=pass"


def tables(report: Report) -> Iterator[Table]:
    """Yield a table of the verdicts on limits, and one of those on changes, where there are any."""
    limits = [verdict for verdict in report.verdicts if verdict.rule == _LIMIT]
    others = [verdict for verdict in report.verdicts if verdict.rule != _LIMIT]
    if limits:
        yield _limits(report, limits)
    if others:
        yield _changes(report, sorted(others, key=rank))
    if report.accepted:
        yield _accepted(report.accepted)


def skipped(report: Report) -> Iterator[str]:
    """Yield why nothing was measured, if that was allowed."""
    if report.status != "skipped":
        return
    for problem in report.errors[:SHOWN]:
        yield f"skipped: {printable(problem.diagnostic.message)}"
    if len(report.errors) > SHOWN:
        yield f"... and {len(report.errors) - SHOWN} more; --format json lists them all"


def _limits(report: Report, verdicts: Sequence[Verdict]) -> Table:
    known = _units(report)
    rows = (
        (v.text, v.id or "-", _figure(v, known.get((v.id or "", v.metric), "1")), v.verdict)
        for v in verdicts
    )
    return Table("limits", COLUMNS["limits"], tuple(rows), _remarks(report, verdicts))


def _changes(report: Report, verdicts: Sequence[Verdict]) -> Table:
    rows = (
        (
            v.id or "-",
            v.metric,
            _figure(v, "1"),
            "-" if v.threshold is None else f"{v.threshold:.2%}",
            v.verdict,
        )
        for v in verdicts
    )
    remarks = (_sum(verdicts), *_reasons(verdicts), *_remarks(report, verdicts))
    return Table("changes", COLUMNS["changes"], tuple(rows), remarks)


def rank(verdict: Verdict) -> int:
    """Return where a change stands: what is worst first; of one word as they come."""
    return _WORST.index(verdict.verdict) if verdict.verdict in _WORST else len(_WORST)


def _sum(verdicts: Sequence[Verdict]) -> str:
    """Return how many there are of each word: ``2 regressions, 64 pass``."""
    counts = Counter[str](verdict.verdict for verdict in verdicts)
    return ", ".join(_counted(counts[word], word) for word in (*_WORST, "skipped") if counts[word])


def _counted(count: int, word: str) -> str:
    noun = f"{word}s" if word in _NOUNS and count > 1 else word
    return f"{count} {noun}"


def _accepted(entries: Sequence[Acceptance]) -> Table:
    rows = ((entry.when, entry.reason, _were(entry)) for entry in entries)
    columns = ("when", "reason", "verdicts")
    return Table("accepted in the place of a base", columns, tuple(rows), ())


def _were(entry: Acceptance) -> str:
    return ", ".join(_counted(count, word) for word, count in entry.verdicts.items()) or "-"


def _reasons(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield each reason once, with what it holds for."""
    from gpumap.judge.compare import why

    found: dict[str, list[str]] = {}
    for verdict in verdicts:
        if (reason := why(verdict)) is not None:
            relative = f" ({_relative(verdict)})" if verdict.relative else ""
            row = f"{printable(verdict.id or '')}.{verdict.metric}{relative}"
            found.setdefault(f"{verdict.verdict}: {reason}", []).append(row)
    for reason, rows in found.items():
        yield f"{reason}: {', '.join(rows[:SHOWN])}{', ...' if len(rows) > SHOWN else ''}"


def _relative(verdict: Verdict) -> str:
    assert verdict.relative is not None
    return f"relative {estimate(verdict.relative)}"


def _figure(verdict: Verdict, unit: str) -> str:
    """Return a verdict's figure with its interval, if it has one; a dash where it has no figure."""
    if verdict.value is None:
        return "-"
    ends = [end for end in (verdict.low, verdict.high) if end is not None]
    value, *interval = units.together((verdict.value, *ends), unit)
    return f"{value} [{', '.join(interval)}]" if interval else value


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

"""Metrics that a gate judges: what the headline claims, all of them, or a choice.

A benchmark says which of its metrics its headline claims. Where the cases of a run were chosen, all
that was chosen is claimed. What is not judged is shown.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gpumap.errors import QuestionError
from gpumap.judge.phrases import truncated
from gpumap.text import fix, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.judge.pairs import Row
    from gpumap.model import Report

    Metric = tuple[str, str]  # the id of a row, and the name of one of its metrics

ALL = "all"
_NAMES = ("time", "issue_interval", "speedup")  # of the metrics that may be judged
_LISTED = 6  # metrics that a message names
_SHOWN = 60  # characters of a pattern in it
_NONE = "measure a baseline first"


def judged_metrics(report: Report, rows: Sequence[Row], patterns: Sequence[str]) -> set[Metric]:
    """Return the metrics of a report that a gate judges.

    Args:
        report: one of both.
        rows: those of it that can be compared.
        patterns: of the requested metrics; none: what the headline claims.
    """
    every = {(row.row.case.id, metric): row for row in rows for metric in row.metrics}
    if patterns:
        return {key for key, row in every.items() if _matches(row, key[1], patterns)}
    cases = _cases(report)
    if cases:
        return {key for key, row in every.items() if row.row.case.name in cases}
    return {*_claimed(rows)} & every.keys() or {*every}


def judged_rows(report: Report, rows: Sequence[Row], patterns: Sequence[str]) -> set[str]:
    """Return the ids of the rows of which a gate judges something, also of those without a figure.

    Args:
        report: one of both.
        rows: those of it that can be compared, measured or not.
        patterns: of the requested metrics; none: what the headline claims.
    """
    cases = _cases(report)
    if patterns:
        chosen = [row for row in rows if any(_matches(row, name, patterns) for name in _NAMES)]
    elif cases:
        chosen = [row for row in rows if row.row.case.name in cases]
    else:
        chosen = [row for row in rows if row.row.claims is None or row.row.claims]
    return {row.row.case.id for row in chosen}


def check_patterns(rows: Sequence[Row], patterns: Iterable[str]) -> None:
    """Refuse a pattern that selects no metric of the rows of a baseline.

    Raises:
        QuestionError: there is one; it has some metrics that can be selected.
    """
    for pattern in patterns:
        if not any(_matches(row, metric, [pattern]) for row in rows for metric in row.metrics):
            known = dict.fromkeys(_called(row, metric) for row in rows for metric in row.metrics)
            there = f"the baseline has {listed([*known], _LISTED)}" if known else _NONE
            message = f'--judge "{truncated(pattern, _SHOWN)}" selects no metric of the baseline'
            raise QuestionError(message, fix(pattern, known, there))


def _cases(report: Report) -> Sequence[str]:
    """Return the cases that were chosen by name."""
    return report.settings.get("cases") or ()


def _claimed(rows: Sequence[Row]) -> Iterator[Metric]:
    """Yield what the headline claims of each row; all metrics where its benchmark does not say."""
    for row in rows:
        claims = row.metrics if row.row.claims is None else row.row.claims
        yield from ((row.row.case.id, metric) for metric in claims)


def _matches(row: Row, metric: str, patterns: Iterable[str]) -> bool:
    name = _called(row, metric)
    return any(each == ALL or fnmatchcase(name, each) for each in patterns)


def _called(row: Row, metric: str) -> str:
    """Return a metric as a pattern names it: ``dot.many.speedup``."""
    return f"{row.row.case.bench}.{row.row.case.name}.{metric}"

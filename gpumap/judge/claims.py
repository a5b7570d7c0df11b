"""Metrics that a gate judges: what the headline claims, all of them, or a choice.

A benchmark says which of its metrics its headline claims. Where the cases of a run were chosen, all
that was chosen is claimed. What is not judged is shown.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gpumap.errors import QuestionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.judge.pairs import Row
    from gpumap.model import Report

    Metric = tuple[str, str]  # the id of a row, and the name of one of its metrics

ALL = "all"
_LISTED = 6  # metrics that a message names


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
    cases = report.settings.get("cases")
    if cases:
        return {key for key, row in every.items() if row.row.case.name in cases}
    return {*_claimed(rows)} & every.keys() or {*every}


def check_patterns(rows: Sequence[Row], patterns: Iterable[str]) -> None:
    """Refuse a pattern that selects no metric of the rows of a baseline.

    Raises:
        QuestionError: there is one; it has some metrics that can be selected.
    """
    for pattern in patterns:
        if not any(_matches(row, metric, [pattern]) for row in rows for metric in row.metrics):
            known = dict.fromkeys(_called(row, metric) for row in rows for metric in row.metrics)
            some = ", ".join([*known][:_LISTED])
            fix = f"the baseline has {some}" if some else "measure a baseline first"
            raise QuestionError(f"--judge {pattern} selects no metric of the baseline", fix)


def _claimed(rows: Sequence[Row]) -> Iterator[Metric]:
    """Yield what the headline claims of each row; all metrics where its benchmark does not say."""
    for row in rows:
        claims = row.metrics if row.row.claims is None else row.row.claims
        yield from ((row.row.case.id, metric) for metric in claims)


def _matches(row: Row, metric: str, patterns: Iterable[str]) -> bool:
    return any(each == ALL or fnmatchcase(_called(row, metric), each) for each in patterns)


def _called(row: Row, metric: str) -> str:
    """Return a metric as a pattern names it: ``dot.many.speedup``."""
    return f"{row.row.case.bench}.{row.row.case.name}.{metric}"

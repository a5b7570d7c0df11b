"""Metrics that a gate judges: what the headline claims, all of them, or a choice.

A benchmark says which of its metrics its headline claims. Where the cases of a run were chosen, all
that was chosen is claimed. What is not judged is shown.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gpumap.errors import QuestionError
from gpumap.text import cut, fix, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumap.judge.pairs import Row
    from gpumap.model import Report

    Metric = tuple[str, str]  # the id of a row, and the name of one of its metrics

ALL = "all"
_NAMES = ("time", "issue_interval", "speedup")  # of the metrics that may be judged
_LISTED = 6  # metrics that a message names
_NONE = "measure a baseline first"


def judged_metrics(report: Report, rows: Sequence[Row], patterns: Sequence[str]) -> set[Metric]:
    """Return the metrics of a report that a gate judges, also of rows without a figure.

    Args:
        report: one of both.
        rows: those of it that can be compared, measured or not.
        patterns: of the requested metrics; none: what the headline claims.
    """
    every = {(row.row.case.id, name): row for row in rows for name in row.metrics or _NAMES}
    if patterns:
        return {key for key, row in every.items() if _matches(row, key[1], patterns)}
    if cases := report.settings.get("cases"):
        return {key for key, row in every.items() if row.row.case.name in cases}
    claimed = {
        (row.row.case.id, name)
        for row in rows
        for name in (row.metrics or _NAMES if row.row.claims is None else row.row.claims)
    }
    measured = {(row.row.case.id, name) for row in rows for name in row.metrics}
    return claimed if claimed & measured else claimed | measured


def check_patterns(rows: Sequence[Row], patterns: Iterable[str]) -> None:
    """Refuse a pattern that selects no metric of the rows of a baseline.

    Raises:
        QuestionError: there is one; it has some metrics that can be selected.
    """
    for pattern in patterns:
        if not any(_matches(row, metric, [pattern]) for row in rows for metric in row.metrics):
            known = dict.fromkeys(_called(row, metric) for row in rows for metric in row.metrics)
            there = f"the baseline has {listed([*known], _LISTED)}" if known else _NONE
            message = f'--judge "{cut(pattern)}" selects no metric of the baseline'
            raise QuestionError(message, fix(pattern, known, there))


def _matches(row: Row, metric: str, patterns: Iterable[str]) -> bool:
    name = _called(row, metric)
    return any(each == ALL or fnmatchcase(name, each) for each in patterns)


def _called(row: Row, metric: str) -> str:
    """Return a metric as a pattern names it: ``dot.many.speedup``."""
    return f"{row.row.case.bench}.{row.row.case.name}.{metric}"

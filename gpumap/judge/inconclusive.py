"""Rows of which nothing is concluded, neither a cause nor a verdict.

Those of too few samples for an interval, with a ratio that was impossible, or without time. Where a
verdict was requested of one, its run is inconclusive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumap.model import Measurement

ENOUGH = 0.9  # of an ideal: what reaches it is good, what stays below it is explained


def too_few(row: Measurement) -> bool:
    """Return whether a row was measured, and has too few samples for an interval of its time."""
    return row.time is not None and not row.time.has_interval


def refused(row: Measurement) -> bool:
    """Return whether a ratio of a row was impossible."""
    return any(figure.impossible for figure in row.metrics.values())


def out_of_time(row: Measurement) -> bool:
    """Return whether there was no time to measure a row."""
    return row.status == "skipped" and row.reason is not None and row.reason.code == "budget"


def conclusive(rows: Sequence[Measurement]) -> list[Measurement]:
    """Return the rows that have, with those they are compared with, intervals and all ratios."""
    small = [row for row in rows if too_few(row)]
    # ideals rest on `solo`, what the host does on `host`
    if any(row.case.role in ("solo", "host") for row in small):
        return []
    ids = {row.case.id for row in small}
    sound = (row for row in rows if not refused(row))
    return [row for row in sound if ids.isdisjoint((row.case.id, row.case.against))]


def undecided(rows: Iterable[Measurement]) -> list[Measurement]:
    """Return the requested rows that leave a run inconclusive; no control, no size of a sweep."""
    selected = (row for row in rows if row.case.requested)
    return [row for row in selected if too_few(row) or refused(row) or out_of_time(row)]

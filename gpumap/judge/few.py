"""Rows of which nothing is concluded: of too few samples for an interval, or with a refused ratio.

Neither a cause nor a verdict comes of them. Where one was asked for, its run is inconclusive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.bench.registry import requested, specified

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumap.model import BreakEven, Measurement


def few(row: Measurement) -> bool:
    """Return whether a row was measured, and has too few samples for an interval of its time."""
    time = row.metrics.get("time") or row.metrics.get("issue_interval")
    return time is not None and not time.has_interval


def refused(row: Measurement) -> bool:
    """Return whether a ratio of a row was impossible."""
    return any(figure.impossible for figure in row.metrics.values())


def left_out(row: Measurement) -> bool:
    """Return whether there was no time to measure a row."""
    return row.status == "skipped" and row.reason is not None and row.reason.code == "budget"


def unanswered(found: BreakEven) -> bool:
    """Return whether there was no time to measure any size of a break-even."""
    return found.why_stopped == "budget" and found.reason is None and not found.decided


def founded(rows: Sequence[Measurement]) -> list[Measurement]:
    """Return the rows that have, with those they are compared with, intervals and all ratios."""
    thin = [row for row in rows if few(row)]  # ideals rest on `solo`, what the host does on `host`
    if any(specified(row.case).role != "measured" for row in thin):
        return []
    ids = {row.case.id for row in thin}
    return [
        row
        for row in rows
        if not refused(row) and (not ids or ids.isdisjoint((row.case.id, row.case.against)))
    ]


def undecided(rows: Iterable[Measurement]) -> list[Measurement]:
    """Return the requested rows that leave a run inconclusive; no control, no size of a sweep."""
    asked = (row for row in rows if requested(row.case))
    return [row for row in asked if few(row) or refused(row) or left_out(row)]

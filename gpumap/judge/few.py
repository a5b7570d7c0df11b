"""Rows with too few samples for an interval: what is shown of them is the range of what was seen.

Nothing is concluded from a range, neither a cause nor a verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.stats import enough

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumap.model import Measurement

_SHARED = ("solo", "host")  # cases that ideals, or what the host does, are computed from


def few(row: Measurement) -> bool:
    """Return whether a row has too few samples for any interval: under six, at 95 %."""
    return row.samples is not None and not enough(len(row.samples.seconds))


def founded(row: Measurement, rows: Iterable[Measurement]) -> bool:
    """Return whether a row, and those of `rows` that it is held against, have intervals."""
    ids = (row.case.id, row.case.against)
    return not any(few(r) for r in rows if r.case.id in ids or r.case.name in _SHARED)

"""Rows with too few samples for an interval: what is shown of them is the range of what was seen.

Nothing is concluded from a range, neither a cause nor a verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.stats import enough

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Measurement

_SHARED = ("solo", "host")  # cases that ideals, or what the host does, are computed from


def few(row: Measurement) -> bool:
    """Return whether a row has too few samples for any interval: under six, at 95 %."""
    return row.samples is not None and not enough(len(row.samples.seconds))


def founded(rows: Sequence[Measurement]) -> list[Measurement]:
    """Return the rows which, with those that they are held against, have intervals."""
    thin = [row for row in rows if few(row)]
    if any(row.case.name in _SHARED for row in thin):
        return []
    ids = {row.case.id for row in thin}
    return [row for row in rows if not ids or ids.isdisjoint((row.case.id, row.case.against))]

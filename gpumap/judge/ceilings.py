"""What physics allows, and how much of it a figure reached; above it is an error, not a record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.model import Ceiling, Reason

if TYPE_CHECKING:
    from gpumap.model import Limit, Measurement

# A ceiling that was measured is as good as its probe: a clock may rise a little after it.
SLACK = 1.05
CODE = "over-ceiling"


def held(row: Measurement, limit: Limit | None) -> Measurement:
    """Return a row with its ceiling; failed, without figures, if its whole interval is above."""
    figure = row.metrics.get(limit.metric) if limit is not None else None
    if limit is None or figure is None or limit.value <= 0.0:
        return row
    share = figure.value / limit.value
    ceiling = Ceiling(limit.metric, limit.value, limit.unit, share, limit.source)
    if figure.low <= limit.value * SLACK:
        # where the host's calls took the time, the device's share of its peak is not known
        return row if "launch-bound" in row.flags else replace(row, ceiling=ceiling)
    found, most = units.together((figure.value, limit.value), limit.unit)
    text = f"{limit.metric} {found} is above what is possible, {most} ({limit.source})"
    return replace(
        row,
        status="failed",
        reason=Reason(CODE, text),
        flags=(*row.flags, CODE),
        metrics={},
        ceiling=ceiling,
    )

"""Every row of a report by its id, in one table: also controls, and what was skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.report import outcomes
from gpumap.report.table import Table, estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Measurement

TITLE = "Every row"
COLUMNS = ("id", "status", "flags or reason", "time")


def table(measurements: Sequence[Measurement]) -> Table:
    """Return the rows; those that were not measured with the reason."""
    return Table(TITLE, COLUMNS, tuple(map(_row, measurements)), ())


def _row(row: Measurement) -> tuple[str, ...]:
    outcome = outcomes.of_row(row)
    why = outcome.text if row.status == "ok" else f"{outcome.word}: {outcome.text}"
    time = row.metrics.get("time") or row.metrics.get("issue_interval")
    return row.case.id, row.status, why, estimate(time)

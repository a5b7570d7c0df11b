"""What follows from the sizes of a sweep: break-even sizes as a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.bench.sweeps import Sweep, sweeps
from gpumap.figures import estimate
from gpumap.report.table import Table
from gpumap.text import short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.model import Measurement

BREAK_EVENS = ("y", "on", "x moved each call", "x stays on the device")
_ENDS = {
    "budget": "looked no further for lack of time: raise --budget",
    "no-host-memory": "looked no further for lack of memory",
}


def break_evens(rows: Sequence[Measurement]) -> Iterator[Table]:
    """Yield a table with a row for each workload and device, if there are any."""
    found = sweeps(rows)
    if not found:
        return
    several = len({sweep.head.case.backend for sweep in found}) > 1
    lines: dict[tuple[str, str], dict[bool, str]] = {}
    for sweep in found:
        case = sweep.head.case
        place = f"{short(case)} ({case.backend})" if several else short(case)
        line = lines.setdefault((sweep.text, place), {False: "-", True: "-"})
        line[sweep.resident] = _break_even_text(sweep)
    table_rows = tuple((*line, *ways.values()) for line, ways in lines.items())
    title = "break-even: the size of x from which a device beats all cores of the host"
    yield Table(title, BREAK_EVENS, table_rows, tuple(_remarks(found)))


def _break_even_text(sweep: Sweep) -> str:
    """Return from which size on a device breaks even; a doubtful one has no upper end."""
    figure = sweep.head.metrics.get("break_even")
    if figure is None:
        return "-"
    if math.isfinite(figure.value) and (math.isfinite(figure.high) or not figure.has_interval):
        return f"from {estimate(figure)}"
    return f"never up to {units.single(sweep.measured_to, 'B')}"


def _remarks(found: Sequence[Sweep]) -> Iterator[str]:
    """Yield why sizes were not looked at or failed, each reason once."""
    yield from (words for why, words in _ENDS.items() if why in {each.stopped for each in found})
    failed = (row for sweep in found for row in sweep.failed)
    yield from dict.fromkeys(row.reason.text for row in failed if row.reason)

"""What follows from the sizes of a sweep: break-even sizes as a table, and models that lack."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.bench.cost_models import fit_id
from gpumap.bench.keys import is_call
from gpumap.bench.sweeps import sweeps
from gpumap.figures import estimate
from gpumap.report.table import Table
from gpumap.results.cells import placed
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.bench.sweeps import Sweep
    from gpumap.model import Estimate, Measurement, Report


_TOO_FEW = "too few sizes were measured: raise --budget"


def lacking(report: Report) -> Iterator[str]:
    """Yield of how many copies there is no model, and why, where other sizes were requested."""
    copies = [row for row in report.measurements if not is_call(row.case)]
    fitted = {fit.id for fit in report.fits}
    without = [row for row in copies if row.case.swept and fit_id(row.case) not in fitted]
    if without and not all(row.case.swept for row in copies):
        count = counted(len({fit_id(row.case) for row in without}), "kind")
        why = next((row.reason.text for row in without if row.reason), _TOO_FEW)
        yield f"no model of {count} of copies: {why}"


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
    place = placed(sweep.head.case for sweep in found)
    lines: dict[tuple[str, str], dict[bool, str]] = {}
    for sweep in found:
        line = lines.setdefault((sweep.text, place(sweep.head.case)), {False: "-", True: "-"})
        line[sweep.resident] = _break_even_text(sweep)
    table_rows = tuple((*line, *ways.values()) for line, ways in lines.items())
    title = "break-even: the size of x from which a device beats all cores of the host"
    yield Table(title, BREAK_EVENS, table_rows, tuple(_remarks(found)))


def _break_even_text(sweep: Sweep) -> str:
    """Return from which size on a device breaks even."""
    figure = sweep.head.metrics.get("break_even")
    if figure is None:
        return "-"
    return f"from {estimate(figure)}" if _certain(figure) else _from(figure, sweep)


def _certain(figure: Estimate) -> bool:
    """Return whether there is such a size: the interval of a doubtful one has no upper end."""
    return math.isfinite(figure.value) and (math.isfinite(figure.high) or not figure.has_interval)


def _from(figure: Estimate, sweep: Sweep) -> str:
    """Return that a device breaks even at no size, as far as is known."""
    if sweep.stopped in _ENDS:
        return f"not up to {_amount(sweep.measured_to)}"
    return "never" if math.isinf(figure.low) else f"never, or from {_amount(figure.low)}"


def _remarks(found: Sequence[Sweep]) -> Iterator[str]:
    """Yield why sizes were not looked at or failed, each reason once."""
    yield from (words for why, words in _ENDS.items() if why in {each.stopped for each in found})
    failed = (row for sweep in found for row in sweep.failed)
    yield from dict.fromkeys(row.reason.text for row in failed if row.reason)


def _amount(nbytes: float) -> str:
    return units.single(nbytes, "B")

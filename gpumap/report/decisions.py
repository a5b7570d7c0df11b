"""Does a device pay? Break-evens, and where the time of calls goes, as tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.escape import printable
from gpumap.report.table import Table, estimate, placed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumap.model import BreakEven, Case, Estimate, Shares

    Place = Callable[[Case], str]  # what the column "on" has

COLUMNS = (
    "y",
    "on",
    "x",
    "pays from",
    "predicted",
    "pays within",
    "looked to",
    "set-up pays after",
)
CALLS = ("x", "on", "calls take", "upload", "compute", "download", "overhead", "host takes")
_ENDS = {
    "budget": "looked no further for lack of time: raise --budget",
    "memory": "looked no further for lack of memory",
}


def tables(found: Sequence[BreakEven]) -> Iterator[Table]:
    """Yield the break-evens, and the calls of the sizes that were asked for."""
    place = placed(one.case for one in found)
    if found:
        rows = tuple(_row(one, place) for one in found)
        title = "does the device pay? its call with its copies, against the host with all cores"
        yield Table(title, COLUMNS, rows, tuple(_remarks(found, place)))
    taken = [(one, nbytes, shares) for one in found for nbytes, shares in one.shares.items()]
    if taken:
        calls = taken[0][2].calls
        noun = "call" if calls == 1 else "calls"
        title = f"{calls} {noun} of {taken[0][0].workload}, x moved for each"
        remark = "overhead: queueing, waiting, and what no part accounts for"
        yield Table(title, CALLS, tuple(_call(*each, place) for each in taken), (remark,))


def _row(one: BreakEven, place: Place) -> tuple[str, ...]:
    resident = one.case.params["resident"] == "true"
    return (
        one.workload,
        place(one.case),
        "resident" if resident else "moved",
        _from(one.metrics.get("break_even"), one),
        _from(one.metrics.get("predicted_break_even"), one),
        "; ".join(_range(*each) for each in one.wins) or "-",
        _amount(one.measured_to),
        times(one.metrics.get("calls_to_amortise_setup")) if one.wins else "-",
    )


def _from(figure: Estimate | None, one: BreakEven) -> str:
    """Return a size with its interval; from nothing on, or for no size, in words."""
    if figure is None:
        return "-"
    if math.isinf(figure.value) and one.why_stopped in _ENDS:
        return f"not up to {_amount(one.measured_to)}"
    if math.isinf(figure.value):
        return "never" if math.isinf(figure.low) else f"never, or from {_amount(figure.low)}"
    return estimate(figure)


def _range(first: int, last: int | None) -> str:
    return f"{_amount(first)} on" if last is None else f"{_amount(first)} to {_amount(last)}"


def times(figure: Estimate | None) -> str:
    """Return a number of calls, with its interval; or that there is none."""
    if figure is None:
        return "-"
    if math.isinf(figure.value):
        return "never"
    if not figure.has_interval:
        return "-"
    low, value, high = (max(math.ceil(x), 1) for x in (figure.low, figure.value, figure.high))
    noun = "call" if value == 1 else "calls"
    return f"{value:,} {noun} [{low:,}, {high:,}]"


def _call(one: BreakEven, nbytes: int, shares: Shares, place: Place) -> tuple[str, ...]:
    total, host = (units.together((seconds,), "s")[0] for seconds in (shares.total, shares.host))
    parts = (shares.upload, shares.compute, shares.download, shares.overhead)
    return (_amount(nbytes), place(one.case), total, *(f"{part:.0%}" for part in parts), host)


def _remarks(found: Sequence[BreakEven], place: Place) -> Iterator[str]:
    yield "x: what is moved for a call, or is there; the weights are there. Sizes are those of x"
    for why, words in _ENDS.items():
        if short := [one for one in found if one.why_stopped == why]:
            yield f"{', '.join(dict.fromkeys(_whose(one, place) for one in short))}: {words}"
    for one in found:
        if one.reason is not None:
            yield f"{_whose(one, place)}: {printable(one.reason.text)}"
    if any("predicted_break_even" not in one.metrics for one in found if one.metrics):
        yield "predicted -: the ladder of copies is not complete enough"


def _whose(one: BreakEven, place: Place) -> str:
    return f"{one.workload} on {place(one.case)}"


def _amount(nbytes: float) -> str:
    return units.together((nbytes,), "B")[0]

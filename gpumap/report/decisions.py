"""Does a device pay? Break-evens, and where the time of calls goes, as tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.report.copies import EACH, ranged
from gpumap.report.table import Table, estimate, listed, placed
from gpumap.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumap.model import BreakEven, Case, Estimate, Shares

    Place = Callable[[Case], str]  # what the column "on" has

COLUMNS = ("y", "on", "x moved each call", "x stays on the device")
CALLS = ("x", "on", "calls take", "upload", "compute", "download", "overhead", "host takes")
_ENDS = {
    "budget": "looked no further for lack of time: raise --budget",
    "memory": "looked no further for lack of memory",
}


def tables(found: Sequence[BreakEven], *, whole: bool) -> Iterator[Table]:
    """Yield the break-evens; with `whole` of each device, and where the time of calls goes."""
    place = placed(one.case for one in found)
    if found:
        yield _break_evens(found, place, whole=whole)
    if not whole:
        return
    taken = [(one, nbytes, shares) for one in found for nbytes, shares in one.shares.items()]
    if taken:
        calls = taken[0][2].calls
        noun = "call" if calls == 1 else "calls"
        title = f"{calls} {noun} of {taken[0][0].workload}, x moved for each"
        remark = "overhead: queueing, waiting, and what no part accounts for"
        yield Table(title, CALLS, tuple(_call(*each, place) for each in taken), (remark,))


def _break_evens(found: Sequence[BreakEven], place: Place, *, whole: bool) -> Table:
    """Return a row for each workload and device, or for all of many devices."""
    many = not whole and len({place(one.case) for one in found}) > EACH
    lines: dict[tuple[str, str], dict[bool, list[BreakEven]]] = {}
    for one in found:
        where = "all devices" if many else place(one.case)
        ways = lines.setdefault((one.workload, where), {False: [], True: []})
        ways[_resident(one)].append(one)
    rows = tuple((*line, *map(_together, ways.values())) for line, ways in lines.items())
    title = "break-even: the size of x from which a device beats all cores of the host"
    return Table(title, COLUMNS, rows, tuple(_remarks(found, place, whole=whole)))


def _together(found: Sequence[BreakEven]) -> str:
    """Return from which size on one device pays, or several."""
    figures = [(one, figure) for one in found if (figure := one.metrics.get("break_even"))]
    paying = [figure for _, figure in figures if math.isfinite(figure.value)]
    if not paying:
        texts = list(dict.fromkeys(_from(figure, one) for one, figure in figures))
        return texts[0] if len(texts) == 1 else "never" if texts else "-"
    size = estimate(paying[0]) if len(found) == 1 else ranged(paying)
    most = f" ({len(paying)} of {len(found)})" if len(paying) < len(found) else ""
    return f"from {size}{most}"


def _resident(one: BreakEven) -> bool:
    return bool(one.case.params["resident"] == "true")


def _from(figure: Estimate | None, one: BreakEven) -> str:
    """Return a size with its interval; from nothing on, or for no size, in words."""
    if figure is None:
        return "-"
    if math.isinf(figure.value) and one.why_stopped in _ENDS:
        return f"not up to {_amount(one.measured_to)}"
    if math.isinf(figure.value):
        return "never" if math.isinf(figure.low) else f"never, or from {_amount(figure.low)}"
    return estimate(figure)


def _call(one: BreakEven, nbytes: int, shares: Shares, place: Place) -> tuple[str, ...]:
    total, host = (units.together((seconds,), "s")[0] for seconds in (shares.total, shares.host))
    parts = (shares.upload, shares.compute, shares.download, shares.overhead)
    return (_amount(nbytes), place(one.case), total, *(f"{part:.0%}" for part in parts), host)


def _remarks(found: Sequence[BreakEven], place: Place, *, whole: bool) -> Iterator[str]:
    for why, words in _ENDS.items():
        if short := [one for one in found if one.why_stopped == why]:
            every = len(short) == len(found) and not whole
            yield words if every else f"{_all(short, place, whole=whole)}: {words}"
    reasons: dict[str, list[BreakEven]] = {}
    for one in found:
        if one.reason is not None:
            reasons.setdefault(printable(one.reason.text), []).append(one)
    yield from (f"{_all(those, place, whole=whole)}: {text}" for text, those in reasons.items())


def _all(found: Sequence[BreakEven], place: Place, *, whole: bool) -> str:
    names = list(dict.fromkeys(_whose(one, place) for one in found))
    return listed(names, len(names) if whole else EACH)


def _whose(one: BreakEven, place: Place) -> str:
    return f"{one.workload} on {place(one.case)}"


def _amount(nbytes: float) -> str:
    return units.together((nbytes,), "B")[0]

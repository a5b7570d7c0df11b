"""Tables of what follows from measured rows: models, slow links, break-evens."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.bench.keys import is_call
from gpumap.bench.registry import how
from gpumap.bench.sweeps import sweeps
from gpumap.figures import estimate, spread
from gpumap.report.table import Table
from gpumap.results.cells import placed
from gpumap.text import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumap.bench.sweeps import Sweep
    from gpumap.model import Case, Estimate, Fit, Measurement, Report

    Place = Callable[[Case], str]  # what the column "on" has


MODEL = ("copy", "on", "memory", "mode", "latency", "bandwidth", "n1/2", "lines", "misses by")
_NAMED = 3  # what has no model, that is named one by one
_TOO_FEW = "too few sizes were measured: raise --budget"


def table(fits: Sequence[Fit]) -> Table:
    """Return what copies cost by the model, and how far it misses."""
    metrics = ("latency", "peak_bandwidth", "n_half")
    place = placed(fit.case for fit in fits)
    keys = how(fits[0].case)
    rows = tuple(
        (
            *_which(fit.case, place),
            *(spread(fit.metrics.get(metric)) for metric in metrics),
            str(fit.regimes),
            _missed(fit),
        )
        for fit in fits
    )
    sizes = fits[0].sizes
    remarks = [f"fitted to {len(sizes)} sizes, {sizes[0]} to {sizes[-1]} bytes"]
    if held := [fit.held_back for fit in fits if fit.held_back and fit.fits]:
        worst = max(abs(each.miss) for each in held)
        remarks.append(
            f"those that fit also predict {held[0].nbytes} bytes, which were held back, within "
            f"{worst:.0%}"
        )
    if any(not fit.fits for fit in fits):
        remarks.append("does not fit: neither one line nor two come within 15% of every size")
    columns = (MODEL[0], MODEL[1], *keys, *MODEL[4:])
    return Table("model: time = latency + bytes / bandwidth", columns, rows, tuple(remarks))


def lacking(report: Report) -> Iterator[str]:
    """Yield of what there is no model, and why, where other sizes were requested."""
    copies = [row for row in report.measurements if not is_call(row.case)]
    sweep = [row for row in copies if row.case.swept]
    if len(sweep) == len(copies):
        return  # the sweep itself was requested: its rows say what they lack
    place = placed(row.case for row in sweep)
    found: dict[tuple[str, ...], list[Measurement]] = {}
    for row in sweep:
        found.setdefault(_which(row.case, place), []).append(row)
    known = {_which(fit.case, place) for fit in report.fits}
    without: dict[str, list[str]] = {}
    for which, rows in found.items():
        if which not in known:
            why = next((row.reason.text for row in rows if row.reason), _TOO_FEW)
            without.setdefault(why, []).append(" ".join(which))
    alone = len(without) == 1 and not report.fits  # there is nothing to tell apart
    for why, those in without.items():
        yield "no model" + ("" if alone else f" of {listed(those, _NAMED)}") + f": {why}"


def _which(case: Case, place: Callable[[Case], str]) -> tuple[str, ...]:
    """Return what distinguishes a size sweep: ``h2d``, ``a``, ``pinned``, ``async``."""
    return case.name, place(case), *map(str, how(case).values())


def _missed(fit: Fit) -> str:
    """Return the largest miss, of the sizes that it was fitted to and of the one held back."""
    held = abs(fit.held_back.miss) if fit.held_back else 0.0
    worst = f"{max(fit.residual, held):.0%}"
    return worst if fit.fits else f"{worst}: does not fit"


BREAK_EVENS = ("y", "on", "x moved each call", "x stays on the device")
_ENDS = {
    "budget": "looked no further for lack of time: raise --budget",
    "no-host-memory": "looked no further for lack of memory",
}


def break_evens(rows: Sequence[Measurement], *, whole: bool) -> Iterator[Table]:
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
    yield Table(title, BREAK_EVENS, table_rows, tuple(_remarks(found, place, whole=whole)))


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


def _remarks(found: Sequence[Sweep], place: Place, *, whole: bool) -> Iterator[str]:
    for why, words in _ENDS.items():
        if short := [sweep for sweep in found if sweep.stopped == why]:
            every = len(short) == len(found) and not whole
            yield words if every else f"{_all(short, place, whole=whole)}: {words}"
    reasons: dict[str, list[Sweep]] = {}
    for sweep in found:
        for row in sweep.failed[:1]:  # larger sizes fail alike
            reasons.setdefault(row.reason.text if row.reason else "", []).append(sweep)
    yield from (f"{_all(those, place, whole=whole)}: {text}" for text, those in reasons.items())


def _amount(nbytes: float) -> str:
    return units.single(nbytes, "B")


def _all(found: Sequence[Sweep], place: Place, *, whole: bool) -> str:
    names = list(dict.fromkeys(f"{sweep.text} on {place(sweep.head.case)}" for sweep in found))
    return listed(names, len(names) if whole else _NAMED)

"""The model of what copies or exchanges cost, what has none, and slow links of its sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.bench.registry import find, in_sweep
from gpumap.report.cells import spread
from gpumap.report.table import Table, listed, named, placed
from gpumap.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gpumap.model import Case, Fit, Measurement, Report

MODEL = ("copy", "on", "memory", "mode", "latency", "bandwidth", "n1/2", "90% at", "lines",
         "misses by")  # fmt: skip
EXCHANGES = ("case", "on", *MODEL[4:])  # of which the title says how they went
_NAMED = 3  # what has no model, that is named one by one
_SLOW, _SLOW_NAMED = "slow-link", 4  # a cause; names that are written out
_TOO_FEW = "too few sizes were measured: raise --budget"


def table(fits: Sequence[Fit]) -> Table:
    """Return what copies or exchanges cost by the model, and how far it misses."""
    metrics = ("latency", "peak_bandwidth", "n_half", "size_90")
    place = placed(fit.case for fit in fits)
    keys = _keys(fits[0].case)
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
    columns = (MODEL[0], MODEL[1], *keys, *MODEL[4:]) if keys else EXCHANGES
    return Table("model: time = latency + bytes / bandwidth", columns, rows, tuple(remarks))


def lacking(report: Report) -> Iterator[str]:
    """Yield of what there is no model, and why, where other sizes were asked for."""
    ladder = [row for row in report.measurements if in_sweep(row.case)]
    if len(ladder) == len(report.measurements):
        return  # the ladder itself was asked for: its rows say what they lack
    place = placed(row.case for row in ladder)
    found: dict[tuple[str, ...], list[Measurement]] = {}
    for row in ladder:
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
    return case.name, place(case), *(str(case.params[key]) for key in _keys(case))


def _keys(case: Case) -> list[str]:
    spec = find(case.bench)
    return [key for key in spec.how if key in case.params] if spec is not None else []


def _missed(fit: Fit) -> str:
    """Return the largest miss, of the sizes that it was fitted to and of the one held back."""
    held = abs(fit.held_back.miss) if fit.held_back else 0.0
    worst = f"{max(fit.residual, held):.0%}"
    return worst if fit.fits else f"{worst}: does not fit"


def slow_links(rows: Sequence[Measurement], shown: Iterable[Measurement]) -> Iterator[Table]:
    """Yield the reasons why links carry little, those of shown rows left out: they have them."""
    said = {row.case.id for row in shown}
    found: dict[str, list[Measurement]] = {}
    for row in rows:
        if (why := row.explanation) and why.cause == _SLOW and row.case.id not in said:
            found.setdefault(why.text, []).append(row)
    if found:
        remarks = tuple(f"{_ways(group)}: {printable(text)}" for text, group in found.items())
        yield Table("slow links, by the large copies of the model", (), (), remarks)


def _ways(group: Sequence[Measurement]) -> str:
    """Return which copies: ``h2d, d2h, pageable, on a, b``."""
    ways = dict.fromkeys(row.case.name for row in group)
    memories = dict.fromkeys(str(row.case.params["memory"]) for row in group)
    names = list(dict.fromkeys(printable(named(row.case)) for row in group))
    return f"{', '.join([*ways, *memories])}, on {listed(names, _SLOW_NAMED)}"

"""What follows from measured or published rows: models, slow links, break-evens, predictions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.bench.keys import BreakEvenKey, CopyKey
from gpumap.bench.registry import how
from gpumap.figures import estimate, spread
from gpumap.report.copies import EACH, ranged
from gpumap.report.table import Table, named, placed
from gpumap.text import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gpumap.model import (
        BreakEven,
        Case,
        Cell,
        Estimate,
        Exchanged,
        Fit,
        Forecast,
        LeftOut,
        Measurement,
        OtherLink,
        Payoff,
        Prediction,
        Published,
        Report,
        Shares,
    )

    Place = Callable[[Case], str]  # what the column "on" has


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
    columns = (MODEL[0], MODEL[1], *keys, *MODEL[4:]) if keys else EXCHANGES
    return Table("model: time = latency + bytes / bandwidth", columns, rows, tuple(remarks))


def lacking(report: Report) -> Iterator[str]:
    """Yield of what there is no model, and why, where other sizes were requested."""
    sweep = [row for row in report.measurements if row.case.swept]
    if len(sweep) == len(report.measurements):
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


def slow_links(rows: Sequence[Measurement], shown: Iterable[Measurement]) -> Iterator[Table]:
    """Yield the reasons why links carry little, those of shown rows left out: they have them."""
    known = {row.case.id for row in shown}
    found: dict[str, list[Measurement]] = {}
    for row in rows:
        if (why := row.explanation) and why.cause == _SLOW and row.case.id not in known:
            found.setdefault(why.text, []).append(row)
    if found:
        remarks = tuple(f"{_ways(group)}: {text}" for text, group in found.items())
        yield Table("slow links, by the large copies of the model", (), (), remarks)


def _ways(group: Sequence[Measurement]) -> str:
    """Return which copies: ``h2d, d2h, pageable, on a, b``."""
    ways = dict.fromkeys(row.case.name for row in group)
    memories = dict.fromkeys(CopyKey.of(row.case).memory for row in group)
    names = list(dict.fromkeys(named(row.case) for row in group))
    return f"{', '.join([*ways, *memories])}, on {listed(names, _SLOW_NAMED)}"


BREAK_EVENS = ("y", "on", "x moved each call", "x stays on the device")
CALLS = ("x", "on", "calls take", "upload", "compute", "download", "overhead", "host takes")
_ENDS = {
    "budget": "looked no further for lack of time: raise --budget",
    "memory": "looked no further for lack of memory",
}


def break_evens(found: Sequence[BreakEven], *, whole: bool) -> Iterator[Table]:
    """Yield the break-evens; with `whole` of each device, and where the time of calls goes."""
    place = placed(one.case for one in found)
    if found:
        yield _break_evens(found, place, whole=whole)
    taken = [(one, nbytes, shares) for one in found for nbytes, shares in one.shares.items()]
    if whole and taken:
        calls = taken[0][2].calls
        title = f"{units.counted(calls, 'call')} of {taken[0][0].workload}, x moved for each"
        remark = "overhead: queueing, waiting, and what no part accounts for"
        yield Table(title, CALLS, tuple(_call(*each, place) for each in taken), (remark,))


def _break_evens(found: Sequence[BreakEven], place: Place, *, whole: bool) -> Table:
    """Return a row for each workload and device, or for all of many devices."""
    many = not whole and len({place(one.case) for one in found}) > EACH
    lines: dict[tuple[str, str], dict[bool, list[BreakEven]]] = {}
    for one in found:
        where = "all devices" if many else place(one.case)
        ways = lines.setdefault((one.workload, where), {False: [], True: []})
        ways[BreakEvenKey.of(one.case).resident].append(one)
    rows = tuple((*line, *map(_break_even_text, ways.values())) for line, ways in lines.items())
    title = "break-even: the size of x from which a device beats all cores of the host"
    return Table(title, BREAK_EVENS, rows, tuple(_remarks(found, place, whole=whole)))


def _break_even_text(found: Sequence[BreakEven]) -> str:
    """Return from which size on one device breaks even, or several."""
    figures = [(one, figure) for one in found if (figure := one.metrics.get("break_even"))]
    paying = [figure for _, figure in figures if _certain(figure)]
    if not paying:
        texts = list(dict.fromkeys(_from(figure, one) for one, figure in figures))
        return texts[0] if len(texts) == 1 else "never" if texts else "-"
    size = estimate(paying[0]) if len(found) == 1 else ranged(paying)
    most = f" ({len(paying)} of {len(found)})" if len(paying) < len(found) else ""
    return f"from {size}{most}"


def _certain(figure: Estimate) -> bool:
    """Return whether there is such a size: the interval of a doubtful one has no upper end."""
    return math.isfinite(figure.value) and (math.isfinite(figure.high) or not figure.has_interval)


def _from(figure: Estimate, one: BreakEven) -> str:
    """Return that a device breaks even at no size, as far as is known."""
    if one.why_stopped in _ENDS:
        return f"not up to {_amount(one.measured_to)}"
    return "never" if math.isinf(figure.low) else f"never, or from {_amount(figure.low)}"


def _call(one: BreakEven, nbytes: int, shares: Shares, place: Place) -> tuple[str, ...]:
    total, host = map(units.time_of, (shares.total, shares.host))
    parts = (shares.upload, shares.compute, shares.download, shares.overhead)
    return (
        _amount(nbytes),
        place(one.case),
        total,
        *(f"{part:.0%}" for part in parts),
        host,
    )


def _remarks(found: Sequence[BreakEven], place: Place, *, whole: bool) -> Iterator[str]:
    for why, words in _ENDS.items():
        if short := [one for one in found if one.why_stopped == why]:
            every = len(short) == len(found) and not whole
            yield words if every else f"{_all(short, place, whole=whole)}: {words}"
    reasons: dict[str, list[BreakEven]] = {}
    for one in found:
        if one.reason is not None:
            reasons.setdefault(one.reason.text, []).append(one)
    yield from (f"{_all(those, place, whole=whole)}: {text}" for text, those in reasons.items())


def _amount(nbytes: float) -> str:
    return units.single(nbytes, "B")


def _all(found: Sequence[BreakEven], place: Place, *, whole: bool) -> str:
    names = list(dict.fromkeys(f"{one.workload} on {place(one.case)}" for one in found))
    return listed(names, len(names) if whole else EACH)


PREDICTED = {
    "forecasts": ("algorithm", "devices", "exchange", "step", "speed-up", "efficiency",
                  "examples/s"),
    "payoffs": ("algorithm", "breaks even", "from a step of", "from a batch of", "fastest on"),
    "cells": ("network", "devices", "time", "examples/s", "speed-up", "efficiency",
              "training alone"),
    "models": ("network", "devices", "measured", "predicted", "off by", "fixed", "bandwidth"),
}  # fmt: skip
_NONE = "-"
_WHOLE = 100  # from here on a figure of examples needs no decimals
_READ = (
    "efficiency: of training and exchanges; training alone: without them; above 100% is "
    "super-linear, and left as it is"
)
_NO_MODEL = (
    "no model of the exchanges: it takes batch, examples, bytes and comm_s of three networks, each "
    "on two numbers of devices"
)


def predicted(report: Report) -> Iterator[Table]:
    """Yield what was predicted, and what was published."""
    if report.prediction is not None:
        yield from _predicted(report.prediction)
    if report.published is not None:
        yield from _published(report.published)


def _predicted(found: Prediction) -> Iterator[Table]:
    rows = tuple(map(_forecast, found.forecasts))
    title = f"predicted, not measured: {_exchanged(found)}"
    yield Table(title, PREDICTED["forecasts"], rows, _assumed(found)).full()
    paid = tuple(map(_paid, found.payoffs))
    grow = "; compute grows with the batch" if found.batch is not None else ""
    fastest = "; fastest on: of the numbers of devices above" if found.compute is not None else ""
    remark = f"from a step of: on one device, its compute alone{grow}{fastest}"
    yield Table("does a second device break even?", PREDICTED["payoffs"], paid, (remark,)).full()


def _forecast(forecast: Forecast) -> tuple[str, ...]:
    figures = forecast.metrics
    return (
        forecast.algorithm,
        str(forecast.devices),
        _ranged(figures.get("comm")),
        _ranged(figures.get("time")),
        _ranged(figures.get("speedup")),
        _percent(figures.get("efficiency")),
        _examples(figures.get("examples_per_s")),
    )


def _exchanged(found: Prediction) -> str:
    """Return what is exchanged by what kind of step."""
    of = f" ({found.network})" if found.network else ""
    step = "" if found.compute is None else f" of {units.time_of(found.compute)}"
    batch = "" if found.batch is None else f" with {units.counted(found.batch, 'example')}"
    return f"a step{step}{batch}, {_amount(found.nbytes)}{of} exchanged, {found.scaling} scaling"


def _assumed(found: Prediction) -> tuple[str, ...]:
    link = found.link
    most = max((f.devices for f in found.forecasts), default=0)
    idle = []
    if found.batch is not None and found.scaling == "strong" and found.batch < most:
        batch = units.counted(found.batch, "example")
        idle = [f"{batch}: of more devices than that the others are idle"]
    steps = {
        "strong": "step: compute, split over the devices, then the exchange",
        "weak": "step: compute, as much on each device as on one, then the exchange",
    }
    known = "as given" if link.source == "given" else f"by {link.source}"
    cost = f"latency {_ranged(link.latency)}, bandwidth {_ranged(link.bandwidth)}"
    lines = f", {len(link.lines)} lines" if len(link.lines) > 1 else ""
    return (
        f"link: {cost}{lines}, {known}; the same between all devices",
        f"{steps[found.scaling]}; nothing overlaps, adding is free",
        *idle,
    )


def _paid(payoff: Payoff) -> tuple[str, ...]:
    best = _NONE if payoff.best is None else units.counted(payoff.best, "device")
    size = _ranged(payoff.metrics.get("from_compute"))
    batch = payoff.metrics.get("from_batch")
    return payoff.algorithm, payoff.pays or _NONE, size, _examples(batch), best


def _published(found: Published) -> Iterator[Table]:
    rows = dict.fromkeys(cell.row for cell in found.cells)
    counts = sorted({cell.devices for cell in found.cells})
    texts = {(cell.row, cell.devices): cell.text for cell in found.cells}
    columns = ("network", *(units.counted(n, "device") for n in counts))
    table = [(row, *(texts.get((row, n), _NONE) for n in counts)) for row in rows]
    yield Table(f"published: {found.origin}", columns, tuple(table), found.source)
    remarks = (_READ,) if found.models else (_READ, _NO_MODEL)
    cells = tuple(map(_cell, found.cells))
    yield Table("computed from the cells", PREDICTED["cells"], cells, remarks).full()
    if found.models:
        yield _models(found)


def _cell(cell: Cell) -> tuple[str, ...]:
    figures, speedup = cell.metrics, cell.metrics.get("speedup")
    decimals = max(len(part.partition(".")[2]) for part in cell.text.split("+"))  # as published
    return (
        cell.row,
        str(cell.devices),
        f"{figures['time'].value:.{decimals}f} s",
        _examples(figures.get("examples_per_s")),
        _NONE if speedup is None else f"{speedup.value:.2f}x",
        _percent(figures.get("efficiency")),
        _percent(figures.get("compute_efficiency")),
    )


def _models(found: Published) -> Table:
    rows = [_model(m, e) for m in found.models for e in m.exchanged]
    within = [abs(e.miss) for m in found.models for e in m.exchanged if e.devices in found.fitted]
    counts = " and ".join(map(str, found.fitted))
    formula = "a fixed cost for each exchange + 2 (n - 1) / n of the bytes / bandwidth"
    remarks = [f"predicted: {formula}, fitted to the other networks on {counts} devices"]
    if within:
        remarks.append(f"on {counts} devices it is off by {max(within):.1%} at most")
    remarks += [_second(other) for other in found.others]
    title = "exchanges, each network predicted by the others"
    return Table(title, PREDICTED["models"], tuple(rows), tuple(remarks))


def _model(row: LeftOut, each: Exchanged) -> tuple[str, ...]:
    return (
        row.row,
        str(each.devices),
        units.time_of(each.measured),
        units.time_of(each.predicted),
        f"{each.miss:+.1%}",
        units.time_of(row.fixed),
        units.single(math.inf if row.bandwidth is None else row.bandwidth, "B/s"),
    )


def _second(other: OtherLink) -> str:
    """Return what a number of devices needs that is off the model."""
    ratios = _span(*other.ratio, "1")
    message = f"{other.devices} devices take {ratios} times as long as predicted"
    link = f"of {_span(*other.bandwidth, 'B/s')}" if other.bandwidth else "with another fixed cost"
    return f"{message}: the model needs a second, slower link for them, {link}"


def _ranged(figure: Estimate | None) -> str:
    """Return a figure; with its interval, where it has one."""
    if figure is None or figure.low < figure.high:
        return estimate(figure)
    return units.single(figure.value, figure.unit)


def _ranges(figure: Estimate) -> bool:
    """Return whether it has an interval of more than one value."""
    return figure.has_interval and figure.low < figure.high


def _percent(figure: Estimate | None) -> str:
    if figure is None:
        return _NONE
    ends = f" [{figure.low:.1%}, {figure.high:.1%}]" if _ranges(figure) else ""
    return f"{figure.value:.1%}{ends}"


def _examples(figure: Estimate | None) -> str:
    if figure is None:
        return _NONE
    decimals = 0 if figure.value >= _WHOLE else 1
    low, value, high = (f"{x:.{decimals}f}" for x in (figure.low, figure.value, figure.high))
    return f"{value} [{low}, {high}]" if _ranges(figure) else value


def _span(low: float, high: float, unit: str) -> str:
    first, second = units.same_prefix((low, high), unit)
    number, _, prefix = first.partition(" ")
    return f"{number} to {second}" + (f" {prefix}" if prefix else "")

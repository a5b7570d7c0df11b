"""Headline of `transfer-cost`: the cost of a copy, links that are shared, break-evens."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpumap.bench.keys import LADDER
from gpumap.bench.registry import size_of
from gpumap.bench.sweeps import sweeps
from gpumap.judge.doubts import about, because, doubtful, largest
from gpumap.judge.phrases import answer, capital, every, interval, names, value
from gpumap.units import amount, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.bench.sweeps import Sweep
    from gpumap.model import Case, Fit, Headline, Measurement, Report

_PLAIN = {"memory": ("pageable", "device"), "pattern": ("alone", LADDER)}
_MILLISECOND = 1e-3
_WAYS = ("h2d", "d2h", "d2d")
_COPIES = (*_WAYS, "bidir")
_SLOW = ("odd-pair", "slow-link")


def headline(report: Report, rows: Sequence[Measurement]) -> Headline:
    """Return what a copy to the first device costs, and whether its link is shared or slow."""
    rows = [row for row in rows if row.case.name in _COPIES]
    if not rows:
        return _break_evens(report)
    plain = [fit for fit in report.fits if _waited(fit.case)]
    fit = next((f for way in _WAYS for f in plain if f.case.name == way), None)
    rows = largest(rows, size_of)
    waited = [r for way in _WAYS for r in rows if r.case.name == way and _waited(r.case)]
    copy = next(iter(waited), rows[0])
    if (doubt := doubtful(report, copy, "time")) is not None:
        return doubt
    cost, model = _cost(copy), _model(fit)
    found = _shared(report, rows, (cost, *model)) or _slow(report, rows, cost)
    sentences = (cost, *model, *_evens(report.measurements))
    return found or answer(report, "good", sentences, about(copy, "time"))


def judged(rows: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield what a gate judges of each way: the bandwidth of large copies, the latency of small.

    By single copies of plain memory: the issue interval at the largest size, where copies can be
    queued, and the time of one copy at the smallest.
    """
    ways: dict[object, list[Measurement]] = {}
    for row in rows:
        case = row.case
        if is_plain(case):
            ways.setdefault((case.name, case.names, case.backend), []).append(row)
    for found in ways.values():
        sizes = [int(row.case.params["bytes"]) for row in found]
        large = [row for row, size in zip(found, sizes, strict=True) if size == max(sizes)]
        small = [row for row, size in zip(found, sizes, strict=True) if size == min(sizes)]
        queued = [row for row in large if "issue_interval" in row.metrics]
        yield from ((row.case.id, "issue_interval") for row in queued)
        alone = small if queued else [*large, *small]
        yield from ((row.case.id, "time") for row in alone if "time" in row.metrics)


def is_plain(case: Case) -> bool:
    """Return whether a case is single copies one way, of plain memory; queued or waited for."""
    known = all(case.params.get(key) in words for key, words in _PLAIN.items())
    return case.name in _WAYS and known


def _waited(case: Case) -> bool:
    return is_plain(case) and case.params["mode"] == "sync"


# --- links


def _shared(report: Report, rows: Sequence[Measurement], alone: Sequence[str]) -> Headline | None:
    """Return that copies at once gain too little, where the report has a cause of it."""
    found = [row for row in rows if row.explanation and row.case.params["pattern"] == "together"]
    if not found or doubtful(report, found[0], "speedup") is not None:
        return None
    row, gain = found[0], found[0].metrics["speedup"]
    count, who = len(row.case.bindings), f"{capital(every(len(row.case.bindings)))} at once"
    if row.case.name == "bidir":
        count, who = 2, "Both ways at once"
    text = f"{who} move {value(gain)} times as much ({interval(gain)}; {count} is ideal)"
    sentences = (alone[0], f"{text}: {because(row)}.", *_evens(report.measurements)[:1], *alone[1:])
    return answer(report, "below", sentences, about(row, "speedup"))


def _slow(report: Report, rows: Sequence[Measurement], cost: str) -> Headline | None:
    """Return which copies are slower than others of their sort, or than their link."""
    found = [row for row in rows if row.explanation and row.explanation.cause in _SLOW]
    found = [row for row in found if doubtful(report, row, "bandwidth") is None]
    if not found:
        return None
    row, rate = found[0], found[0].metrics["bandwidth"]
    text = f"Copies {_where(row)} ({row.case.name}) are slow: {value(rate)} ({interval(rate)})."
    more = (f"{counted(len(found) - 1, 'more row')} too.",) if len(found) > 1 else ()
    sentences = (text, f"{capital(because(row))}.", *more, cost)
    return answer(report, "below", sentences, about(row, "bandwidth"))


# --- the model


def _cost(copy: Measurement) -> str:
    """Return what a copy of the largest size takes."""
    figure, nbytes = copy.metrics["time"], amount(int(copy.case.params["bytes"]))
    return f"Copying {nbytes} {_where(copy)} takes {value(figure)} ({interval(figure)})."


def _model(fit: Fit | None) -> tuple[str, ...]:
    """Return latency and rate of copies of every size; that no model fits, if there is none."""
    if fit is not None and not fit.fits:
        return ("No model: one line or two miss sizes of its sweep.",)
    metrics = fit.metrics if fit else {}
    latency, peak = metrics.get("latency"), metrics.get("peak_bandwidth")
    if latency is None or peak is None or not peak.has_interval or not math.isfinite(peak.value):
        return ()
    per = amount(round(peak.value * _MILLISECOND))
    return (f"Any size: {value(latency)} plus 1 ms per {per} ({value(peak)}).",)


def _where(found: Measurement | Fit) -> str:
    case = found.case
    if case.ordered:
        return f"from {names(case.bindings, between=' to ')}"
    return f"{'from' if case.name == 'd2h' else 'to'} {names(case.bindings)}"


def _break_evens(report: Report) -> Headline:
    """Return from which size on devices break even, of a report without copies."""
    found = _evens(report.measurements)
    if not found:
        return answer(report, "untrusted", ("No break-even is known: raise --budget.",))
    head = next(row for row in report.measurements if "break_even" in row.metrics)
    return answer(report, "good", found, about(head, "break_even"))


def _evens(rows: Sequence[Measurement]) -> tuple[str, ...]:
    """Return the break-even size of each workload, x moved for each call; alike ones once."""
    every = (_even(sweep) for sweep in sweeps(rows) if not sweep.resident)
    return tuple(dict.fromkeys(filter(None, every)))


def _even(found: Sweep) -> str:
    size = found.head.metrics.get("break_even")
    if size is None or (not size.has_interval and math.isfinite(size.value)):
        return ""
    if math.isinf(size.value):
        return f"{found.text} does not break even up to {amount(found.measured_to)}."
    if math.isinf(size.high):
        return f"{found.text} breaks even at {amount(int(size.low))} or more, or never."
    return f"{found.text} breaks even at {value(size)} ({interval(size)})."

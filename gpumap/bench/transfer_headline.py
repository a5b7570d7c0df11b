"""What `transfer-cost` answers: the cost of a copy, links that are shared, break-evens."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpumap.bench.registry import specified
from gpumap.cut import middle
from gpumap.judge.doubts import about, because, doubtful, largest, unsupported
from gpumap.judge.phrases import (
    About,
    amount,
    capital,
    every,
    interval,
    longer,
    names,
    percent,
    roughly,
    said,
    value,
)
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import BreakEven, Fit, Headline, Measurement, Report

_PLAIN = {"memory": ("pageable", "device"), "mode": ("sync",), "pattern": ("alone", "ladder")}
_MILLISECOND = 1e-3
_WAYS = ("h2d", "d2h", "d2d")
_TOGETHER = "together"
_SLOW = ("odd-pair", "slow-link")


def headline(report: Report, rows: Sequence[Measurement]) -> Headline:
    """Return the model of a copy to the first device; a link that is shared or slow comes first."""
    if (nothing := unsupported(report, rows)) is not None:
        return nothing
    fit = next((f for way in _WAYS for f in report.fits if _plain(f) and f.case.name == way), None)
    rows, end = largest(rows)
    copy = next((r for way in _WAYS for r in rows if r.case.name == way and _alone(r)), rows[0])
    metric = next((m for m in ("time", "issue_interval", "bandwidth") if m in copy.metrics), "time")
    doubt = doubtful(report, copy, metric, end)
    if doubt is None and fit is not None and not fit.fits:
        doubt = _unmodelled(report, copy, fit, metric)
    found = doubt or _shared(report, rows, end) or _slow(report, rows, end)
    return found or _modelled(report, fit) or _measured(report, copy, metric, end)


def _plain(fit: Fit) -> bool:
    return all(fit.case.params.get(key) in words for key, words in _PLAIN.items())


def _alone(row: Measurement) -> bool:
    return all(row.case.params.get(key) in words for key, words in _PLAIN.items())


# --- links


def _shared(report: Report, rows: Sequence[Measurement], end: str) -> Headline | None:
    """Return that copies at once gain too little, where the report has a cause of it."""
    found = [row for row in rows if row.explanation and row.case.params["pattern"] == _TOGETHER]
    if not found or doubtful(report, found[0], "speedup", end) is not None:
        return None
    row, gain = found[0], found[0].metrics["speedup"]
    count, first = len(row.case.bindings), middle(row.case.names[0])
    text = f"{capital(every(count))} at once move {value(gain)} times what {first} moves alone"
    if specified(row.case).both_ways:
        count = 2
        text = f"Both ways at once, {first} moves {value(gain)} times what it moves one way"
    text += f" ({interval(gain)}; {count} is ideal): {because(row)}."
    return said(report, "below", (text, *_evens(report)[:1]), about(row, "speedup"), end)


def _slow(report: Report, rows: Sequence[Measurement], end: str) -> Headline | None:
    """Return which copies are slower than others of their sort, or than their link."""
    found = [row for row in rows if row.explanation and row.explanation.cause in _SLOW]
    found = [row for row in found if doubtful(report, row, "bandwidth") is None]
    if not found:
        return None
    row, rate = found[0], found[0].metrics["bandwidth"]
    where = names(row.case.bindings, between=" to ")
    text = f"Copies {where} ({row.case.name}) are slow: {value(rate)} ({interval(rate)})."
    more = (f"{counted(len(found) - 1, 'more row')} too.",) if len(found) > 1 else ()
    why = f"{capital(because(row))}."
    return said(report, "below", (text, why, *more), about(row, "bandwidth"), end)  # fmt: skip


# --- the model


def _unmodelled(report: Report, copy: Measurement, fit: Fit, metric: str) -> Headline:
    """Return that the sizes of a sweep fit no line, and what was measured of the largest one."""
    held, figure = fit.held_back, copy.metrics[metric]
    miss = f" (misses {amount(held.nbytes)} by {percent(abs(held.miss))})" if held else ""
    text = f"No model of the copies: the sweep of sizes does not fit a straight line{miss}."
    nbytes = amount(int(copy.case.params["bytes"]))
    more = f"Measured: {roughly(figure)} for {nbytes} {_where(copy)}."
    return said(report, "untrusted", (text, more), about(copy, metric))


def _measured(report: Report, copy: Measurement, metric: str, end: str) -> Headline:
    """Return what a copy takes, where there is no model of it."""
    figure, nbytes = copy.metrics[metric], amount(int(copy.case.params["bytes"]))
    text = f"A copy of {nbytes} {_where(copy)} takes {value(figure)} ({interval(figure)})."
    if metric == "bandwidth":
        text = f"Copies of {nbytes} {_where(copy)} move {value(figure)} ({interval(figure)})."
    return said(report, "good", (text, *_evens(report)), about(copy, metric), end)


def _where(found: Measurement | Fit) -> str:
    case = found.case
    if case.ordered:
        return f"from {names(case.bindings, between=' to ')}"
    return f"{'from' if case.name == 'd2h' else 'to'} {names(case.bindings)}"


def _modelled(report: Report, fit: Fit | None) -> Headline | None:
    """Return what the model says: latency, rate, and the size that reaches half of it."""
    if fit is None:
        return None
    latency, peak, half = (fit.metrics.get(k) for k in ("latency", "peak_bandwidth", "n_half"))
    if latency is None or peak is None or not math.isfinite(peak.value):
        return None
    per = amount(round(peak.value * _MILLISECOND))
    text = f"A copy {_where(fit)} takes {value(latency)} plus 1 ms per {per} ({value(peak)}"
    known = f"; {interval(peak)})"
    finite = half is not None and math.isfinite(half.value)
    reached = f"; half of that rate is reached at {value(half)}" if finite and half else ""
    subject = About(fit.id, "peak_bandwidth", peak)
    if not peak.has_interval:
        words = f"No conclusion: {fit.case.name} reaches {roughly(peak)} on few samples."
        return said(report, "untrusted", (words, f"Repeat with {longer(report)}."), subject)
    return said(report, "good", (f"{text}{known}{reached}.", *_evens(report)), subject)


def _evens(report: Report) -> tuple[str, ...]:
    """Return from which size on a call of a workload pays, x moved for each."""
    found = [b for b in report.break_evens if b.case.params.get("resident") == "false"]
    return tuple(text for text in map(_even, found) if text)


def _even(found: BreakEven) -> str:
    size = found.metrics.get("break_even")
    if size is None or (not size.has_interval and math.isfinite(size.value)):
        return ""
    if math.isinf(size.value):
        return f"{found.workload} does not break even up to {amount(found.measured_to)}."
    known = f" ({interval(size)})" if math.isfinite(size.high) else ""
    return f"{found.workload} breaks even at {value(size)}{known}."

"""Headline of `bench train`: how many times as many examples several devices train as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.judge.ceilings import ENOUGH
from gpumap.judge.doubts import about, doubtful, other_doubts, single_device, unsupported
from gpumap.judge.phrases import answer, interval, others, percent, value
from gpumap.text import middle
from gpumap.training.steps import PHASES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Headline, Measurement, Report

_WHY = {
    "comm": "Exchanging gradients takes",
    "sync": "Waiting for the slowest device takes",
    "input": "Making batches takes",
    "transfer": "Copying batches takes",
}
_MAIN = 0.1  # of a step: less is no cause


def headline(report: Report, rows: Sequence[Measurement]) -> Headline:
    """Return what the most devices gain on the last network, by the rule that gains most."""
    if (nothing := unsupported(report, rows)) is not None:
        return nothing
    networks = list(dict.fromkeys(str(row.case.params.get("network")) for row in rows))
    end = others(len(networks) - 1, "network")
    rows = [row for row in rows if row.case.params.get("network") == networks[-1]]
    rows = [row for row in rows if row.case.name == "step"] or rows
    most = max(len(row.case.names) for row in rows)
    several = [row for row in rows if len(row.case.names) == most]
    best = max(several, key=_speedup)
    if most == 1:
        return single_device(report, best, "{} trains {} examples", "examples_per_s", end)
    if (doubt := doubtful(report, best, "speedup", end)) is not None:
        return doubt
    gain, rate = best.metrics["speedup"], best.metrics.get("examples_per_s")
    rule = best.case.params.get("rule")
    by = f" by {middle(str(rule))}" if rule is not None and len(several) > 1 else ""
    text = f"{most} devices train {value(gain)} times as many examples per second as one"
    text += f"{by} ({interval(gain)}; {most} is ideal)"
    if gain.value >= ENOUGH * most:
        much = f": {rate.value:,.0f}/s." if rate is not None else "."
        more = other_doubts(report, best)
        return answer(report, "good", (f"{text}{much}", *more), about(best, "speedup"), end)
    return answer(report, "below", (f"{text}. {_why(best)}.",), about(best, "speedup"), end)


def _speedup(row: Measurement) -> float:
    gain = row.metrics.get("speedup")
    return gain.value if gain is not None and gain.has_interval else 0.0


def _why(row: Measurement) -> str:
    """Return what takes most of a step beside computing, where its interval leaves no doubt."""
    known = {name: row.metrics[name] for name in PHASES if name in row.metrics}
    whole = sum(figure.value for figure in known.values())
    shares = {
        name: known[name].value / whole
        for name in _WHY
        if name in known and known[name].has_interval and known[name].low > 0.0 < whole
    }
    main = max(shares, key=lambda name: shares[name], default=None)
    if main is None or shares[main] < _MAIN:
        return "Cause not identified"
    return f"{_WHY[main]} {percent(shares[main])} of a step"

"""What limits a program's speed-up on several names: a cause by elimination, and its sentences.

With T the time of a run, W what the cores or devices worked in it, added up, and P = W / T, so many
of them worked on average. For the same work on n names and on one

    speed-up / n  =  P(n) / (n P(1))  x  W(1) / W(n)

is exact: what is missing is lost because they rest, or because the same work takes them longer. The
larger loss, of the logarithms, is looked into. If they rest, then

    start-up        half of it passes before a second one works
    one-at-a-time   about one works at any time
    idle-names      a name does no work at all
    uneven-work     one works far less than another
    waits           none of these

Before that: too few runs for an interval, one that reaches far to both sides of 90 % of the ideal,
and other programs on the cores of the names leave it inconclusive.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, get_args

from gpumap import units
from gpumap.cut import middle
from gpumap.judge.phrases import About, capital, every, interval, percent, roughly, said, value
from gpumap.model.utilisation import ScaleCause, Scaling
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Headline, Level, Report, Scaled

CAUSES = get_args(ScaleCause)
INCONCLUSIVE = ("few-samples", "wide-interval", "cpu-contention")
_ENOUGH = 0.9  # of the ideal, as in `gpumap.judge.explain`
_WIDE = 0.2  # of the speed-up: an interval that is wider on both sides of it decides nothing
_OTHERS = 0.1  # of the cores' time
_MAIN = 0.5  # of a loss: what accounts for as much is its cause
_ONE = (0.8, 1.2)  # cores or devices at work: about one
_UNEVEN = 0.75  # of the busiest name
_FEW = 3  # names that are written out


def judged(command: Sequence[str], steps: Sequence[Scaled], *, weak: bool) -> Scaling:
    """Return the steps with what limits the last one; it has no cause where a run has failed."""
    first, last = steps[0], steps[-1]
    if last.speedup is None:
        return Scaling(tuple(command), weak, tuple(steps))
    busy, growth = _busy(last), _growth(first, last, weak=weak)
    cause = _cause(steps, busy, growth)
    return Scaling(tuple(command), weak, tuple(steps), cause, busy, growth)


def _cause(steps: Sequence[Scaled], busy: float | None, growth: float | None) -> ScaleCause:
    last, gain = steps[-1], steps[-1].speedup
    if gain is None or not gain.has_interval:
        return "few-samples"
    enough = _ENOUGH * len(last.names)
    wide = gain.low < enough <= gain.high and gain.high - gain.low > _WIDE * gain.value
    if gain.value >= enough and not wide:
        return "scales"
    if max(map(foreign, (steps[0], last))) >= _OTHERS:
        return "cpu-contention"
    if wide:
        return "wide-interval"
    if busy is None or growth is None:
        return "not-seen"
    loss = math.log(len(last.names) / gain.value)
    return "busy-no-faster" if math.log(growth) >= _MAIN * loss else _resting(last, busy)


def _resting(last: Scaled, busy: float) -> ScaleCause:
    """Return why cores or devices do not work all the time."""
    rest = (1.0 - busy) * last.units * median(run.elapsed for run in last.runs)
    starts = [run.start for run in last.runs if run.start is not None]
    if 2 * len(starts) > len(last.runs) and (last.units - 1) * median(starts) >= _MAIN * rest:
        return "start-up"
    if _ONE[0] <= busy * last.units <= _ONE[1]:
        return "one-at-a-time"
    if any(use.verdict == "not-used" for use in last.uses):
        return "idle-names"
    shares = [use.busy for use in last.uses if use.busy is not None]
    uneven = len(shares) > 1 and min(shares) < _UNEVEN * max(shares)
    return "uneven-work" if uneven else "waits"


def _busy(step: Scaled) -> float | None:
    """Return the share of the time of its cores or devices in which they worked."""
    worked = [run.busy for run in step.runs if run.busy is not None]
    whole = math.fsum(run.elapsed for run in step.runs) * step.units
    return math.fsum(worked) / whole if len(worked) == len(step.runs) and whole > 0.0 else None


def _growth(first: Scaled, last: Scaled, *, weak: bool) -> float | None:
    """Return how many times as long the names work as one does for the same."""
    means = []
    for step in (first, last):
        worked = [run.busy for run in step.runs if run.busy is not None]
        if len(worked) < len(step.runs) or not sum(worked) > 0.0:
            return None
        means.append(math.fsum(worked) / len(worked))
    return means[1] / means[0] / (len(last.names) if weak else 1)


def foreign(step: Scaled) -> float:
    """Return the share of its cores' time that other programs had, as far as it is known."""
    runs = [run for run in step.runs if run.foreign is not None]
    whole = math.fsum(run.elapsed for run in runs) * step.units
    return math.fsum(run.foreign or 0.0 for run in runs) / whole if whole > 0.0 else 0.0


def scale(report: Report) -> Headline:
    """Answer how much faster a program is on more names, and what limits it."""
    found = report.scaling
    if found is None or found.cause is None or (gain := found.steps[-1].speedup) is None:
        return said(report, "failed", tuple(_failed(report)))
    count = counted(len(found.steps[-1].names), "name")
    about = About(None, "speedup", gain, found.cause)
    if found.cause in INCONCLUSIVE:
        text = f"Inconclusive: {count} {_times(found, roughly(gain))}."
        return said(report, "untrusted", (text, *sentences(found)), about)
    text = f"{count} {_times(found, value(gain))} ({interval(gain)})."
    failed = any(step.code is not None for step in found.steps)
    level: Level = "failed" if failed else "good" if found.cause == "scales" else "below"
    first = _failed(report) if failed else ()
    return said(report, level, (*first, text, *sentences(found)), about)


def _times(found: Scaling, gain: str) -> str:
    if found.weak:
        return f"do {gain} times the work of one in the same time"
    return f"are {gain} times as fast as one"


def _failed(report: Report) -> Sequence[str]:
    return [f"{capital(problem.diagnostic.message)}." for problem in report.errors[:1]]


def sentences(found: Scaling) -> tuple[str, ...]:
    """Return what limits a program, in words."""
    last, cause = found.steps[-1], found.cause
    noun = "core" if last.units > len(last.names) or _on_cores(last) else "device"
    share = percent(found.busy or 0.0)
    starts = [run.start for run in last.runs if run.start is not None]
    took = units.together((median(starts) if starts else 0.0,), "s")[0]
    others = percent(max(map(foreign, (found.steps[0], last))))
    texts: dict[str, str] = {
        "scales": "Nothing limits it.",
        "busy-no-faster": f"{capital(every(last.units, noun))} work, but the same work takes them "
        f"{found.growth or 0.0:.2f} times as long: memory bandwidth, or contention.",
        "start-up": f"{took} pass before a second {noun} works.",
        "one-at-a-time": f"It keeps one {noun} busy: serial work, or one lock (Python's GIL).",
        "idle-names": f"It does not use {_unused(last)}.",
        "uneven-work": f"The work is uneven: {shares(last)}.",
        "waits": f"The {noun}s work {share} of the time: it waits.",
        "not-seen": "What its devices do cannot be seen.",
        "cpu-contention": f"Other programs had {others} of the cores. Repeat on an idle machine.",
        "few-samples": "Repeat with a larger --budget: six turns make an interval.",
        "wide-interval": "The times vary too much. Repeat with a larger --budget.",
    }
    return (texts[cause],) if cause else ()


def shares(step: Scaled) -> str:
    """Return how busy each name was: ``dev0 98 %, dev1 40 %``; of many the least and the most."""
    known = [(use.busy, middle(use.name)) for use in step.uses if use.busy is not None]
    if len(known) > _FEW:
        known = [min(known), max(known)]
    return ", ".join(f"{name} {percent(share)}" for share, name in known) or "not seen"


def _unused(step: Scaled) -> str:
    names = [middle(use.name) for use in step.uses if use.verdict == "not-used"]
    return " and ".join(names) if len(names) < _FEW else f"{len(names)} of its names"


def _on_cores(step: Scaled) -> bool:
    return all("proc" in use.sources for use in step.uses)

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
from statistics import fmean
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.judge.phrases import About, capital, interval, percent, roughly, said, value
from gpumap.model.programs import ScaleCause, Scaling
from gpumap.text import middle
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Headline, Level, Report, Scaled

INCONCLUSIVE = ("few-samples", "wide-interval", "cpu-contention")
_ENOUGH = 0.9  # of the ideal, as in `gpumap.judge.explain`
_WIDE = 0.2  # of the speed-up: an interval that is wider on both sides of it decides nothing
_OTHERS = 0.1  # of the cores' time
_MAIN = 0.5  # of a loss: what accounts for as much is its cause
_ONE = (0.8, 1.2)  # cores or devices at work: about one
_UNEVEN = 0.75  # of the busiest name
_FEW = 3  # names that are written out
CAUSES: dict[ScaleCause, str] = {
    "scales": "Nothing limits it.",
    "busy-no-faster": "All {noun}s work, but the same work takes them {growth:.2f} times as long: "
    "memory bandwidth, or contention.",
    "start-up": "It takes {start} until a second {noun} works.",
    "one-at-a-time": "It keeps one {noun} busy: serial work, or one lock (Python's GIL).",
    "idle-names": "It does not use {unused}.",
    "uneven-work": "The work is uneven: {shares}.",
    "waits": "The {noun}s work {busy} of the time: it waits.",
    "not-seen": "What its devices do cannot be seen.",
    "cpu-contention": "Other programs had {others} of the cores. Repeat on an idle machine.",
    "few-samples": "Six turns make an interval. Repeat with a larger --budget.",
    "wide-interval": "The times vary too much. Repeat with a larger --budget.",
}


def judged(command: Sequence[str], steps: Sequence[Scaled]) -> Scaling:
    """Return the steps with what limits the last one; it has no cause where a run has failed."""
    first, last = (_mean(step, "busy") for step in (steps[0], steps[-1]))
    busy = _share(steps[-1], last)
    growth = last / first if last and first else None
    return Scaling(tuple(command), tuple(steps), _cause(steps, busy, growth), busy, growth)


def _cause(steps: Sequence[Scaled], busy: float | None, growth: float | None) -> ScaleCause | None:
    last, gain = steps[-1], steps[-1].speedup
    if gain is None or not gain.has_interval:
        return None if gain is None else "few-samples"
    ideal = len(last.names)
    wide = gain.low < _ENOUGH * ideal <= gain.high and gain.high - gain.low > _WIDE * gain.value
    if gain.value >= _ENOUGH * ideal and not wide:
        return "scales"
    if _others(steps) >= _OTHERS:
        return "cpu-contention"
    if wide or busy is None or growth is None:
        return "wide-interval" if wide else "not-seen"
    longer = math.log(growth) >= _MAIN * math.log(ideal / gain.value)
    return "busy-no-faster" if longer else _resting(last, busy)


def _resting(last: Scaled, busy: float) -> ScaleCause:
    """Return why cores or devices do not work all the time."""
    rest = (1.0 - busy) * last.units * (_mean(last, "elapsed") or 0.0)
    if (last.units - 1) * (_mean(last, "start") or 0.0) >= _MAIN * rest:
        return "start-up"
    if _ONE[0] <= busy * last.units <= _ONE[1]:
        return "one-at-a-time"
    if any(use.verdict == "not-used" for use in last.uses):
        return "idle-names"
    shares = [use.busy for use in last.uses if use.busy is not None]
    uneven = len(shares) > 1 and min(shares) < _UNEVEN * max(shares)
    return "uneven-work" if uneven else "waits"


def _mean(step: Scaled, what: str) -> float | None:
    """Return the mean of its runs; None where it is known of less than half of them."""
    known = [found for run in step.runs if (found := getattr(run, what)) is not None]
    return fmean(known) if known and 2 * len(known) >= len(step.runs) else None


def _share(step: Scaled, seconds: float | None) -> float | None:
    """Return a time as a share of that of all its cores or devices."""
    elapsed = _mean(step, "elapsed")
    return seconds / elapsed / step.units if elapsed and seconds is not None else None


def _others(steps: Sequence[Scaled]) -> float:
    """Return the share of the cores' time that other programs had, as far as it is known."""
    return max(_share(step, _mean(step, "foreign")) or 0.0 for step in (steps[0], steps[-1]))


def scale(report: Report) -> Headline:
    """Answer how much faster a program is on more names, and what limits it."""
    found, failures = report.scaling, [p.diagnostic for p in report.errors]
    failed = tuple(f"{capital(each.message)}." for each in failures if each.code == "program")[:1]
    if found is None or found.cause is None or (gain := found.steps[-1].speedup) is None:
        return said(report, "failed", failed or ("Not measured.",))
    unclear, count = found.cause in INCONCLUSIVE, counted(len(found.steps[-1].names), "name")
    figure = roughly(gain) if unclear else f"{value(gain)}"
    text = f"{count} are {figure} times as fast as one"
    text = f"Inconclusive: {text}." if unclear else f"{text} ({interval(gain)})."
    level: Level = "untrusted" if unclear else "good" if found.cause == "scales" else "below"
    verdicts = [verdict.verdict for verdict in report.verdicts]
    if failed or "fail" in verdicts:
        level = "failed" if failed else "below"
        text = text if failed else f"Limit missed ({report.verdicts[0].text}): {text}"
    elif "inconclusive" in verdicts:
        level = "untrusted"
    about = About(None, "speedup", gain, found.cause)
    return said(report, level, (*failed, text, sentence(found)), about)


def sentence(found: Scaling) -> str:
    """Return what limits a program, in words."""
    last = found.steps[-1]
    unused = [middle(use.name) for use in last.uses if use.verdict == "not-used"]
    return CAUSES[found.cause or "not-seen"].format(
        noun="core" if all("proc" in use.sources for use in last.uses) else "device",
        growth=found.growth or 0.0,
        busy=percent(found.busy or 0.0),
        start=units.together((_mean(last, "start") or 0.0,), "s")[0],
        others=percent(_others(found.steps)),
        shares=shares(last),
        unused=" and ".join(unused) if len(unused) < _FEW else f"{len(unused)} of its names",
    )


def shares(step: Scaled) -> str:
    """Return how busy each name was: ``dev0 98 %, dev1 40 %``; of many the least and the most."""
    known = [(use.busy, middle(use.name)) for use in step.uses if use.busy is not None]
    known = known if len(known) <= _FEW else [min(known), max(known)]
    return ", ".join(f"{name} {percent(share)}" for share, name in known) or "not seen"

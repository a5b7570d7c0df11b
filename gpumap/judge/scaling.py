"""Judge a program on one name of a map, on two and so on: its speed-up, and what limits it.

The speed-up on several names has a cause by elimination (`judge_scaling`). With T the time of a
run, W what the cores or devices worked in it, added up, and P = W / T, so many worked on average.
For the same work on n names and on one

    speed-up / n  =  P(n) / (n P(1))  x  W(1) / W(n)

is exact: what is missing is lost because they rest, or because the same work takes them longer. The
larger loss, of the logarithms, is explained. If they rest, by the most of the seconds in which not
several work, as `gpumap.launch.timeline` tells them apart:

    start-up        before several work
    one-at-a-time   one works alone, and then others again
    uneven-work     one works alone at the end. Of ranks: the least and the most busy have more than
                    1 s of work, and differ by more than 25 %
    communication   the ranks rest together
    waits           none of these; one process rests
    idle-names      a name does no work at all

No such cause rests on fewer than 20 looks.

Before that, other programs on the cores of the names, too few runs for an interval, and one that
reaches far to both sides of 90 % of the ideal leave it inconclusive.
"""

from __future__ import annotations

import math
from statistics import fmean, median
from typing import TYPE_CHECKING

from gpumap.judge.inconclusive import ENOUGH
from gpumap.judge.limits import Outcome, verdict_on
from gpumap.judge.phrases import (
    FEW,
    About,
    answer,
    capital,
    interval,
    percent,
    roughly,
    texts,
    value,
)
from gpumap.model.programs import ScaleCause, Scaling
from gpumap.text import middle
from gpumap.units import counted, time_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Estimate, Headline, Level, Report, Scaled, ScaleStep

INCONCLUSIVE = ("few-samples", "wide-interval", "cpu-contention")
_WIDE = 0.2  # of the speed-up: an interval that is wider on both sides of it decides nothing
_OTHERS = 0.1  # of the cores' time
_MAIN = 0.5  # of a loss: what accounts for as much is its cause
_UNEVEN = 0.75  # of the busiest rank
_LEAST = 1.0  # seconds of work of a rank, below which it is not compared with others
LOOKS = 20  # at a run, from which on it tells why
_SPENT = ("start", "serial", "uneven", "idle", "elapsed")
_CONTENTION = "memory bandwidth, or contention"
_REPEATED = "work that each rank repeats (imports, compiling), memory bandwidth, or contention"


def judge_scaling(
    command: Sequence[str], steps: Sequence[ScaleStep], *, ranks: bool = False, weak: bool = False
) -> Scaling:
    """Return the steps with what limits the last one; it has no cause where a run has failed.

    Args:
        command: the program and its arguments.
        steps: each number of names.
        ranks: whether there is a process for each name.
        weak: whether the work grows with the names.
    """
    first, last = (_mean(step, "busy") for step in (steps[0], steps[-1]))
    busy, done = _share(steps[-1], last), len(steps[-1].names) if weak else 1
    growth = last / first / done if last and first else None
    cause = _cause(steps, busy, growth, ranks=ranks)
    return Scaling(tuple(command), tuple(steps), cause, busy, growth, ranks, weak)


def _cause(
    steps: Sequence[ScaleStep], busy: float | None, growth: float | None, *, ranks: bool
) -> ScaleCause | None:
    last, gain = steps[-1], steps[-1].speedup
    if gain is None:
        return None
    if not gain.has_interval:  # more turns beside others would not tell either
        return "cpu-contention" if _others(steps) >= _OTHERS else "few-samples"
    ideal = len(last.names)
    wide = gain.low < ENOUGH * ideal <= gain.high and gain.high - gain.low > _WIDE * gain.value
    if gain.value >= ENOUGH * ideal and not wide:
        return "scales"
    if _others(steps) >= _OTHERS:
        return "cpu-contention"
    if wide or busy is None or growth is None:
        return "wide-interval" if wide else "not-seen"
    longer = math.log(growth) >= _MAIN * math.log(ideal / gain.value)
    return "busy-no-faster" if longer else _resting(last, busy, ranks=ranks)


def _resting(step: ScaleStep, busy: float, *, ranks: bool) -> ScaleCause:
    """Return why cores or devices do not work all the time."""
    if _median(step, "looks") < LOOKS:
        return "few-looks"
    rest = (1.0 - busy) * step.units * _median(step, "elapsed")
    lost: dict[ScaleCause, float] = {
        "start-up": step.units * _median(step, "start"),
        "one-at-a-time": (step.units - 1) * _median(step, "serial"),
        "uneven-work": (step.units - 1) * _median(step, "uneven"),
        "communication" if ranks else "waits": step.units * _median(step, "idle"),
    }
    main = max(lost, key=lambda cause: lost[cause])
    unused = any(use.verdict == "not-used" for use in step.uses)
    if unused and (lost[main] < _MAIN * rest or not _on_cores(step)):
        return "idle-names"
    even = main == "uneven-work" and ranks and not _differ(step)
    return "waits" if even or lost[main] < _MAIN * rest else main


def _on_cores(step: ScaleStep) -> bool:
    """Return whether its names are cores: of these alone the time of others is known."""
    return all(run.foreign is not None for run in step.runs)


def _differ(step: ScaleStep) -> bool:
    """Return whether ranks differ in the work that they had, in the middle one of the runs."""
    worked = _worked(step)
    return min(worked) >= _LEAST and min(worked) < _UNEVEN * max(worked)


def _worked(step: ScaleStep) -> tuple[float, ...]:
    """Return the seconds that each name worked: the median of its runs."""
    return tuple(map(median, zip(*(run.worked for run in step.runs), strict=True)))


def _median(step: ScaleStep, what: str) -> float:
    """Return the median of its runs."""
    return float(median(getattr(run, what) for run in step.runs))


def _mean(step: ScaleStep, what: str) -> float | None:
    """Return the mean of its runs; None where it is known of less than half of them."""
    known = [amount for run in step.runs if (amount := getattr(run, what)) is not None]
    return fmean(known) if known and 2 * len(known) >= len(step.runs) else None


def _share(step: ScaleStep, seconds: float | None) -> float | None:
    """Return a time as a share of that of all its cores or devices."""
    elapsed = _mean(step, "elapsed")
    return seconds / elapsed / step.units if elapsed and seconds is not None else None


def _others(steps: Sequence[ScaleStep]) -> float:
    """Return the share of the cores' time that other programs used, as far as it is known."""
    return max(_share(step, _mean(step, "foreign")) or 0.0 for step in (steps[0], steps[-1]))


def reaches(scaling: Scaling, least: float, gain: Estimate) -> Outcome:
    """Return whether a speed-up reaches a limit; others on the cores can be why not."""
    result = verdict_on(">=", least, gain)
    return "inconclusive" if (result, scaling.cause) == ("fail", "cpu-contention") else result


def scale(report: Report, result: Scaled) -> Headline:
    """Answer how much faster a program is on more names, and what limits it."""
    scaling, failures = result.scaling, [p.diagnostic for p in report.errors]
    failed = tuple(f"{capital(each.message)}." for each in failures if each.code == "program")[:1]
    if scaling is None or scaling.cause is None or (gain := scaling.steps[-1].speedup) is None:
        return answer(report, "failed", failed or ("Not measured.",))
    verdicts = [verdict.verdict for verdict in report.verdicts]
    unclear = scaling.cause in INCONCLUSIVE and not {"fail", "pass"} & {*verdicts}
    count = counted(len(scaling.steps[-1].names), "name")
    figure = roughly(gain) if unclear else f"{value(gain)}"
    text = f"{count} are {figure} times as fast as one"
    text = f"Inconclusive: {text}." if unclear else f"{text} ({interval(gain)})."
    if unclear and scaling.cause == "cpu-contention":  # what it came to is theirs, too
        text = "Inconclusive."
    level: Level = "untrusted" if unclear else "good" if scaling.cause == "scales" else "below"
    if failed or "fail" in verdicts:
        level = "failed" if failed else "below"
        text = text if failed else f"Limit missed ({report.verdicts[0].text}): {text}"
    elif "pass" in verdicts:
        level, text = "good", f"Limit met ({report.verdicts[0].text}): {text}"
    elif "inconclusive" in verdicts:
        level = "untrusted"
    about = About(None, "speedup", gain, scaling.cause)
    return answer(report, level, (*failed, text, sentence(scaling)), about)


def sentence(scaling: Scaling) -> str:
    """Return the text of what limits a program."""
    last = scaling.steps[-1]
    unused = [middle(use.name) for use in last.uses if use.verdict == "not-used"]
    spent = {key: _median(last, key) if last.runs else 0.0 for key in _SPENT}
    return texts("limits")[scaling.cause or "not-seen"].format(
        noun="core" if _on_cores(last) else "device",
        growth=scaling.growth or 0.0,
        busy=percent(scaling.busy or 0.0),
        others=percent(_others(scaling.steps)),
        longer=_REPEATED if scaling.ranks else _CONTENTION,
        looks=LOOKS,
        unused=" and ".join(unused) if len(unused) < FEW else f"{len(unused)} of its names",
        worked=_listed(last) if scaling.ranks and last.runs else "",
        **{key: time_of(seconds) for key, seconds in spent.items()},
    )


def _listed(step: ScaleStep) -> str:
    """Return ``a worked 2.0 s, b 1.0 s; ``; of many names the least and the most."""
    known = list(zip(_worked(step), step.names, strict=True))
    known = known if len(known) <= FEW else [min(known), max(known)]
    rest = ", ".join(f"{middle(name)} {time_of(seconds)}" for seconds, name in known[1:])
    return f"{middle(known[0][1])} worked {time_of(known[0][0])}, {rest}; "


def shares(step: ScaleStep) -> str:
    """Return how busy each name was: ``dev0 98 %, dev1 40 %``; of many the least and the most."""
    known = [(use.busy, middle(use.name)) for use in step.uses if use.busy is not None]
    known = known if len(known) <= FEW else [min(known), max(known)]
    return ", ".join(f"{name} {percent(share)}" for share, name in known) or "not observed"

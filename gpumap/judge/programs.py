"""Judge programs: traces, use of devices, and what limits their speed-up.

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

Before that: too few runs for an interval, one that reaches far to both sides of 90 % of the ideal,
and other programs on the cores of the names leave it inconclusive.

`summary` of a trace: what ran where, implicit transfers, and how busy each device was. Times are of
the devices' queues, observed once: no interval, and no verdict. One that a device cannot report is
unknown, and so is every sum that it belongs to; never 0.

    busy      how long at least one operation or transfer of a device ran; a copy from device to
              device keeps both busy
    share     busy, over the time from the start of the first event to the end of the last one
    overlap   the time in which every device that computed was computing, over that of the one which
              computed least; a copy is one piece of work of two devices, so transfers do not count
"""

from __future__ import annotations

import math
from functools import reduce
from operator import attrgetter
from statistics import fmean, median
from typing import TYPE_CHECKING

from gpumap.judge.inconclusive import ENOUGH
from gpumap.judge.phrases import (
    About,
    answer,
    capital,
    every,
    interval,
    percent,
    roughly,
    value,
    verb,
)
from gpumap.model import Busy, Moved, Ran, TraceSummary
from gpumap.model.programs import ScaleCause, Scaling
from gpumap.text import middle
from gpumap.units import counted, time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gpumap.judge.limits import Outcome
    from gpumap.model import (
        Estimate,
        Headline,
        Level,
        Report,
        Scaled,
        ScaleStep,
        Trace,
        TraceEvent,
        Use,
        Utilisation,
    )

    Intervals = list[tuple[float, float]]  # disjoint, in time order

INCONCLUSIVE = ("few-samples", "wide-interval", "cpu-contention")
_WIDE = 0.2  # of the speed-up: an interval that is wider on both sides of it decides nothing
_OTHERS = 0.1  # of the cores' time
_MAIN = 0.5  # of a loss: what accounts for as much is its cause
_UNEVEN = 0.75  # of the busiest rank
_LEAST = 1.0  # seconds of work of a rank, below which it is not compared with others
LOOKS = 20  # at a run, from which on it tells why
_FEW = 3  # names that are written out
CAUSES: dict[ScaleCause, str] = {
    "scales": "Nothing limits it.",
    "busy-no-faster": "All {noun}s work, but the same work takes them {growth:.2f} times as long: "
    "{longer}.",
    "start-up": "Start-up: for {start} of {elapsed}, before several {noun}s work.",
    "one-at-a-time": "One {noun} works alone for {serial} of {elapsed}: serial work, or one lock "
    "(Python's GIL).",
    "idle-names": "It does not use {unused}.",
    "uneven-work": "The work is uneven: {worked}at the end one {noun} works alone for {uneven}.",
    "waits": "The {noun}s work {busy} of the time: it waits.",
    "communication": "The ranks rest together for {idle} of {elapsed}: they exchange, or wait.",
    "few-looks": "Why does not show: a run is too short for {looks} looks. Give it more work.",
    "not-seen": "What its devices do is not visible.",
    "cpu-contention": "Other programs had {others} of the cores. Repeat on an idle machine.",
    "few-samples": "Six turns make an interval. Repeat with a larger --budget.",
    "wide-interval": "The times vary too much. Repeat with a larger --budget.",
}
_SPENT = ("start", "serial", "uneven", "idle", "elapsed")
_CONTENTION = "memory bandwidth, or contention"
_REPEATED = "work that each rank repeats (imports, compiling), memory bandwidth, or contention"
_IDLE = 0.5  # of the time
WHY = {  # of a device: why its use is unknown
    "host-threads": "its driver works in the program's own threads",
    "no-address": "its driver reports no PCI address",
    "no-driver": "NVML did not respond",
    "no-permission": "the open files of its processes may not be read",
    "hidden-processes": "processes on it are not visible from here",
    "opened-idle": "it was open, and never busy for 1 % of the time",
    "compute-driver": "AMD's compute driver does not report which process works",
    "short-lived": "processes or threads may have used it between two looks",
    "too-short": "the program ended before the first look",
}
HOST = "host"
TARGET = "cpu"  # of an event in host memory; no name of a map is called so
_ARROW = "->"  # from one name to another; no name of a map holds it
_SORT = attrgetter("name", "device", "kind", "implicit")


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
    if gain is None or not gain.has_interval:
        return None if gain is None else "few-samples"
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
    from gpumap.judge.limits import verdict_on

    result = verdict_on(">=", least, gain)
    return "inconclusive" if (result, scaling.cause) == ("fail", "cpu-contention") else result


def scale(report: Report, result: Scaled) -> Headline:
    """Answer how much faster a program is on more names, and what limits it."""
    scaling, failures = result.scaling, [p.diagnostic for p in report.errors]
    failed = tuple(f"{capital(each.message)}." for each in failures if each.code == "program")[:1]
    if scaling is None or scaling.cause is None or (gain := scaling.steps[-1].speedup) is None:
        return answer(report, "failed", failed or ("Not measured.",))
    verdicts = [verdict.verdict for verdict in report.verdicts]
    unclear = scaling.cause in INCONCLUSIVE and "fail" not in verdicts
    count = counted(len(scaling.steps[-1].names), "name")
    figure = roughly(gain) if unclear else f"{value(gain)}"
    text = f"{count} are {figure} times as fast as one"
    text = f"Inconclusive: {text}." if unclear else f"{text} ({interval(gain)})."
    level: Level = "untrusted" if unclear else "good" if scaling.cause == "scales" else "below"
    if failed or "fail" in verdicts:
        level = "failed" if failed else "below"
        text = text if failed else f"Limit missed ({report.verdicts[0].text}): {text}"
    elif "inconclusive" in verdicts:
        level = "untrusted"
    about = About(None, "speedup", gain, scaling.cause)
    return answer(report, level, (*failed, text, sentence(scaling)), about)


def sentence(scaling: Scaling) -> str:
    """Return the text of what limits a program."""
    last = scaling.steps[-1]
    unused = [middle(use.name) for use in last.uses if use.verdict == "not-used"]
    spent = {key: _median(last, key) if last.runs else 0.0 for key in _SPENT}
    return CAUSES[scaling.cause or "not-seen"].format(
        noun="core" if _on_cores(last) else "device",
        growth=scaling.growth or 0.0,
        busy=percent(scaling.busy or 0.0),
        others=percent(_others(scaling.steps)),
        longer=_REPEATED if scaling.ranks else _CONTENTION,
        looks=LOOKS,
        unused=" and ".join(unused) if len(unused) < _FEW else f"{len(unused)} of its names",
        worked=_listed(last) if scaling.ranks and last.runs else "",
        **{key: time_of(seconds) for key, seconds in spent.items()},
    )


def _listed(step: ScaleStep) -> str:
    """Return ``a worked 2.0 s, b 1.0 s; ``; of many names the least and the most."""
    known = list(zip(_worked(step), step.names, strict=True))
    known = known if len(known) <= _FEW else [min(known), max(known)]
    rest = ", ".join(f"{middle(name)} {time_of(seconds)}" for seconds, name in known[1:])
    return f"{middle(known[0][1])} worked {time_of(known[0][0])}, {rest}; "


def shares(step: ScaleStep) -> str:
    """Return how busy each name was: ``dev0 98 %, dev1 40 %``; of many the least and the most."""
    known = [(use.busy, middle(use.name)) for use in step.uses if use.busy is not None]
    known = known if len(known) <= _FEW else [min(known), max(known)]
    return ", ".join(f"{name} {percent(share)}" for share, name in known) or "not observed"


def sentences(result: Utilisation) -> tuple[Level, tuple[str, ...]]:
    """Return whether the devices were used, and how well; a device that was not comes first."""
    unused = [use for use in result.uses if use.verdict == "not-used"]
    unknown = [use for use in result.uses if use.verdict == "unknown"]
    used = [use for use in result.uses if use.verdict == "used"]
    if unused or unknown:
        first = (f"{_names(unused)} not used.",) if unused else ()
        rest = (_unclear(unknown),) if unknown else ()
        return "below" if unused else "untrusted", (*first, *rest, *_idle(used, result))
    level: Level = "good"
    shares = [(use, use.busy) for use in used if use.busy is not None]
    listed = ", ".join(f"{middle(use.name)} {percent(share)}" for use, share in shares[:_FEW])
    if shares and max(share for _, share in shares) < _IDLE:
        level = "below"
    busy = f": {listed} of {time_of(result.elapsed)}" if listed else ""
    text = f"{capital(every(len(used), 'device'))} {verb(used, 'was', 'were')} used{busy}."
    return level, (text,)


def utilisation(report: Report, result: Utilisation) -> Headline:
    """Return the headline of a program that was watched."""
    level, text = sentences(result)
    if result.code:
        end = f"signal {-result.code}" if result.code < 0 else f"exit code {result.code}"
        first = f"The program ended with {end} after {time_of(result.elapsed)}."
        return answer(report, "failed", (first, "What was recorded until then follows.", *text))
    return answer(report, level, text)


def _names(uses: Sequence[Use]) -> str:
    """Return ``dev0 was``, ``dev0 and dev1 were``; of many only how many they are."""
    names = " and ".join(middle(use.name) for use in uses)
    names = names if len(uses) <= _FEW else f"{len(uses)} devices"
    return f"{names} {verb(uses, 'was', 'were')}"


def _unclear(unknown: Sequence[Use]) -> str:
    first = unknown[0]
    why = f": {WHY[first.why]}" if first.why else ""
    outside = f". From outside: {percent(first.busy)} busy" if first.busy else ""
    return f"Cannot tell whether {_names(unknown)} used{why}{outside}."


def _idle(used: Sequence[Use], result: Utilisation) -> Iterator[str]:
    """Yield that the device with the most work rested most of the time, and why if that shows."""
    shares = [(use.busy, use) for use in used if use.busy is not None]
    if shares:
        share, use = max(shares, key=lambda pair: pair[0])
        if share < _IDLE:
            idle = f"{middle(use.name)} was idle for {percent(1.0 - share)}"
            yield f"{idle} of {time_of(result.elapsed)}."
        else:
            yield f"{middle(use.name)} was busy for {percent(share)} of {time_of(result.elapsed)}."
    elif used:
        yield f"{_names(used)} used."


class ImplicitCopies(Ran, frozen=True):
    """Implicit transfers, counted by shape and line of the program."""

    shape: tuple[int, ...]
    line: str | None


class Summary(TraceSummary, frozen=True):
    """Totals of a trace, and its implicit transfers, the most expensive first."""

    implicit: tuple[ImplicitCopies, ...]


def summary(trace: Trace) -> Summary:
    """Summarise a trace; the time grows with its events, not with their square."""
    timed = [event for event in trace.events if event.start is not None and event.stop is not None]
    span = None
    if timed:
        span = max(e.stop or 0.0 for e in timed) - min(e.start or 0.0 for e in timed)
    by_device = _by_device(trace)
    computed = (
        [event for event in events if event.kind == "operation"]
        for device, events in by_device.items()
        if device != HOST
    )
    implicit = tuple(sorted(_implicit(trace.events), key=_cost))
    return Summary(
        span,
        _overlap([events for events in computed if events]),
        len(trace.events) - len(timed),
        tuple(Ran(*_SORT(events[0]), *_sums(events)) for events in _groups(trace.events, _SORT)),
        Moved(
            sum(each.count for each in implicit),
            sum(each.nbytes for each in implicit),
            _total(each.seconds for each in implicit),
        ),
        tuple(_busy(trace, by_device, span)),
        implicit,
    )


def union(events: Iterable[TraceEvent]) -> Intervals:
    """Return when at least one of the events ran; those without times are passed over."""
    known = ((e.start, e.stop) for e in events)
    merged: Intervals = []
    for start, stop in sorted((a, b) for a, b in known if a is not None and b is not None):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], stop)
        else:
            merged.append((start, stop))
    return merged


def both(a: Intervals, b: Intervals) -> Intervals:
    """Return when both ran."""
    overlaps: Intervals = []
    i = j = 0
    while i < len(a) and j < len(b):
        start, stop = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < stop:
            overlaps.append((start, stop))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return overlaps


def length(intervals: Intervals) -> float:
    """Return the sum of their lengths in seconds."""
    return sum(stop - start for start, stop in intervals)


def _implicit(events: Iterable[TraceEvent]) -> Iterable[ImplicitCopies]:
    implicit = (event for event in events if event.implicit and event.kind == "transfer")
    for group in _groups(implicit, lambda event: (*_SORT(event), event.shape, event.line)):
        yield ImplicitCopies(*_SORT(group[0]), *_sums(group), group[0].shape, group[0].line)


def _groups(
    events: Iterable[TraceEvent], key: Callable[[TraceEvent], object]
) -> Iterable[list[TraceEvent]]:
    groups: dict[object, list[TraceEvent]] = {}
    for event in events:
        groups.setdefault(key(event), []).append(event)
    return groups.values()


def _sums(events: Sequence[TraceEvent]) -> tuple[int, int, float | None]:
    return len(events), sum(event.nbytes for event in events), _total(map(_seconds, events))


def _by_device(trace: Trace) -> dict[str, list[TraceEvent]]:
    """Return the events of each device of the map, and of the host if it did something."""
    devices = {binding.name: binding.device.id for binding in trace.bindings}
    events: dict[str, list[TraceEvent]] = {device: [] for device in devices.values()}
    for event in trace.events:
        names = [event.device] if event.device in devices else event.device.split(_ARROW)
        for device in dict.fromkeys(HOST if n == TARGET else devices.get(n, n) for n in names):
            events.setdefault(device, []).append(event)
    return events


def _busy(
    trace: Trace, by_device: Mapping[str, Sequence[TraceEvent]], span: float | None
) -> Iterable[Busy]:
    names: dict[str, list[str]] = {}
    for binding in trace.bindings:
        names.setdefault(binding.device.id, []).append(binding.name)
    for device, events in by_device.items():
        unknown = any(_seconds(event) is None for event in events)
        seconds = None if unknown else length(union(events))
        share = None if seconds is None or not span else min(seconds / span, 1.0)
        yield Busy(device, tuple(names.get(device, ())), len(events), seconds, share)


def _overlap(groups: Sequence[Sequence[TraceEvent]]) -> float | None:
    if len(groups) < 2 or any(_seconds(e) is None for events in groups for e in events):  # noqa: PLR2004 - a pair
        return None
    intervals = [union(events) for events in groups]
    least = min(map(length, intervals))
    return min(length(reduce(both, intervals)) / least, 1.0) if least > 0.0 else None


def _cost(ran: Ran) -> tuple[float, int]:
    """Return what sorts the most expensive first; what is unknown comes last, by its bytes."""
    return (1.0 if ran.seconds is None else -ran.seconds), -ran.nbytes


def _seconds(event: TraceEvent) -> float | None:
    return None if event.start is None or event.stop is None else event.stop - event.start


def _total(times: Iterable[float | None]) -> float | None:
    every = list(times)
    known = [seconds for seconds in every if seconds is not None]
    return None if len(known) < len(every) else sum(known)

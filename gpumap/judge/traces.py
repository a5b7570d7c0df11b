"""Summarise a trace: what ran where, implicit transfers, and how busy each device was.

Times are of the devices' queues, observed once: no interval, and no verdict. One that a device
cannot report is unknown, and so is every sum that it belongs to; never 0.

    busy      how long at least one operation or transfer of a device ran; a copy from device to
              device keeps both busy
    share     busy, over the time from the start of the first event to the end of the last one
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from gpumap.model import Busy, Moved, Ran, TraceSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpumap.model import Trace, TraceEvent

    Intervals = list[tuple[float, float]]  # disjoint, in time order

HOST = "host"
TARGET = "cpu"  # of an event in host memory; no name of a map is called so
_ARROW = "->"  # from one name to another; no name of a map holds it
_SORT = attrgetter("name", "device", "kind", "implicit")


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
    implicit = tuple(sorted(_implicit(trace.events), key=_cost))
    return Summary(
        span,
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


def _cost(ran: Ran) -> tuple[float, int]:
    """Return what sorts the most expensive first; what is unknown comes last, by its bytes."""
    return (1.0 if ran.seconds is None else -ran.seconds), -ran.nbytes


def _seconds(event: TraceEvent) -> float | None:
    return None if event.start is None or event.stop is None else event.stop - event.start


def _total(times: Iterable[float | None]) -> float | None:
    every = list(times)
    known = [seconds for seconds in every if seconds is not None]
    return None if len(known) < len(every) else sum(known)

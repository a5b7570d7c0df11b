"""What a trace comes to: what ran where, what was moved unasked, how busy each device was.

Times are of the devices' own queues, seen once: no interval, and no judgement. One that a device
cannot tell is unknown, and so is every sum that it belongs to; never 0.

    busy      how long at least one operation or transfer of a device ran; a copy from device to
              device keeps both busy
    share     busy, over the time from the start of the first event to the end of the last one
    overlap   the time in which every device that computed was computing, over that of the one which
              computed least; a copy is one piece of work of two devices, so transfers do not count
"""

from __future__ import annotations

from functools import reduce
from operator import attrgetter
from typing import TYPE_CHECKING

from gpumap.model import Busy, Moved, Ran, TraceSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpumap.model import Trace, TraceEvent

    Spans = list[tuple[float, float]]  # disjoint, in time order

HOST = "host"
TARGET = "cpu"  # of an event in host memory; no name of a map is called so
_ARROW = "->"  # from one name to another; no name of a map holds it
_SORT = attrgetter("name", "device", "kind", "implicit")


class Unasked(Ran, frozen=True):
    """Implicit transfers, counted apart by their shape and the program's line."""

    shape: tuple[int, ...]
    line: str | None


class Summary(TraceSummary, frozen=True):
    """Totals of a trace, and its implicit transfers, the most expensive first."""

    implicit: tuple[Unasked, ...]


def summary(trace: Trace) -> Summary:
    """Return what a trace comes to; the time grows with its events, not with their square."""
    timed = [event for event in trace.events if event.start is not None and event.stop is not None]
    span = _span(timed)
    places = _places(trace)
    computed = (_operations(found) for device, found in places.items() if device != HOST)
    implicit = tuple(sorted(_unasked(trace.events), key=_cost))
    return Summary(
        span,
        _overlap([found for found in computed if found]),
        len(trace.events) - len(timed),
        tuple(Ran(*_SORT(found[0]), *_sums(found)) for found in _groups(trace.events, _SORT)),
        Moved(
            sum(each.count for each in implicit),
            sum(each.nbytes for each in implicit),
            _total(each.seconds for each in implicit),
        ),
        tuple(_busy(trace, places, span)),
        implicit,
    )


def union(events: Iterable[TraceEvent]) -> Spans:
    """Return when at least one of the events ran; those without times are passed over."""
    known = ((e.start, e.stop) for e in events)
    found: Spans = []
    for start, stop in sorted((a, b) for a, b in known if a is not None and b is not None):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], stop)
        else:
            found.append((start, stop))
    return found


def both(a: Spans, b: Spans) -> Spans:
    """Return when both ran."""
    found: Spans = []
    i = j = 0
    while i < len(a) and j < len(b):
        start, stop = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < stop:
            found.append((start, stop))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return found


def length(spans: Spans) -> float:
    """Return how long they are together, in seconds."""
    return sum(stop - start for start, stop in spans)


def _unasked(events: Iterable[TraceEvent]) -> Iterable[Unasked]:
    unasked = (event for event in events if event.implicit and event.kind == "transfer")
    for found in _groups(unasked, lambda event: (*_SORT(event), event.shape, event.line)):
        yield Unasked(*_SORT(found[0]), *_sums(found), found[0].shape, found[0].line)


def _groups(
    events: Iterable[TraceEvent], key: Callable[[TraceEvent], object]
) -> Iterable[list[TraceEvent]]:
    groups: dict[object, list[TraceEvent]] = {}
    for event in events:
        groups.setdefault(key(event), []).append(event)
    return groups.values()


def _sums(events: Sequence[TraceEvent]) -> tuple[int, int, float | None]:
    return len(events), sum(event.nbytes for event in events), _total(map(_seconds, events))


def _places(trace: Trace) -> dict[str, list[TraceEvent]]:
    """Return the events of each device of the map, and of the host if it did something."""
    devices = {binding.name: binding.device.id for binding in trace.bindings}
    found: dict[str, list[TraceEvent]] = {device: [] for device in devices.values()}
    for event in trace.events:
        names = [event.device] if event.device in devices else event.device.split(_ARROW)
        for place in dict.fromkeys(HOST if n == TARGET else devices.get(n, n) for n in names):
            found.setdefault(place, []).append(event)
    return found


def _busy(
    trace: Trace, places: Mapping[str, Sequence[TraceEvent]], span: float | None
) -> Iterable[Busy]:
    names: dict[str, list[str]] = {}
    for binding in trace.bindings:
        names.setdefault(binding.device.id, []).append(binding.name)
    for device, events in places.items():
        unknown = any(_seconds(event) is None for event in events)
        seconds = None if unknown else length(union(events))
        share = None if seconds is None or not span else min(seconds / span, 1.0)
        yield Busy(device, tuple(names.get(device, ())), len(events), seconds, share)


def _operations(events: Sequence[TraceEvent]) -> list[TraceEvent]:
    return [event for event in events if event.kind == "operation"]


def _overlap(groups: Sequence[Sequence[TraceEvent]]) -> float | None:
    if len(groups) < 2 or any(_seconds(e) is None for events in groups for e in events):  # noqa: PLR2004 - a pair
        return None
    spans = [union(events) for events in groups]
    least = min(map(length, spans))
    return min(length(reduce(both, spans)) / least, 1.0) if least > 0.0 else None


def _span(timed: Sequence[TraceEvent]) -> float | None:
    if not timed:
        return None
    return max(e.stop or 0.0 for e in timed) - min(e.start or 0.0 for e in timed)


def _cost(ran: Ran) -> tuple[float, int]:
    """Return what sorts the most expensive first; what is unknown comes last, by its bytes."""
    return (1.0 if ran.seconds is None else -ran.seconds), -ran.nbytes


def _seconds(event: TraceEvent) -> float | None:
    return None if event.start is None or event.stop is None else event.stop - event.start


def _total(times: Iterable[float | None]) -> float | None:
    every = list(times)
    known = [seconds for seconds in every if seconds is not None]
    return None if len(known) < len(every) else sum(known)

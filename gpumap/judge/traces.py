"""Summarise a trace: what ran where, implicit transfers, and how busy each device was.

Times are of the devices' queues, observed once: no interval, and no verdict. One that a device
cannot report is unknown, and so is every sum that it belongs to; never 0.

    busy      how long at least one operation or transfer of a device ran; a copy from device to
              device keeps both busy
    share     busy, over the time from the start of the first event to the end of the last one
"""

from __future__ import annotations

from collections import defaultdict
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.model import Trace, TraceEvent

HOST = "host"
TARGET = "cpu"  # of an event in host memory; no name of a map is called so
_ARROW = "->"  # from one name to another; no name of a map holds it
_SORT = attrgetter("name", "device", "kind", "implicit")  # what the events of a row share
_LINE = attrgetter("name", "device", "kind", "implicit", "shape", "line")


class Ran(NamedTuple):
    """Events of one sort at one place; of implicit transfers those of one shape and line.

    Attributes:
        events: How many.
        nbytes: Of what they made or moved, together.
        seconds: Their times together; None where one is unknown.
        name: As the events have it.
        device: A name of the map; cpu for host memory; two names with -> between for a copy from
            one to the other.
        kind: What it is.
        implicit: Whether the program did not request it: an operand was elsewhere.
        shape: Of each, where that is one.
        line: Of the program.
    """

    events: int
    nbytes: int
    seconds: float | None
    name: str
    device: str
    kind: str
    implicit: bool
    shape: tuple[int, ...] = ()
    line: str | None = None


class Busy(NamedTuple):
    """How long a device, or the host, worked.

    Attributes:
        device: Its id; or host.
        names: What the map calls it.
        events: How many it took part in.
        seconds: How long at least one of them ran; None where a time is unknown.
        share: The same over the span; None where that is not known.
    """

    device: str
    names: tuple[str, ...]
    events: int
    seconds: float | None
    share: float | None


class Summary(NamedTuple):
    """What the events of a trace come to.

    Attributes:
        span: From the start of the first event to the end of the last one; None: no event has a
            time.
        untimed: Events without times.
        ran: What ran where, in the order of the first event of each.
        busy: Each device of the map, and the host if it did something.
        implicit: Implicit transfers, the most expensive first.
    """

    span: float | None
    untimed: int
    ran: tuple[Ran, ...]
    busy: tuple[Busy, ...]
    implicit: tuple[Ran, ...]

    @property
    def moved(self) -> int:
        """Return the bytes of all implicit transfers."""
        return sum(each.nbytes for each in self.implicit)


def summary(trace: Trace) -> Summary:
    """Summarise a trace; the time grows with its events, not with their square."""
    timed = [event for event in trace.events if event.start is not None and event.stop is not None]
    span = None
    if timed:
        span = max(e.stop or 0.0 for e in timed) - min(e.start or 0.0 for e in timed)
    moved = (event for event in trace.events if event.implicit and event.kind == "transfer")
    return Summary(
        span,
        len(trace.events) - len(timed),
        tuple(_ran(trace.events, _SORT)),
        tuple(_busy(trace, span)),
        tuple(sorted(_ran(moved, _LINE), key=_cost)),
    )


def _ran(events: Iterable[TraceEvent], shared: attrgetter[Any]) -> Iterator[Ran]:
    """Yield together the events that have the same fields."""
    groups: defaultdict[tuple[Any, ...], list[TraceEvent]] = defaultdict(list)
    for event in events:
        groups[shared(event)].append(event)
    for fields, group in groups.items():
        nbytes = sum(event.nbytes for event in group)
        yield Ran(len(group), nbytes, total(map(_seconds, group)), *fields)


def _busy(trace: Trace, span: float | None) -> Iterator[Busy]:
    """Yield how long each device of the map worked, and the host if it did something."""
    devices = {binding.name: binding.device.id for binding in trace.bindings}
    events: dict[str, list[TraceEvent]] = {device: [] for device in devices.values()}
    for event in trace.events:
        names = [event.device] if event.device in devices else event.device.split(_ARROW)
        for device in dict.fromkeys(HOST if n == TARGET else devices.get(n, n) for n in names):
            events.setdefault(device, []).append(event)
    for device, every in events.items():
        called = tuple(name for name, id_ in devices.items() if id_ == device)
        seconds = total(map(_seconds, every))  # a queue is in order: no two at the same time
        share = None if seconds is None or not span else min(seconds / span, 1.0)
        yield Busy(device, called, len(every), seconds, share)


def _cost(ran: Ran) -> tuple[float, int]:
    """Return what sorts the most expensive first; what is unknown comes last, by its bytes."""
    return (1.0 if ran.seconds is None else -ran.seconds), -ran.nbytes


def _seconds(event: TraceEvent) -> float | None:
    return None if event.start is None or event.stop is None else event.stop - event.start


def total(times: Iterable[float | None]) -> float | None:
    """Return the sum of times; None where one is unknown."""
    every = list(times)
    known = [seconds for seconds in every if seconds is not None]
    return None if len(known) < len(every) else sum(known)

"""What programs did by their contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from gpumap.model.types import Natural, Number, Positive, Share

if TYPE_CHECKING:
    from gpumap.model.devices import Binding


class TraceEvent(
    Struct,
    frozen=True,
    rename={"nbytes": "bytes", "start": "start_s", "stop": "stop_s"},
):
    """What a program did on a device, or moved: seconds since its context was opened.

    A device that cannot tell when its queue came to a place leaves both times None.

    Attributes:
        name: The operation; or upload, download, copy.
        device: A name of the map; cpu for host memory; two names with -> between for a copy from
            one to the other.
        kind: What it is.
        nbytes: Of what it made or moved.
        shape: Of the same.
        implicit: Whether the program did not request it: an operand was elsewhere.
        start: Since the context was opened, when the device's queue came to it; null: the device
            cannot tell.
        stop: The same, of its end.
        line: The line of the program that caused it, as script.py:12; null: not known.
    """

    name: str
    device: str
    kind: Literal["operation", "transfer"]
    nbytes: Natural
    shape: tuple[Natural, ...]
    implicit: bool
    start: Number | None
    stop: Number | None
    line: str | None = None


class Ran(Struct, frozen=True, rename={"nbytes": "bytes", "seconds": "time_s"}):
    """Events of one sort at one place.

    Attributes:
        name: As the events have it.
        device: A name of the map; cpu for host memory; two names with -> between for a copy from
            one to the other.
        kind: What it is.
        implicit: Whether the program did not request it: an operand was elsewhere.
        count: How many events.
        nbytes: Of what they made or moved, together.
        seconds: Their times together; null where one is unknown.
    """

    name: str
    device: str
    kind: Literal["operation", "transfer"]
    implicit: bool
    count: Natural
    nbytes: Natural
    seconds: Positive | None


class Moved(Struct, frozen=True, rename={"nbytes": "bytes", "seconds": "time_s"}):
    """Events together.

    Attributes:
        count: How many events.
        nbytes: Of what they made or moved, together.
        seconds: Their times together; null where one is unknown.
    """

    count: Natural
    nbytes: Natural
    seconds: Positive | None


class Busy(Struct, frozen=True, rename={"seconds": "busy_s"}):
    """How long a device, or the host, worked.

    Attributes:
        device: Its id; or host.
        names: What the map calls it.
        events: How many it took part in.
        seconds: How long at least one of them ran; null where a time is unknown.
        share: The same over span_s; null where that is not known.
    """

    device: str
    names: tuple[str, ...]
    events: Natural
    seconds: Positive | None
    share: Share | None


class TraceSummary(Struct, frozen=True, rename={"span": "span_s"}):
    """What the events of a trace come to.

    Attributes:
        span: From the start of the first event to the end of the last one; null: no event has a
            time.
        overlap: The time in which every device that computed was computing, over that of the one
            which computed least; null for one device, and where a time is unknown.
        untimed: Events without times.
        ran: What ran where, in the order of the first event of each.
        moved: All implicit transfers together.
        busy: Each device of the map, and the host if it did something.
    """

    span: Positive | None
    overlap: Share | None
    untimed: Natural
    ran: tuple[Ran, ...]
    moved: Moved
    busy: tuple[Busy, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """What a program did by one context, in the order of queueing."""

    number: int  # of the context, counted from 1 in the order of opening
    bindings: tuple[Binding, ...]
    policy: str
    opened: float | None  # seconds since the first one was; None: on a clock of its own
    closed: bool  # by the program
    events: tuple[TraceEvent, ...] = ()

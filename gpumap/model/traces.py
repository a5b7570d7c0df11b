"""What programs did by their contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from gpumap.model.types import Natural, Number

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
        implicit: Whether nobody asked for it: an operand was elsewhere.
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


@dataclass(frozen=True, slots=True)
class Trace:
    """What a program did by one context, in the order of queueing."""

    number: int  # of the context, counted from 1 in the order of opening
    bindings: tuple[Binding, ...]
    policy: str
    opened: float | None  # seconds since the first one was; None: on a clock of its own
    closed: bool  # by the program
    events: tuple[TraceEvent, ...] = ()

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
    """

    name: str
    device: str  # a name of the map, "cpu", or "dev0->dev1"
    kind: Literal["operation", "transfer"]
    nbytes: Natural
    shape: tuple[Natural, ...]
    implicit: bool
    start: Number | None
    stop: Number | None
    line: str | None = None  # of the program, that caused it: "script.py:12"; None: not known


@dataclass(frozen=True, slots=True)
class Trace:
    """What a program did by one context, in the order of queueing."""

    number: int  # of the context, counted from 1 in the order of opening
    bindings: tuple[Binding, ...]
    policy: str
    opened: float | None  # seconds since the first one was; None: on a clock of its own
    closed: bool  # by the program
    events: tuple[TraceEvent, ...] = ()

"""What programs did on their devices. The summary is not believed: the events are what it is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.model import Binding, Trace, TraceEvent
from gpumap.model.trees import copied
from gpumap.saved.tree import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.model import Device, shape

_HOST = "cpu"  # the target of what is in host memory


def traces(shapes: Sequence[shape.Trace], devices: Sequence[Device]) -> Iterator[Trace]:
    """Yield the trace of each context.

    Raises:
        Refused: contexts are not counted in order; a device or a name is not there; an event has
            one time and not the other, or ends before it starts.
    """
    for number, found in enumerate(shapes):
        path = f"$.traces[{number}]"
        if number and found.number <= shapes[number - 1].number:
            raise Refused("contexts stand in their order", f"{path}.context")
        bindings = tuple(_bindings(found, devices, path))
        places = {_HOST, *(binding.name for binding in bindings)}
        events = tuple(
            _event(event, places, f"{path}.events[{n}]") for n, event in enumerate(found.events)
        )
        yield copied(Trace, found, bindings=bindings, events=events)


def _bindings(found: shape.Trace, devices: Sequence[Device], path: str) -> Iterator[Binding]:
    known = {(device.id, device.backend): device for device in devices}
    for number, entry in enumerate(found.entries):
        key = entry.device, entry.backend
        if key not in known:
            reason = f'no device of the report is "{entry.device}", driven by {entry.backend}'
            raise Refused(reason, f"{path}.entries[{number}].device")
        yield Binding(entry.name, known[key])


def _event(event: TraceEvent, places: set[str], path: str) -> TraceEvent:
    if not set(event.device.split("->")) <= places:
        raise Refused(f'the map has no name "{event.device}"', f"{path}.device")
    start, stop = event.start, event.stop
    if (start is None) != (stop is None):
        raise Refused("it has one time and not the other", f"{path}.start_s")
    if start is not None and stop is not None and stop < start:
        raise Refused("it ends before it starts", f"{path}.stop_s")
    return event

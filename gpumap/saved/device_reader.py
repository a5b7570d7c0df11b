"""The map, its devices and the state that they were in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumap.errors import Diagnostic, MapError, Span
from gpumap.model import Binding, Device, DeviceRef, Param, Probe, Rank
from gpumap.model.trees import copied
from gpumap.parse import parse_map
from gpumap.saved.tree import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpumap.model import ContextMap, shape


def context_map(shape: shape.Map | None) -> ContextMap | None:
    """Return the map that the text is; its entries must be those that were stored.

    Raises:
        Refused: they are not.
    """
    if shape is None or not shape.entries:
        return None
    stored = [(entry.name, entry.requested) for entry in shape.entries]
    try:
        found = parse_map(shape.text)
    except MapError as error:
        raise Refused(f"it is no map: {error}", "$.map.text") from error
    if [(entry.name, str(entry.ref)) for entry in found.entries] != stored:
        raise Refused("they are not those of the text", "$.map.entries")
    return found


def bindings(shape: shape.Map | None, devices: Mapping[str, Device]) -> tuple[Binding, ...]:
    """Return the names that were found, with their devices.

    Raises:
        Refused: a name's device is not among the report's.
    """
    entries = enumerate(shape.entries) if shape else ()
    return tuple(
        Binding(entry.name, known(entry.device, devices, f"$.map.entries[{n}].device"))
        for n, entry in entries
        if entry.device is not None
    )


def ranks(shapes: Iterable[Any], devices: Mapping[str, Device]) -> Iterator[Rank]:
    """Yield the processes of a job, each with its device.

    Raises:
        Refused: a device is not among the report's, or has no name.
    """
    for n, each in enumerate(shapes):
        if (each.name is None) != (each.device is None):
            raise Refused("a name and its device are known together", f"$.ranks[{n}].device")
        binding = None
        if each.name is not None and each.device is not None:
            binding = Binding(each.name, known(each.device, devices, f"$.ranks[{n}].device"))
        yield copied(Rank, each, binding=binding)


def by_id(devices: Sequence[Device]) -> dict[str, Device]:
    """Return the first device of each id: several libraries may drive one."""
    return {device.id: device for device in reversed(devices)}


def known(id_: str, devices: Mapping[str, Device], path: str) -> Device:
    """Return the device of an id.

    Raises:
        Refused: the report has none.
    """
    if id_ not in devices:
        raise Refused(f'no device of the report is "{id_}"', path)
    return devices[id_]


def device(shape: Any, path: str) -> Device:
    """Return a device that was there.

    Raises:
        Refused: no map can ask for it.
    """
    found = ref(shape.ref, f"{path}.ref")
    if found.kind is not shape.kind:
        raise Refused(f'"{shape.ref}" is not of the kind {shape.kind}', f"{path}.kind")
    hardware, facts = frozenset(shape.hardware), _facts(shape.link)
    return copied(Device, shape, ref=found, hardware=hardware, facts=facts)


def ref(text: str, path: str) -> DeviceRef:
    """Return the device that a map would ask for so.

    Raises:
        Refused: no map would.
    """
    try:
        entries = parse_map(f"device->{text}").entries
    except MapError as error:
        raise Refused(error.diagnostics[0].message, path) from error
    if len(entries) > 1 or str(entries[0].ref) != text:
        raise Refused(f'"{text}" is not how a map writes a device', path)
    return entries[0].ref


def _facts(link: shape.Link | None) -> dict[str, Param]:
    if link is None:
        return {}
    facts: dict[str, Param] = {
        "max_link_generation": link.max_generation,
        "max_link_width": link.max_width,
    }
    return facts if link.width is None else facts | {"link_width": link.width}


def probe(shape: Any, devices: Sequence[Device]) -> Probe:
    """Return a library that was asked, with those of the devices that it drives."""
    own = tuple(device for device in devices if device.backend == shape.name)
    return copied(Probe, shape, devices=own)


def diagnostic(shape: shape.Note) -> Diagnostic:
    """Return what was said to the user."""
    return copied(Diagnostic, shape, span=shape.span and Span(*shape.span))

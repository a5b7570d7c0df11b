"""A report, as it was before it was written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from gpumap import model
from gpumap.errors import Diagnostic, Exit, MapError, Span
from gpumap.judge.exit_status import exit_code, status
from gpumap.model import Binding, Device, DeviceRef, Param, Probe, Rank, shape
from gpumap.model.trees import Refused, copied, typed
from gpumap.parse import parse_map
from gpumap.saved.row_reader import break_evens, fits, known, measurements

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    T = TypeVar("T")
    from collections.abc import Iterable

    from gpumap.model import ContextMap


_AT = re.compile(r"(.*) - at (?:`key` in )?`\$(.*)`", re.DOTALL)  # how msgspec says where
_MEASURING = ("bench", "transfer-cost", "selftest")
_HOST = "cpu"  # the target of what is in host memory
_SHOWN = 120  # characters of what msgspec says: it repeats what is wrong, however long that is


def report(tree: Any) -> model.Report:
    """Return the report that a tree was written from.

    Raises:
        Refused: a key is missing, of another type or outside of its closed list; or what it says
            cannot be what a run has written.
    """
    found = shaped(tree, shape.Report)
    if found.status == "ok" and found.kind in _MEASURING and not found.measurements:
        raise Refused("a run that is ok has measured something", "$.measurements")
    if found.selftest:
        shaped(found.settings, shape.Measuring, "$.settings")
    devices = tuple(_device(d, f"$.devices[{n}]") for n, d in enumerate(found.devices))
    measured = _measured(found, devices)
    _end(found, measured["measurements"], measured["break_evens"])
    return copied(
        model.Report,
        found,
        found.tool,
        found.machine,
        headline=copied(model.Headline, found.headline),
        errors=tuple(model.Problem(diagnostic(error), error.exit) for error in found.errors),
        **_machine(found, devices),
        **measured,
    )


def shaped(tree: Any, type_: type[T], path: str = "$") -> T:
    """Return a tree as what it must be.

    Raises:
        Refused: it is something else.
    """
    try:
        return typed(tree, type_)
    except msgspec.ValidationError as error:
        found = _AT.fullmatch(str(error))
        message, place = (found[1], found[2]) if found else (str(error), "")
        raise Refused(f"{message[:1].lower()}{message[1:_SHOWN]}", path + place) from error
    except UnicodeEncodeError as error:  # a lone surrogate, where a word of a list must stand
        raise Refused("a word holds what is no Unicode", path) from error


def _end(
    found: Any, rows: Sequence[model.Measurement], break_evens: Sequence[model.BreakEven]
) -> None:
    """Refuse a status that code and rows do not lead to, and an exit code that nothing led to."""
    code = Exit(found.exit_code)
    skipped = found.status == "skipped"
    if (code != Exit.OK) if skipped else (found.status != status(code, rows, break_evens)):
        raise Refused(f"with the status {found.status} it is not {code}", "$.exit_code")
    led = exit_code(error.exit for error in found.errors)
    if led != code and not skipped:
        raise Refused(f"the errors lead to {led}, not to {code}", "$.exit_code")


def _machine(found: Any, devices: Sequence[model.Device]) -> dict[str, Any]:
    """Return the map, and what there was."""
    map_, there = found.map, by_id(devices)
    return {
        "source": None if map_ is None else model.MapText(map_.text, map_.source, map_.source_path),
        "map": context_map(map_),
        "bindings": bindings(map_, there),
        "notes": tuple(map(diagnostic, map_.notes if map_ else found.notes)),
        "devices": devices,
        "ranks": tuple(ranks(found.ranks, there)),
        "backends": tuple(probe(backend, devices) for backend in found.backends),
    }


def _measured(found: Any, devices: Sequence[model.Device]) -> dict[str, Any]:
    """Return what was measured, and what follows from it."""
    names = {entry.name for entry in found.map.entries} if found.map else set()
    there = by_id(devices)
    rows: tuple[model.Measurement, ...] = ()
    if found.measurements:
        shaped(found.settings, shape.Measuring, "$.settings")
        rows = measurements(found.measurements, there, names)
    bound = bindings(found.map, there)
    cases = {row.case.id: row.case for row in rows}
    plans = enumerate(found.plans)
    return {
        "measurements": rows,
        "plans": tuple(_plan(plan, cases, f"$.plans[{n}]") for n, plan in plans),
        "fits": tuple(fits(found.fits, rows)),
        "break_evens": tuple(break_evens(found.break_evens, bound)),
        "selftest": _selftest(found.selftest, devices) if found.selftest else None,
        "traces": tuple(_traces(found.traces, devices)),
    }


def _plan(plan: Any, cases: Mapping[str, model.Case], path: str) -> model.Plan:
    for number, id_ in enumerate(plan.cases):
        if id_ not in cases:
            raise Refused(f'no row has the id "{id_}"', f"{path}.cases[{number}]")
    if sum(plan.groups) != len(plan.cases):
        raise Refused(f"they are not of {len(plan.cases)} cases", f"{path}.groups")
    every = iter(plan.cases)
    groups = tuple(
        model.Group(tuple(cases[next(every)] for _ in range(size))) for size in plan.groups
    )
    return copied(model.Plan, plan, groups=groups)


def _selftest(found: shape.SelfTest, devices: Sequence[model.Device]) -> model.SelfTest:
    trips = enumerate(found.round_trips)
    every = (_trip(trip, devices, f"$.selftest.round_trips[{n}]") for n, trip in trips)
    return copied(model.SelfTest, found, round_trips=tuple(every))


def _trip(trip: shape.RoundTrip, devices: Sequence[model.Device], path: str) -> model.RoundTrip:
    if trip.passed != (trip.reason is None):
        raise Refused("what passed has no reason, and what did not has one", f"{path}.passed")
    wanted = (trip.device, trip.backend)
    found = next((device for device in devices if (device.id, device.backend) == wanted), None)
    if found is None:  # of another backend than those of the map
        written = ref(trip.ref, f"{path}.ref")
        found = model.Device(trip.device, written.kind, written, "", trip.backend)
    return model.RoundTrip(found, trip.name, trip.reason)


def _traces(shapes: Sequence[Any], devices: Sequence[model.Device]) -> Iterator[model.Trace]:
    """Yield the trace of each context; not its summary, which is computed from the events."""
    for number, found in enumerate(shapes):
        path = f"$.traces[{number}]"
        if number and found.number <= shapes[number - 1].number:
            raise Refused("contexts stand in their order", f"{path}.context")
        bindings = tuple(_names(found, devices, path))
        names = {_HOST, *(binding.name for binding in bindings)}
        for n, event in enumerate(found.events):
            _refuse_event(event, names, f"{path}.events[{n}]")
        yield copied(model.Trace, found, bindings=bindings)


def _names(found: Any, devices: Sequence[model.Device], path: str) -> Iterator[model.Binding]:
    known = {(device.id, device.backend): device for device in devices}
    for number, entry in enumerate(found.entries):
        key = entry.device, entry.backend
        if key not in known:
            reason = f'no device of the report is "{entry.device}", driven by {entry.backend}'
            raise Refused(reason, f"{path}.entries[{number}].device")
        yield model.Binding(entry.name, known[key])


def _refuse_event(event: model.TraceEvent, names: set[str], path: str) -> None:
    if not set(event.device.split("->")) <= names:
        raise Refused(f'the map has no name "{event.device}"', f"{path}.device")
    start, stop = event.start, event.stop
    if (start is None) != (stop is None):
        raise Refused("it has one time and not the other", f"{path}.start_s")
    if start is not None and stop is not None and stop < start:
        raise Refused("it ends before it starts", f"{path}.stop_s")


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


def _device(shape: Any, path: str) -> Device:
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

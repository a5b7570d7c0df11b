"""Which device each name of a map really is, or why it is none: all names resolve, or none do."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from gpumap.errors import AbsentError, Diagnostic, QuestionError, Span
from gpumap.inventory import Inventory, of_kind
from gpumap.kinds import KINDS, Kind
from gpumap.model import Binding, ContextMap, Device, DeviceRef, Entry, Probe, Resolution, replace
from gpumap.remedies import hiding, other_build, remedy
from gpumap.text import listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from gpumap.backends.base import Host
    from gpumap.machine.topology import Topology

_listed = partial(listed, most=8)  # devices named in one message
_DEFAULT_CORES = 2


def resolve(context_map: ContextMap, inventory: Inventory) -> Resolution:
    """Find the device of every name.

    Raises:
        AbsentError: at least one name has no device; one diagnostic for each such entry.
        QuestionError: the backend that was requested does not drive a kind in the map.
    """
    bindings: list[Binding] = []
    problems: list[Diagnostic] = []
    for number, entry in enumerate(context_map.entries, 1):
        probes = inventory.of(entry.ref.kind)
        if not probes and inventory.requested is not None:
            raise _wrong_backend(entry, number, inventory)
        device = _find(entry.ref, of_kind(entry.ref.kind, *probes))
        if device is not None:
            bindings.append(Binding(entry.name, device))
        else:
            lost = _absent(entry, number, probes, inventory.host)
            problems.append(replace(lost, span=_device_of(entry, context_map.text)))
    if problems:
        raise AbsentError(tuple(problems))
    found = tuple(bindings)
    return Resolution(context_map, found, tuple(_notes(found, inventory)))


def resolve_all(
    context_map: ContextMap, inventory: Inventory, requested: Sequence[str] = ()
) -> list[Resolution]:
    """Find the devices of every name once for each usable backend that drives one of its kinds.

    `requested`: the backends, in their order; empty: all that drive the kinds by default.

    Raises:
        AbsentError: as `resolve`, where no backend is usable.
        QuestionError: a backend that is requested does not exist.
    """
    kinds = {entry.ref.kind for entry in context_map.entries}
    names = requested or [name for kind in sorted(kinds) for name in kind.row.backends]
    names = list(dict.fromkeys(names))
    driven = {
        name: {k for k in kinds if name in k.row.backends or _may(inventory, name, k, requested)}
        for name in names
    }
    usable = [name for name in names if _drives(inventory.probe(name), driven[name])]
    if not usable and not requested:
        return [resolve(context_map, inventory)]  # raises, with the reason of each
    found: dict[tuple[str, ...], Resolution] = {}
    absent: dict[str, AbsentError] = {}
    for name in usable or names[:1]:
        inventory.prefer(name, driven[name])
        try:
            resolution = resolve(context_map, inventory)
        except AbsentError as error:  # another one may have as many devices
            absent[name] = error
        else:
            found[tuple(b.device.backend for b in resolution.bindings)] = resolution
    if not found:
        raise next(iter(absent.values()))
    lacking = (_lacking(name, error) for name, error in absent.items())
    notes = (*_left_out(driven, inventory), *lacking, *_other_hardware(list(found.values())))
    return [replace(each, notes=(*each.notes, *notes)) for each in found.values()]


def _lacking(name: str, error: AbsentError) -> Diagnostic:
    """Return which names a backend has no device for; the others are measured."""
    texts = "; ".join(each.message for each in error.diagnostics)
    hint = next((each.hint for each in error.diagnostics if each.hint), None)
    return Diagnostic("left-out", f"{name} is left out: {texts}", hint=hint, severity="warning")


def _may(inventory: Inventory, name: str, kind: Kind, requested: Collection[str]) -> bool:
    """Return whether a backend drives a kind because it was requested by name."""
    return name in requested and kind in inventory.backend(name).kinds


def _drives(probe: Probe, kinds: Collection[Kind]) -> bool:
    """Return whether a backend has a device of every kind that it is to drive, and of one."""
    return bool(kinds) and all(of_kind(kind, probe) for kind in kinds)


def _left_out(driven: Mapping[str, Collection[Kind]], inventory: Inventory) -> Iterable[Diagnostic]:
    """Yield why a backend is not among those that are measured side by side."""
    for name, kinds in driven.items():
        probe = inventory.probe(name)
        if not _drives(probe, kinds):
            notes = "; ".join(note for kind in sorted(kinds) for note in _about(kind, probe))
            message = f"{name} is left out: {probe.reason or notes or 'not usable'}"
            yield Diagnostic("left-out", message, hint=probe.fix, severity="note")


def _other_hardware(resolutions: Sequence[Resolution]) -> Iterable[Diagnostic]:
    """Yield each name under which backends drive different hardware, by its identity."""
    for bindings in zip(*(each.bindings for each in resolutions), strict=True):
        devices = [binding.device for binding in bindings]
        if len({device.hardware for device in devices}) > 1:
            backends = _listed([device.backend for device in devices])
            each = "; ".join(f"{d.backend}: {_listed(sorted(d.hardware))}" for d in devices)
            message = f"{bindings[0].name} is not the same hardware under {backends}: {each}"
            hint = "write what all of them know: cuda@PCI-ID, or cpu for all cores"
            yield Diagnostic("other-hardware", message, hint=hint, severity="warning")


def default_map(inventory: Inventory, *, hurry: bool = True) -> ContextMap:
    """Return the map of who gave none.

    `hurry`: no backend was requested, so that none is waited for long.

    Every CUDA device; else every device of the other kinds that are accelerators; else every
    OpenCL GPU; else one name for each physical core, at most two; and where a backend was requested
    that drives no cores, every whole device that it has. Never a driver that simulates a device.

    Raises:
        AbsentError: the backend that was requested has no device.
    """
    if hurry:
        inventory.hurry()
    refs: list[DeviceRef] = []
    for turn in sorted({row.default for row in KINDS.values()}):
        kinds = [kind for kind, row in KINDS.items() if row.default == turn]
        refs = refs or [ref for kind in kinds for ref in _by_default(kind, inventory)]
    refs = refs or [d.ref for k in KINDS for d in _hardware(k, inventory) if d.ref.part is None]
    if not refs:
        raise _nothing(inventory.probes[0])
    entries = tuple(Entry(f"dev{n}", ref) for n, ref in enumerate(refs))
    return ContextMap(entries, ";".join(map(str, entries)))


def _by_default(kind: Kind, inventory: Inventory) -> list[DeviceRef]:
    """Return the devices of a kind that a default map has, if it has some of that kind."""
    if kind.row.cores:
        return _apart(of_kind(kind, *inventory.of(kind)))[:_DEFAULT_CORES]
    if kind.row.accelerators:
        return [device.ref for device in of_kind(kind, *inventory.of(kind))]
    return [device.ref for device in _hardware(kind, inventory) if device.accelerator]


def _apart(devices: Iterable[Device]) -> list[DeviceRef]:
    """Return those that share nothing: two threads share a core, each of JAX's has all cores."""
    taken: set[str] = set()
    found = []
    for device in devices:
        if taken.isdisjoint(device.hardware):
            taken |= device.hardware
            found.append(device.ref)
    return found


def _hardware(kind: Kind, inventory: Inventory) -> list[Device]:
    """Return the devices that are no simulators, unless a script was requested."""
    found = of_kind(kind, *inventory.of(kind))
    return [device for device in found if device.backend == "fake" or not device.simulated]


def _nothing(probe: Probe) -> AbsentError:
    """Return why there is no default map."""
    none = "it has no device" if not probe.devices else "simulators are never a default: map one"
    return AbsentError(f"{probe.name}: {probe.reason or none}", probe.fix)


def _find(ref: DeviceRef, devices: Iterable[Device]) -> Device | None:
    """Return the device of its kind that is meant; of accelerators without an index the first."""
    if ref.identity is not None:
        return next((d for d in devices if ref.identity in (d.pci, d.uuid)), None)
    whichever = ref.index is None and ref.kind.row.accelerators
    return next((d for d in devices if whichever or d.ref == ref), None)


def _wrong_backend(entry: Entry, number: int, inventory: Inventory) -> QuestionError:
    name = inventory.requested or ""
    drives = ", ".join(sorted(inventory.backend(name).kinds))
    message = f"the backend {name} drives {drives}; {entry} requests another kind"
    hint = "omit --backend, or map this name to a device that it drives"
    wrong = Diagnostic("wrong-backend", message, number, entry.span, hint, name=entry.name)
    return QuestionError((wrong,))


def _device_of(entry: Entry, text: str) -> Span:
    """Return the span of an entry's device in the text of its map."""
    start, stop = entry.span.start, entry.span.stop
    name, arrow, ref = text[start:stop].rpartition("->")
    return Span(start + len(name + arrow) + len(ref) - len(ref.lstrip()), stop)


def _absent(entry: Entry, number: int, probes: Sequence[Probe], host: Host) -> Diagnostic:
    """Return that a device is not there, and what to write instead."""
    kind = entry.ref.kind
    found = of_kind(kind, *probes)
    hidden = hiding(kind, probes, host.env)
    if found:
        notes = [note for probe in probes for note in _about(kind, probe)] + hidden
        allowed, online = len(host.topology.cpus), host.topology.online
        if found[0].backend == "numpy" and allowed != online:  # the others have no number then
            notes.append(f"this process may run on {allowed} of {online} processors")
        known = "; ".join(notes)
        message = f"{entry.ref} is not there" + (f": {known}" if known else "")
        hint: str | None = _there(entry.ref, found)
    else:
        reasons = "; ".join([*_reasons(kind, probes), *hidden])
        message = f"no backend can drive {entry.ref}: {reasons or 'gpumap has none for it'}"
        hint = remedy(kind, probes, host.root)
    text = f"{entry.name}: {message}"
    return Diagnostic("absent", text, number, entry.span, hint, name=entry.name)


def _reasons(kind: Kind, probes: Sequence[Probe]) -> list[str]:
    """Return why no backend drives a kind: of a machine without such a GPU that alone."""
    from gpumap.machine.cuda import NO_GPU

    every = [f"{probe.name}: {_why_not(kind, probe)}" for probe in probes]
    return [text for text in every if NO_GPU.reason in text] or every


def _why_not(kind: Kind, probe: Probe) -> str:
    if not probe.usable:
        return probe.reason or "unusable"
    said = "; ".join(_about(kind, probe))
    return said or other_build(kind, probe) or f"it finds no {kind} device"


def _about(kind: Kind, probe: Probe) -> list[str]:
    """Return what a probe noted of a kind: such a note begins with it, or with CUDA_..."""
    return [note.removeprefix(f"{kind}: ") for note in probe.notes if note.lower().startswith(kind)]


def _there(ref: DeviceRef, found: Sequence[Device]) -> str:
    """Return what could have been requested."""
    if ref.identity is not None:
        known = [i for d in found for i in (d.pci, d.uuid) if i is not None]
    else:
        parts = ref.part is not None and any(d.ref.part is not None for d in found)
        known = [_word(d.ref) for d in found if (d.ref.part is not None) == parts]
    return f"write one that is there: {_listed(known)}" if known else "none here is called so"


def _word(ref: DeviceRef) -> str:
    return "cpu (all cores)" if ref.kind.row.cores and ref.index is None else str(ref)


def _notes(bindings: tuple[Binding, ...], inventory: Inventory) -> Iterable[Diagnostic]:
    if any(binding.device.kind is Kind.OPENCL for binding in bindings):
        yield from inventory.host.notes
    yield from _silent(inventory.probes)
    yield from warn_of_shared(bindings)
    yield from _quota(bindings, inventory.host.topology)
    yield from _unpinned(bindings, inventory.host.topology)
    yield from _unused(bindings, inventory)


def _silent(probes: Iterable[Probe]) -> Iterable[Diagnostic]:
    """Yield who was asked, and did not answer: its devices may be what the map should have."""
    for probe in probes:
        if probe.code is not None:
            message = f"cannot tell whether {probe.name} has devices: {probe.reason}"
            yield Diagnostic("silent", message, hint=probe.fix, severity="warning")


def shared_hardware(bindings: Iterable[Binding]) -> Mapping[tuple[str, ...], list[str]]:
    """Return each group of names that share hardware, with the hardware that they share."""
    holders: defaultdict[str, list[str]] = defaultdict(list)
    for binding in bindings:
        for element in sorted(binding.device.hardware):
            holders[element].append(binding.name)
    groups: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for element, names in holders.items():
        if len(names) > 1:
            groups[tuple(names)].append(element)
    return groups


def warn_of_shared(bindings: tuple[Binding, ...]) -> Iterable[Diagnostic]:
    """Yield a warning for each group of names that are of one piece of hardware."""
    for names, hardware in shared_hardware(bindings).items():
        who, what = _listed(names), _listed(hardware)
        message = f"{who} share hardware ({what}): they cannot be faster than one alone"
        hint = "give each name a device of its own, or expect no speed-up"
        yield Diagnostic("shared-hardware", message, hint=hint, severity="warning")


def _quota(bindings: tuple[Binding, ...], topology: Topology) -> Iterable[Diagnostic]:
    cores = {c for b in bindings if b.device.kind.row.cores for c in b.device.hardware}
    if topology.quota is not None and topology.quota < len(cores):
        message = (
            f"a cgroup quota of {topology.quota:g} cores is below the {len(cores)} that the map "
            "uses: they share it"
        )
        hint = "raise the quota (docker --cpus, resources.limits.cpu), or map fewer cores"
        yield Diagnostic("quota", message, hint=hint, severity="warning")


def _unpinned(bindings: tuple[Binding, ...], topology: Topology) -> Iterable[Diagnostic]:
    if not topology.pinnable and any(b.device.kind.row.cores for b in bindings):
        message = "this system cannot bind a thread to a core: cpu names may share one"
        yield Diagnostic("not-pinned", message, hint="Linux can", severity="note")


def _unused(bindings: tuple[Binding, ...], inventory: Inventory) -> Iterable[Diagnostic]:
    """Yield one note for the devices of the map's own kinds that no name touches."""
    used = {element for b in bindings for element in b.device.hardware}
    kinds = {b.device.kind for b in bindings}
    idle = [
        str(d.ref)
        for probe in inventory.probes
        for d in probe.devices
        if d.kind in kinds and d.ref.part is None and used.isdisjoint(d.hardware)
    ]
    if idle:
        message = f"the map leaves unused: {_listed(list(dict.fromkeys(idle)))}"
        yield Diagnostic("unused", message, hint="add a name for each, if wished", severity="note")

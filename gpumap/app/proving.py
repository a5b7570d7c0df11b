"""The proof that devices are true: each is opened, and moves bytes there and back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpumap.backends.roundtrip import round_trip
from gpumap.errors import GpumapError
from gpumap.escape import printable
from gpumap.model import Reason, RoundTrip

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.app.recording import Recording
    from gpumap.errors import Diagnostic
    from gpumap.model import Device, Entry, Resolution
    from gpumap.resolve import Inventory


def prove_map(
    record: Recording, resolution: Resolution, inventory: Inventory
) -> Iterator[RoundTrip]:
    """Prove each device of a map once; the record says which names' devices fail."""
    seen: set[str] = set()
    places = zip(resolution.bindings, resolution.map.entries, strict=True)
    for number, (binding, entry) in enumerate(places, 1):
        if binding.device.id in seen:
            continue
        seen.add(binding.device.id)
        record.doing = f"opening {printable(entry.name)} ({binding.device.ref})"
        error = _failure(binding.device, inventory)
        record.doing = ""
        if error is not None:
            for diagnostic in error.diagnostics:
                record.refuse(_placed(diagnostic, entry, number), error.exit_code)
        yield RoundTrip(binding.device, entry.name, _reason(error))


def prove_others(
    record: Recording, inventory: Inventory, names: Iterable[str]
) -> Iterator[RoundTrip]:
    """Prove one device of each of these backends that can be used at all."""
    for name in names:
        probe = inventory.probe(name)
        if not probe.usable or not probe.devices:
            continue
        device = probe.devices[0]
        record.doing = f"opening {device.ref} ({name})"
        error = _failure(device, inventory)
        record.doing = ""
        if error is not None:
            for diagnostic in error.diagnostics:
                message = f"{name}: {diagnostic.message}"
                record.refuse(replace(diagnostic, message=message), error.exit_code)
        yield RoundTrip(device, None, _reason(error))


def _failure(device: Device, inventory: Inventory) -> GpumapError | None:
    """Return what is wrong with a device, if anything is."""
    try:
        backend = inventory.backend(device.backend)
        with inventory.open(device, backend.clock()) as session:
            round_trip(session)
    except GpumapError as error:
        return error
    return None


def _reason(error: GpumapError | None) -> Reason | None:
    return None if error is None else Reason(error.diagnostics[0].code, str(error))


def _placed(diagnostic: Diagnostic, entry: Entry, number: int) -> Diagnostic:
    """Return what is wrong with a device at the place in the map that asked for it."""
    message = f"{printable(entry.name)}: {diagnostic.message}"
    return replace(diagnostic, message=message, entry=number, span=entry.span, name=entry.name)

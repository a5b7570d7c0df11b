"""A map as text: each name with its device, and devices as rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units
from gpumap.report.parts import Section, Text
from gpumap.report.table import RIGHT
from gpumap.units import ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.model import Binding, Device

DEVICE_COLUMNS = (
    "device", "name", "identity", "memory", "free", "units", "node", "cores", "driver",
)  # fmt: skip
ON_THE_RIGHT = frozenset((*RIGHT, "memory", "free", "units", "node"))


def sections(bindings: Iterable[Binding]) -> Iterator[Section]:
    """Yield a line for each name with its device."""
    if lines := tuple(map(mapped_line, bindings)):
        yield Section("map", (Text(lines, "Map", "ok"),))


def mapped_line(binding: Binding) -> str:
    """Return Theano's line for a name, of the device as resolved; no blank where no id is."""
    device = binding.device
    identity = device.pci or device.uuid
    ref, name = str(device.ref), device.name
    line = f"Mapped name {binding.name} to device {ref}: {name}"
    if identity:
        line += f" ({identity})"
    return f"{line} (simulated)" if device.simulated else line


def device_row(device: Device) -> tuple[str, ...]:
    """Return the texts of DEVICE_COLUMNS; a dash for a missing one."""
    identity = " ".join(i for i in (device.pci, device.uuid) if i)
    return (
        str(device.ref),
        device.name,
        identity or "-",
        units.memory(device.memory_total),
        units.memory(device.memory_free),
        "-" if device.units is None else str(device.units),
        *place(device),
        device.driver or "-",
    )


def place(device: Device) -> tuple[str, str]:
    """Return the NUMA node and the cores of a device."""
    node = "-" if device.numa_node is None else str(device.numa_node)
    return node, ranges(device.cores) or "-"

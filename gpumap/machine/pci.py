"""The display and accelerator devices on the PCI bus, and how their addresses are written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap.machine.tree import number

if TYPE_CHECKING:
    from gpumap.machine.tree import Tree

CLASSES = frozenset({0x03, 0x12})  # display controllers, processing accelerators

_FOLDER = "sys/bus/pci/devices"
_HEX = "[0-9a-f]"
_ADDRESS = re.compile(f"(?:({_HEX}{{1,8}}):)?({_HEX}{{1,2}}):({_HEX}{{1,2}})\\.([0-7])")


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One device. Speeds are in transfers per second and lane, widths in lanes."""

    address: str  # dddd:bb:dd.f, lower case
    vendor: int | None
    device: int | None
    class_code: int
    numa_node: int | None
    local_cpus: tuple[int, ...]
    link_speed: float | None
    link_width: int | None
    max_link_speed: float | None
    max_link_width: int | None


def devices(tree: Tree) -> tuple[PciDevice, ...]:
    """Return the display and accelerator devices, in the order of their addresses."""
    found = (_device(tree, name) for name in tree.names(_FOLDER))
    return tuple(sorted(filter(None, found), key=lambda d: (len(d.address), d.address)))


def address(text: str) -> str | None:
    """Return a PCI address as dddd:bb:dd.f in lower case; None for what is not one.

    NVML writes eight digits of domain, CUDA capitals, people none at all: `0000:09:00.0` is
    also `00000000:09:00.0` and `09:00.0`.
    """
    match = _ADDRESS.fullmatch(text.strip().lower())
    if match is None:
        return None
    domain, bus, slot = (int(digits or "0", 16) for digits in match.groups()[:3])
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{match[4]}"


def _device(tree: Tree, name: str) -> PciDevice | None:
    folder, place = f"{_FOLDER}/{name}", address(name)
    code = tree.number(f"{folder}/class", 16)
    if place is None or code is None or code >> 16 not in CLASSES:
        return None
    return PciDevice(
        address=place,
        vendor=tree.number(f"{folder}/vendor", 16),
        device=tree.number(f"{folder}/device", 16),
        class_code=code,
        numa_node=tree.natural(f"{folder}/numa_node"),
        local_cpus=tree.cpus(f"{folder}/local_cpulist"),
        link_speed=_speed(tree.text(f"{folder}/current_link_speed")),
        link_width=_width(tree.text(f"{folder}/current_link_width")),
        max_link_speed=_speed(tree.text(f"{folder}/max_link_speed")),
        max_link_width=_width(tree.text(f"{folder}/max_link_width")),
    )


def _speed(text: str | None) -> float | None:
    """Return "16.0 GT/s PCIe" as 16e9; "Unknown" is None."""
    match = re.match(r"([0-9]{1,4}(?:\.[0-9]{1,4})?) GT/s", text or "")
    return float(match[1]) * 1e9 if match else None


def _width(text: str | None) -> int | None:
    lanes = number(text)
    return lanes if lanes is not None and 0 < lanes <= 32 else None  # noqa: PLR2004  255: unknown

"""What the system tells of the links between the host and its devices, at this moment.

An idle link slows down: ask right after it was used. Nothing is asked of a driver.

Sources of whether an IOMMU translates addresses: the kernel's ABI/testing/sysfs-kernel-iommu_groups
(the type of a group's domain, since 5.11) and admin-guide/kernel-parameters (iommu=, intel_iommu=,
amd_iommu=).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpumap.machine import topology
from gpumap.machine.tree import Tree, number, pci_address
from gpumap.model import LinkState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.machine.topology import Topology
    from gpumap.model import Device

_FOLDER = "sys/bus/pci/devices"
_PROCESSOR = 36  # field 39 of /proc/self/stat, counted from the state, which is the third
_GROUPS = "sys/kernel/iommu_groups"
_CLASS = "sys/class"
_TYPES = {"DMA": True, "DMA-FQ": True, "identity": False}
_OPTION = re.compile(r"(?:iommu(?:\.passthrough)?|(?:intel|amd)_iommu)=[A-Za-z0-9_,.]{1,40}")
_THROUGH = ("pt", "passthrough", "off")
_HYPERVISOR = re.compile(r"^flags\s*:.*\bhypervisor\b", re.MULTILINE)
_LANES = 32  # the most there are; 255 stands for unknown


def link_states(devices: Iterable[Device], root: Path = Path("/")) -> dict[str, LinkState]:
    """Return the state of each device's link, by the device's id.

    A scripted device is no part of this machine, whatever its PCI address: nothing is known of it.
    """
    here = None
    found = {}
    for device in devices:
        if device.backend == "fake":
            found[device.id] = LinkState(translated_by="a scripted device has no link")
            continue
        here = here or topology.read(root)
        found[device.id] = _state(device, here, Tree(root))
    return found


def bridges(tree: Tree, address: str) -> tuple[str, ...] | None:
    """Return the bridges above a PCI device, the root's port first; None where that is not told."""
    try:
        path = (tree.root / _FOLDER / address).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # RuntimeError: links in a circle, to Python 3.12
        return None
    *above, last = [part for part in path.parts if pci_address(part) == part] or [""]
    return tuple(above) if last == address and "devices" not in path.parts[-2:] else None


def _state(device: Device, here: Topology, tree: Tree) -> LinkState:
    address = pci_address(device.pci or "")
    place = next((one for one in here.pci if one.address == address), None)
    above = None if address is None else bridges(tree, address)
    through, by = translated(tree, address)
    node = place.numa_node if place else None
    nodes = {cpu.index: cpu.numa_node for cpu in here.cpus}
    # lanes in use do not fall when a link idles, so a driver's word will do
    width = place.link_width if place and place.link_width else _whole(device, "link_width")
    return LinkState(
        node=device.numa_node if node is None else node,
        nodes=tuple(sorted({node for node in nodes.values() if node is not None})),
        core_node=nodes.get(_core(tree)),
        bridges=above,
        width=width,
        max_width=place.max_link_width if place else _whole(device, "max_link_width"),
        speed=place.link_speed if place else None,
        max_speed=place.max_link_speed if place else None,
        narrow=next(_narrower(tree, above or (), width), None),
        translated=through,
        translated_by=by,
    )


def _whole(device: Device, fact: str) -> int | None:
    value = device.facts.get(fact)
    return value if isinstance(value, int) else None


def _core(tree: Tree) -> int:
    """Return the processor that this process's first thread ran on last; -1 where none tells."""
    fields = (tree.text("proc/self/stat") or "").rpartition(")")[2].split()
    found = number(fields[_PROCESSOR]) if len(fields) > _PROCESSOR else None
    return -1 if found is None else found


def _narrower(tree: Tree, above: Iterable[str], width: int | None) -> Iterator[tuple[str, int]]:
    """Yield the bridges whose own link has fewer lanes than the device's."""
    for address in above:
        lanes = tree.natural(f"{_FOLDER}/{address}/current_link_width")
        if lanes and width and lanes < min(width, _LANES):
            yield address, lanes


def translated(tree: Tree, address: str | None) -> tuple[bool | None, str]:
    """Return whether a device's addresses are translated, and how that is known, or why not."""
    group = None if address is None else _group(tree, address)
    type_ = None if group is None else tree.text(f"{_GROUPS}/{group}/type")
    if type_ in _TYPES:
        return _TYPES[type_], f"its IOMMU group is of type {type_}"
    if "iommu" not in tree.names(_CLASS):
        return None, "the system does not tell"
    if not tree.names(f"{_CLASS}/iommu"):
        if _HYPERVISOR.search(tree.text("proc/cpuinfo") or ""):
            return None, "a virtual machine does not see its host's"
        return False, "the system uses none"
    return _by_options(tree)


def options(tree: Tree) -> tuple[str, ...]:
    """Return the kernel's options about the IOMMU; of the others of its command line none."""
    words = (tree.text("proc/cmdline") or "").split()
    return tuple(word for word in words if _OPTION.fullmatch(word))


def _group(tree: Tree, address: str) -> str | None:
    groups = (name for name in tree.names(_GROUPS) if name.isdecimal())
    return next((g for g in groups if address in tree.names(f"{_GROUPS}/{g}/devices")), None)


def _by_options(tree: Tree) -> tuple[bool | None, str]:
    """Return what follows from the kernel's options, where no group tells."""
    given = options(tree)
    if not given:
        return None, "the system has one, and does not tell what it does for this device"
    through = any(
        word in option.partition("=")[2].split(",") for option in given for word in _THROUGH
    )
    return not (through or "iommu.passthrough=1" in given), f"kernel option {' '.join(given)}"

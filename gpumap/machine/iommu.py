"""Whether an IOMMU translates the addresses that a PCI device copies from and to.

Sources: the Linux kernel's ABI/testing/sysfs-kernel-iommu_groups (the type of a group's domain,
since 5.11) and admin-guide/kernel-parameters (iommu=, intel_iommu=, amd_iommu=).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpumap.machine.tree import Tree

_GROUPS = "sys/kernel/iommu_groups"
_CLASS = "sys/class"
_TYPES = {"DMA": True, "DMA-FQ": True, "identity": False}
_OPTION = re.compile(r"(?:iommu(?:\.passthrough)?|(?:intel|amd)_iommu)=[A-Za-z0-9_,.]{1,40}")
_THROUGH = ("pt", "passthrough", "off")
_HYPERVISOR = re.compile(r"^flags\s*:.*\bhypervisor\b", re.MULTILINE)


def translated(tree: Tree, address: str | None) -> tuple[bool | None, str]:
    """Return whether a device's addresses are translated, and how that is known, or why not."""
    group = None if address is None else _group(tree, address)
    type_ = None if group is None else tree.text(f"{_GROUPS}/{group}/type")
    if type_ in _TYPES:
        return _TYPES[type_], f"its IOMMU group is of type {type_}"
    if "iommu" not in tree.names(_CLASS):
        return None, "the system does not tell"
    if not tree.names(f"{_CLASS}/iommu"):
        return _without(tree)
    return _by_options(tree)


def options(tree: Tree) -> tuple[str, ...]:
    """Return the kernel's options about the IOMMU; of the others of its command line none."""
    words = (tree.text("proc/cmdline") or "").split()
    return tuple(word for word in words if _OPTION.fullmatch(word))


def _group(tree: Tree, address: str) -> str | None:
    groups = (name for name in tree.names(_GROUPS) if name.isdecimal())
    return next((g for g in groups if address in tree.names(f"{_GROUPS}/{g}/devices")), None)


def _without(tree: Tree) -> tuple[bool | None, str]:
    if _HYPERVISOR.search(tree.text("proc/cpuinfo") or ""):
        return None, "a virtual machine does not see its host's"
    return False, "the system uses none"


def _by_options(tree: Tree) -> tuple[bool | None, str]:
    """Return what follows from the kernel's options, where no group tells."""
    given = options(tree)
    if not given:
        return None, "the system has one, and does not tell what it does for this device"
    through = any(word in _values(option) for option in given for word in _THROUGH)
    return not (through or "iommu.passthrough=1" in given), f"kernel option {' '.join(given)}"


def _values(option: str) -> list[str]:
    return option.partition("=")[2].split(",")

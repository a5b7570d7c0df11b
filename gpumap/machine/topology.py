"""What the system says about its processors, its memory and its PCI devices.

Everything is read through a root folder, so that the captured tree of a large machine can replace
the machine. Missing and broken files cost knowledge, never a traceback.

A process is bound by its own control group and by every group above it. Inside a container the path
in `/proc/self/cgroup` may not exist below `/sys/fs/cgroup`, because the container's group itself is
mounted there; so the mount is always looked at too.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


CPUS_MAX = 65536  # a list that names more is not about processors
FILE_MAX = 16 * 2**20  # the largest real one, /proc/cpuinfo of 2048 processors, has 4 MiB

_RANGE = re.compile(r"\s*([0-9]{1,20})(?:-([0-9]{1,20}))?\s*", re.ASCII)


class Tree(NamedTuple):
    """Files below a root folder; what is missing or does not parse is None or empty, no error."""

    root: Path

    def text(self, path: str) -> str | None:
        """Return the text of a file, without the white space around it."""
        try:
            with (self.root / path).open("rb") as file:
                return file.read(FILE_MAX).decode(errors="replace").strip()
        except (OSError, ValueError):  # ValueError: a path with a NUL, out of a broken file
            return None

    def number(self, path: str, base: int = 10, within: range | None = None) -> int | None:
        """Return the whole number that is all of a file; one `within` a range, where one is given.

        The kernel writes -1, or all ones, for "unknown".
        """
        value = number(self.text(path), base)
        return value if value is None or within is None or value in within else None

    def cpus(self, path: str) -> tuple[int, ...]:
        """Return the processors that a file lists."""
        return cpu_list(self.text(path) or "")

    def allowed(self) -> tuple[int, ...] | None:
        """Return the processors that this process may use; None where the system does not tell."""
        key = "Cpus_allowed_list:"
        lines = (self.text("proc/self/status") or "").splitlines()
        return next((cpu_list(line[len(key) :]) for line in lines if line.startswith(key)), None)

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder."""
        try:
            return tuple(sorted(entry.name for entry in (self.root / path).iterdir()))
        except (OSError, ValueError):
            return ()


def number(text: str | None, base: int = 10) -> int | None:
    """Return the whole number that `text` is, else None."""
    try:
        return int(text or "", base)
    except ValueError:
        return None


def cpu_list(text: str) -> tuple[int, ...]:
    """Return the ascending processor numbers of a kernel list; parts that do not parse are dropped.

    cpus  = range { "," range }
    range = number [ "-" number ]
    """
    cpus: list[int] = []
    found = filter(None, map(_RANGE.fullmatch, text.split(",")))
    ranges = ((int(m[1]), min(int(m[2] or m[1]), CPUS_MAX - 1)) for m in found)
    for first, last in sorted(ranges):
        # Starting behind what is there keeps a list of overlapping ranges linear in its result.
        cpus.extend(range(max(first, cpus[-1] + 1 if cpus else 0), last + 1))
    return tuple(cpus)


CLASSES = frozenset({0x03, 0x12})  # display controllers, processing accelerators

_FOLDER = "sys/bus/pci/devices"
# WSL's and Tegra's; and a loaded driver's, in a sandbox that hides the bus: of all, and by vendor.
_OFF_THE_BUS = ("dev/dxg",)
_DRIVERS = {0x10DE: ("dev/nvmap", "dev/nvidiactl", "proc/driver/nvidia"), 0x1002: ("dev/kfd",)}
_NODES, _LANES = range(1 << 31), range(1, 33)
_HEX = "[0-9a-f]"
_ADDRESS = re.compile(f"(?:({_HEX}{{1,8}}):)?({_HEX}{{1,2}}):({_HEX}{{1,2}})\\.([0-7])")


class PciDevice(NamedTuple):
    """One device; widths are in lanes."""

    address: str  # dddd:bb:dd.f, lower case
    vendor: int | None
    numa_node: int | None
    local_cpus: tuple[int, ...]
    link_width: int | None
    max_link_width: int | None


def pci_devices(tree: Tree) -> tuple[PciDevice, ...]:
    """Return the display and accelerator devices, in the order of their addresses."""
    found = (_device(tree, name) for name in tree.names(_FOLDER))
    return tuple(sorted(filter(None, found), key=lambda d: (len(d.address), d.address)))


def no_gpu(tree: Tree, vendor: int) -> bool:
    """Return whether the PCI bus shows that a vendor has no GPU here; not what is off that bus."""
    files = (*_OFF_THE_BUS, *_DRIVERS.get(vendor, ()))
    if not tree.names(_FOLDER) or any((tree.root / name).exists() for name in files):
        return False
    return not has_gpu(tree, vendor)


def has_gpu(tree: Tree, vendor: int) -> bool:
    """Return whether the PCI bus shows a GPU of a vendor."""
    return any(device.vendor == vendor for device in pci_devices(tree))


def pci_address(text: str) -> str | None:
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
    folder, place = f"{_FOLDER}/{name}", pci_address(name)
    code = tree.number(f"{folder}/class", 16)
    if place is None or code is None or code >> 16 not in CLASSES:
        return None
    return PciDevice(
        address=place,
        vendor=tree.number(f"{folder}/vendor", 16),
        numa_node=tree.number(f"{folder}/numa_node", within=_NODES),
        local_cpus=tree.cpus(f"{folder}/local_cpulist"),
        link_width=tree.number(f"{folder}/current_link_width", within=_LANES),
        max_link_width=tree.number(f"{folder}/max_link_width", within=_LANES),
    )


_MOUNT = "sys/fs/cgroup"
_UNIFIED = (_MOUNT, f"{_MOUNT}/unified")  # the second in systemd's hybrid layout
_CPU = "sys/devices/system/cpu"
_NODE = "sys/devices/system/node"


def model(tree: Tree) -> str | None:
    """Return the name of the processor, where the system tells: on x86."""
    fields = (line.partition(":") for line in (tree.text("proc/cpuinfo") or "").splitlines())
    names = (value.strip() for key, _, value in fields if key.strip() == "model name")
    return next(filter(None, names), None)


def quota(tree: Tree) -> float | None:
    """Return the smallest processor quota that binds this process, in cores; None: no quota."""
    new = (_ratio(tree.text(f"{folder}/cpu.max")) for folder in _folders(tree, ""))
    folders = (f"{folder}/cpu.cfs" for folder in _folders(tree, "cpu"))
    old = (_ratio(f"{tree.text(f'{f}_quota_us')} {tree.text(f'{f}_period_us')}") for f in folders)
    return min((q for q in (*new, *old) if q is not None), default=None)


def memory_limits(tree: Tree) -> tuple[tuple[int, int], ...]:
    """Return every memory limit that binds this process in bytes, and what is left of each."""
    new = (_limit(tree, folder, "max", "current", "") for folder in _folders(tree, ""))
    old = (
        _limit(tree, folder, "limit_in_bytes", "usage_in_bytes", "total_")
        for folder in _folders(tree, "memory")
    )
    return tuple(limit for limit in (*new, *old) if limit is not None)


def _folders(tree: Tree, controller: str) -> Iterator[str]:
    """Yield the folder of this process's group and those of all groups above it.

    The controller "" is cgroup v2; a name is that controller's own hierarchy in v1.
    """
    lines = (tree.text("proc/self/cgroup") or "").splitlines()
    fields = (line.split(":", 2) for line in lines)  # number:controllers:path
    every = [f[1:] for f in fields if len(f) == 3 and controller in f[1].split(",")]  # noqa: PLR2004
    for controllers, path in every or [[controller, "/"]]:
        parts = [part for part in path.split("/") if part]
        if ".." in parts:  # a group outside of this namespace: not below the mount
            parts = []
        found = (f"{_MOUNT}/{controllers}", f"{_MOUNT}/{controller}") if controller else _UNIFIED
        for mount in dict.fromkeys(found):
            yield from ("/".join((mount, *parts[:depth])) for depth in range(len(parts), -1, -1))


def _ratio(text: str | None) -> float | None:
    """Return "150000 100000" as 1.5; "max", -1 and everything else mean no quota."""
    quota, _, period = (text or "").partition(" ")
    time, of = number(quota), number(period)
    return time / of if time and of and 0 < time < 2**63 and 0 < of < 2**63 else None


def _limit(tree: Tree, folder: str, most: str, usage: str, prefix: str) -> tuple[int, int] | None:
    limit = tree.number(f"{folder}/memory.{most}")
    if limit is None or limit <= 0:
        return None
    used = tree.number(f"{folder}/memory.{usage}") or 0
    # Cold page cache counts as used but goes at the first need, as MemAvailable knows too.
    rows = (line.split() for line in (tree.text(f"{folder}/memory.stat") or "").splitlines())
    key = f"{prefix}inactive_file"
    cold = next((number(row[1]) or 0 for row in rows if len(row) > 1 and row[0] == key), 0)
    return limit, max(0, limit - max(0, used - cold))


@dataclass(frozen=True, slots=True)
class Cpu:
    """One logical processor."""

    index: int
    siblings: tuple[int, ...]  # the logical processors of its core, with itself
    numa_node: int | None

    @property
    def hardware(self) -> str:
        """The core that it is a thread of: equal for SMT siblings."""
        return f"core:{min(self.siblings)}"


class Topology(NamedTuple):
    """The processors that this process may run on, and what is around them."""

    cpus: tuple[Cpu, ...]  # in index order
    online: int  # all logical processors, also those of others
    quota: float | None  # in cores
    model: str
    memory_total: int
    memory_available: int
    pci: tuple[PciDevice, ...] = ()
    pinnable: bool = True

    @property
    def physical(self) -> tuple[Cpu, ...]:
        """The first processor of each physical core."""
        first: dict[str, Cpu] = {}
        for cpu in self.cpus:
            first.setdefault(cpu.hardware, cpu)
        return tuple(first.values())


def read(root: Path = Path("/")) -> Topology:
    """Return the topology of the machine whose files are below `root`."""
    tree = Tree(root)
    nodes, (total, available) = _nodes(tree), _memory(tree)
    return Topology(
        cpus=tuple(_cpu(tree, index, nodes.get(index)) for index in allowed(tree)),
        online=len(_online(tree)),
        quota=quota(tree),
        model=model(tree) or os.uname().machine or "unknown",
        memory_total=total,
        memory_available=available,
        pci=pci_devices(tree),
        pinnable=hasattr(os, "sched_setaffinity"),
    )


def allowed(tree: Tree) -> tuple[int, ...]:
    """Return the processors that this process may run on, in ascending order."""
    affinity = getattr(os, "sched_getaffinity", None)
    if tree.root == Path("/") and affinity is not None:
        # By process, not 0: a worker that is pinned itself would see its own core alone.
        return tuple(sorted(affinity(os.getpid())))
    return tree.allowed() or _online(tree)


def _online(tree: Tree) -> tuple[int, ...]:
    return tree.cpus(f"{_CPU}/online") or tree.allowed() or tuple(range(os.cpu_count() or 1))


def _nodes(tree: Tree) -> dict[int, int]:
    """Return the NUMA node of each processor; nodes of memory alone have none."""
    numbers = (number(name.removeprefix("node")) for name in tree.names(_NODE))
    nodes = (node for node in numbers if node is not None)
    return {cpu: node for node in nodes for cpu in tree.cpus(f"{_NODE}/node{node}/cpulist")}


def _cpu(tree: Tree, index: int, node: int | None) -> Cpu:
    folder = f"{_CPU}/cpu{index}/topology"
    # Linux 5.3 renamed the file; the old name is still there on most systems.
    siblings = tree.cpus(f"{folder}/core_cpus_list") or tree.cpus(f"{folder}/thread_siblings_list")
    return Cpu(index=index, siblings=tuple(sorted({index, *siblings})), numa_node=node)


def _memory(tree: Tree) -> tuple[int, int]:
    """Return the total and the available bytes, lowered by the limits on this process."""
    total, available = _meminfo(tree) or (0, 0)
    if not total:
        import psutil

        memory = psutil.virtual_memory()
        total, available = int(memory.total), int(memory.available)
    for limit, free in memory_limits(tree):
        total, available = min(total, limit), min(available, free)
    return total, available


def _meminfo(tree: Tree) -> tuple[int, int] | None:
    rows = (line.split() for line in (tree.text("proc/meminfo") or "").splitlines())
    sizes = {row[0]: number(row[1]) for row in rows if len(row) > 1}
    total = sizes.get("MemTotal:")
    if not total or total < 0:
        return None
    available = sizes.get("MemAvailable:") or sizes.get("MemFree:") or 0
    return total * 1024, max(0, available) * 1024

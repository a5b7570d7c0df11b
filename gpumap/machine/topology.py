"""What the system says about its processors, its memory and its accelerators.

Everything is read through a root folder, so that the captured tree of a large machine can replace
the machine. Missing and broken files cost knowledge, never a traceback.

What the control groups of this process leave it: a share of the processors, and of memory.

A process is bound by its own group and by every group above it. Inside a container the path in
`/proc/self/cgroup` may not exist below `/sys/fs/cgroup`, because the container's group itself is
mounted there; so the mount is always looked at too.

What `/proc/cpuinfo` says, which differs with every architecture.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpumap.machine.tree import CPUS_MAX, PciDevice, Tree, number, pci_devices

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


# 64-bit Arm names no model. Part numbers of servers: util-linux, sys-utils/lscpu-arm.c.
_ARM_PARTS = {
    ("0x41", "0xd08"): "Arm Cortex-A72",
    ("0x41", "0xd0c"): "Arm Neoverse-N1",
    ("0x41", "0xd40"): "Arm Neoverse-V1",
    ("0x41", "0xd49"): "Arm Neoverse-N2",
    ("0x41", "0xd4f"): "Arm Neoverse-V2",
    ("0xc0", "0xac3"): "Ampere-1",
}
PATH_MAX = 4096  # the kernel's own limit: a longer path is no path
_MOUNT = "sys/fs/cgroup"
_UNIFIED = (_MOUNT, f"{_MOUNT}/unified")  # the second in systemd's hybrid layout
_CPU = "sys/devices/system/cpu"
_NODE = "sys/devices/system/node"


def model(tree: Tree) -> str | None:
    """Return the name of the processor, as far as the system tells."""
    fields: dict[str, str] = {}
    for record in records(tree):
        fields = {**record, **fields}  # the first that says something is right
    named = (fields.get(key) for key in ("model name", "cpu", "cpu model", "Model", "Hardware"))
    return next(filter(None, named), None) or _arm(fields)


def processors(tree: Tree) -> tuple[int, ...]:
    """Return the numbers of all processors that are listed."""
    return tuple(sorted({index for index, _ in _numbered(tree)}))


def flags(tree: Tree) -> frozenset[str]:
    """Return what the first processor can do, in the kernel's words (x86)."""
    for record in records(tree):
        return frozenset(record.get("flags", "").split())
    return frozenset()


def largest_cache(tree: Tree) -> int | None:
    """Return the bytes of the first processor's largest cache, its last level; None: not known."""
    folder = f"{_CPU}/cpu0/cache"
    texts = [tree.text(f"{folder}/{name}/size") or "" for name in tree.names(folder)]
    return max((number(text.removesuffix("K")) or 0 for text in texts), default=0) * 1024 or None


def clocks(tree: Tree) -> dict[int, float]:
    """Return the clock of each processor that has one, in hertz."""
    rates = ((index, _megahertz(record)) for index, record in _numbered(tree))
    return {index: rate for index, rate in rates if rate is not None}


def records(tree: Tree) -> Iterator[Mapping[str, str]]:
    """Yield the keys and values of each block; blocks are parted by blank lines."""
    block: dict[str, str] = {}
    for line in (*(tree.text("proc/cpuinfo") or "").splitlines(), ""):
        key, _, value = line.partition(":")
        if key.strip():
            block.setdefault(key.strip(), value.strip())
        elif block:
            yield block
            block = {}


def _numbered(tree: Tree) -> Iterator[tuple[int, Mapping[str, str]]]:
    for record in records(tree):
        index = number(record.get("processor"))
        if index is not None and 0 <= index < CPUS_MAX:
            yield index, record


def _megahertz(record: Mapping[str, str]) -> float | None:
    try:
        rate = float(record.get("cpu MHz", "")) * 1e6
    except ValueError:
        return None
    return rate if 0 < rate < float("inf") else None


def _arm(fields: Mapping[str, str]) -> str | None:
    maker, part = fields.get("CPU implementer"), fields.get("CPU part")
    if not (maker and part):
        return None
    return _ARM_PARTS.get((maker, part), f"Arm implementer {maker} part {part}")


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """The most that one group may use, and how much of it is in use and cannot be reclaimed."""

    limit: int
    used: int

    @property
    def free(self) -> int:
        """What is left."""
        return max(0, self.limit - self.used)


def quota(tree: Tree) -> float | None:
    """Return the smallest processor quota that binds this process, in cores; None: no quota."""
    new = (_ratio(tree.text(f"{folder}/cpu.max")) for folder in _folders(tree, ""))
    folders = (f"{folder}/cpu.cfs" for folder in _folders(tree, "cpu"))
    old = (_ratio(f"{tree.text(f'{f}_quota_us')} {tree.text(f'{f}_period_us')}") for f in folders)
    return min((q for q in (*new, *old) if q is not None), default=None)


def memory_limits(tree: Tree) -> tuple[MemoryLimit, ...]:
    """Return every memory limit that binds this process."""
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
    for controllers, path in _memberships(tree, controller):
        parts = [part for part in path.split("/") if part]
        if ".." in parts:  # a group outside of this namespace: not below the mount
            parts = []
        for mount in _mounts(controllers, controller):
            yield from ("/".join((mount, *parts[:depth])) for depth in range(len(parts), -1, -1))


def _mounts(controllers: str, controller: str) -> tuple[str, ...]:
    if not controller:
        return _UNIFIED
    together, alone = f"{_MOUNT}/{controllers}", f"{_MOUNT}/{controller}"
    return (alone,) if together == alone else (together, alone)


def _memberships(tree: Tree, controller: str) -> tuple[tuple[str, str], ...]:
    """Return the controllers and the path of each line that is about `controller`."""
    lines = (tree.text("proc/self/cgroup") or "").splitlines()
    fields = (line.split(":", 2) for line in lines if len(line) <= PATH_MAX)
    found = ((f[1], f[2]) for f in fields if len(f) == 3)  # noqa: PLR2004  number:controllers:path
    return tuple(f for f in found if controller in f[0].split(",")) or ((controller, "/"),)


def _ratio(text: str | None) -> float | None:
    """Return "150000 100000" as 1.5; "max", -1 and everything else mean no quota."""
    quota, _, period = (text or "").partition(" ")
    time, of = number(quota), number(period)
    return time / of if time and of and 0 < time < 2**63 and 0 < of < 2**63 else None


def _limit(tree: Tree, folder: str, most: str, usage: str, prefix: str) -> MemoryLimit | None:
    limit = tree.number(f"{folder}/memory.{most}")
    if limit is None or limit <= 0:
        return None
    used = tree.number(f"{folder}/memory.{usage}") or 0
    # Cold page cache counts as used but goes at the first need, as MemAvailable knows too.
    rows = (line.split() for line in (tree.text(f"{folder}/memory.stat") or "").splitlines())
    key = f"{prefix}inactive_file"
    cold = next((number(row[1]) or 0 for row in rows if len(row) > 1 and row[0] == key), 0)
    return MemoryLimit(limit, max(0, used - cold))


@dataclass(frozen=True, slots=True)
class Cpu:
    """One logical processor."""

    index: int
    package: int | None
    core: int | None
    siblings: tuple[int, ...]  # the logical processors of its core, with itself
    numa_node: int | None

    @property
    def hardware(self) -> str:
        """The core that it is a thread of: equal for SMT siblings."""
        return f"core:{min(self.siblings)}"


@dataclass(frozen=True, slots=True)
class Topology:
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
    total, available = _memory(tree)
    return Topology(
        cpus=_cpus(tree),
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
    if tree.live and affinity is not None:
        # By process, not 0: a worker that is pinned itself would see its own core alone.
        return tuple(sorted(affinity(os.getpid())))
    online, listed = set(_online(tree)), tree.allowed("Cpus") or ()
    # A mask may hold processors that are off; one without any that is on was not captured here.
    return tuple(cpu for cpu in listed if cpu in online) or listed or tuple(sorted(online))


def _online(tree: Tree) -> tuple[int, ...]:
    return (
        tree.cpus(f"{_CPU}/online")
        or processors(tree)
        or tree.allowed("Cpus")
        or tuple(range(os.cpu_count() or 1))
    )


def _cpus(tree: Tree) -> tuple[Cpu, ...]:
    nodes = _nodes(tree)
    return tuple(_cpu(tree, index, nodes.get(index)) for index in allowed(tree))


def _nodes(tree: Tree) -> dict[int, int]:
    """Return the NUMA node of each processor; nodes of memory alone have none."""
    numbers = (
        number(name.removeprefix("node")) for name in tree.names(_NODE) if name[:4] == "node"
    )
    return {
        cpu: node
        for node in numbers
        if node is not None
        for cpu in tree.cpus(f"{_NODE}/node{node}/cpulist")
    }


def _cpu(tree: Tree, index: int, node: int | None) -> Cpu:
    folder = f"{_CPU}/cpu{index}/topology"
    # Linux 5.3 renamed the file; the old name is still there on most systems.
    siblings = tree.cpus(f"{folder}/core_cpus_list") or tree.cpus(f"{folder}/thread_siblings_list")
    return Cpu(
        index=index,
        package=tree.natural(f"{folder}/physical_package_id"),
        core=tree.natural(f"{folder}/core_id"),
        siblings=tuple(sorted({index, *siblings})),
        numa_node=node,
    )


def _memory(tree: Tree) -> tuple[int, int]:
    """Return the total and the available bytes, lowered by the limits on this process."""
    total, available = _meminfo(tree) or _virtual_memory()
    for limit in memory_limits(tree):
        total, available = min(total, limit.limit), min(available, limit.free)
    return total, available


def _meminfo(tree: Tree) -> tuple[int, int] | None:
    rows = (line.split() for line in (tree.text("proc/meminfo") or "").splitlines())
    sizes = {row[0]: number(row[1]) for row in rows if len(row) > 1}
    total = sizes.get("MemTotal:")
    if not total or total < 0:
        return None
    available = sizes.get("MemAvailable:") or sizes.get("MemFree:") or 0
    return total * 1024, max(0, available) * 1024


def _virtual_memory() -> tuple[int, int]:
    import psutil

    memory = psutil.virtual_memory()
    return int(memory.total), int(memory.available)

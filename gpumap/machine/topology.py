"""What the system says about its processors, its memory and its accelerators.

Everything is read through a root folder, so that the captured tree of a large machine stands in
for the machine. Missing and broken files cost knowledge, never a traceback.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gpumap.machine import cgroup, cpuinfo, pci
from gpumap.machine.pci import PciDevice
from gpumap.machine.tree import Tree, cpu_list, number

_CPU = "sys/devices/system/cpu"
_NODE = "sys/devices/system/node"


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
        quota=cgroup.quota(tree),
        model=cpuinfo.model(tree) or _machine(),
        memory_total=total,
        memory_available=available,
        pci=pci.devices(tree),
        pinnable=hasattr(os, "sched_setaffinity"),
    )


def allowed(tree: Tree) -> tuple[int, ...]:
    """Return the processors that this process may run on, in ascending order."""
    affinity = getattr(os, "sched_getaffinity", None)
    if tree.live and affinity is not None:
        # By process, not 0: a worker that is pinned itself would see its own core alone.
        return tuple(sorted(affinity(os.getpid())))
    online, listed = set(_online(tree)), _listed(tree)
    # A mask may hold processors that are off; one without any that is on was not captured here.
    return tuple(cpu for cpu in listed if cpu in online) or listed or tuple(sorted(online))


def _online(tree: Tree) -> tuple[int, ...]:
    return (
        tree.cpus(f"{_CPU}/online")
        or cpuinfo.processors(tree)
        or _listed(tree)
        or tuple(range(os.cpu_count() or 1))
    )


def _listed(tree: Tree) -> tuple[int, ...]:
    lines = (tree.text("proc/self/status") or "").splitlines()
    key = "Cpus_allowed_list:"
    return next((cpu_list(line.removeprefix(key)) for line in lines if line.startswith(key)), ())


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


def _machine() -> str:
    import platform

    return platform.machine() or "unknown"


def _memory(tree: Tree) -> tuple[int, int]:
    """Return the total and the available bytes, lowered by the limits on this process."""
    total, available = _meminfo(tree) or _virtual_memory()
    for limit in cgroup.memory_limits(tree):
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

"""What the control groups of this process leave it: a share of the processors, and of memory.

A process is bound by its own group and by every group above it. Inside a container the path in
`/proc/self/cgroup` may not exist below `/sys/fs/cgroup`, because the container's group itself is
mounted there; so the mount is always looked at too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap.machine.tree import number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.machine.tree import Tree

PATH_MAX = 4096  # the kernel's own limit: a longer path is no path

_MOUNT = "sys/fs/cgroup"
_UNIFIED = (_MOUNT, f"{_MOUNT}/unified")  # the second in systemd's hybrid layout


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
    old = (_ratio(_periods(tree, folder)) for folder in _folders(tree, "cpu"))
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


def _periods(tree: Tree, folder: str) -> str:
    quota = tree.text(f"{folder}/cpu.cfs_quota_us")
    return f"{quota} {tree.text(f'{folder}/cpu.cfs_period_us')}"


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
    cold = _stat(tree.text(f"{folder}/memory.stat") or "", f"{prefix}inactive_file")
    return MemoryLimit(limit, max(0, used - cold))


def _stat(text: str, key: str) -> int:
    rows = (line.split() for line in text.splitlines())
    return next((number(row[1]) or 0 for row in rows if len(row) > 1 and row[0] == key), 0)

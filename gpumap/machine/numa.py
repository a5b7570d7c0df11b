"""The memory of NUMA nodes: which have some, and how a process takes that of one alone."""

from __future__ import annotations

import os
import platform
import re
from typing import TYPE_CHECKING

from gpumap.machine.tree import cpu_list

if TYPE_CHECKING:
    from gpumap.machine.tree import Tree

_NODES = "sys/devices/system/node"
_CALLS = {"x86_64": 238, "aarch64": 237, "riscv64": 237, "ppc64le": 261, "s390x": 270}
_BIND = 2  # MPOL_BIND: of these nodes, or none at all
_WORD = 64
_MOST = 1024  # nodes that a kernel can have
_POLICY = re.compile(r"[0-9a-f]+ ([a-z]+)(?:[=a-z|]*):([0-9,-]+)")


def with_memory(tree: Tree) -> tuple[int, ...]:
    """Return the nodes whose memory this process may take; none where the system has no nodes."""
    nodes = tree.cpus(f"{_NODES}/has_memory") or tree.cpus(f"{_NODES}/has_normal_memory")
    lines = (tree.text("proc/self/status") or "").splitlines()
    key = "Mems_allowed_list:"
    listed = next((cpu_list(x.removeprefix(key)) for x in lines if x.startswith(key)), None)
    return nodes if listed is None else tuple(node for node in nodes if node in listed)


def take_memory_of(node: int) -> int:
    """Let this thread, and what it starts, take memory of one node alone; return an errno, or 0.

    The kernel keeps the rule across exec. Containers often forbid the call.
    """
    import ctypes
    import errno

    call = _CALLS.get(platform.machine())
    if call is None or not 0 <= node < _MOST:
        return errno.ENOSYS
    library = ctypes.CDLL(None, use_errno=True)
    mask = (ctypes.c_ulong * (_MOST // _WORD))()
    mask[node // _WORD] = 1 << (node % _WORD)
    done = library.syscall(call, _BIND, mask, _MOST + 1)
    return 0 if done == 0 else ctypes.get_errno()


def memory_taken_of(process: int) -> tuple[int, ...] | None:
    """Return the nodes that a process takes memory of alone, () for any; None: nobody knows."""
    try:
        with open(f"/proc/{process}/numa_maps", "rb") as file:  # noqa: PTH123 - pathlib is slow
            line = os.fsdecode(file.readline())
    except OSError:
        return None
    match = _POLICY.match(line)
    if match is None:
        return () if line else None  # the process has ended
    return cpu_list(match[2]) if match[1] == "bind" else ()

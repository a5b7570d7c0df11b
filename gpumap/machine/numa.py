"""The memory of NUMA nodes: which have some, and how a process takes that of one alone.

Memory of this process: whether there is more, and large pages for memory that is not written yet.

Which processors the calling thread may run on.
"""

from __future__ import annotations

import mmap
import os
import platform
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from gpumap.machine.tree import cpu_list

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumap.machine.tree import Tree

_LARGE = 4 << 20  # bytes, from which on it is worth a call; NumPy asks from there on, too
_NODES = "sys/devices/system/node"
_CALLS = {"x86_64": 238, "aarch64": 237, "riscv64": 237, "ppc64le": 261, "s390x": 270}
_BIND = 2  # MPOL_BIND: of these nodes, or none at all
_WORD = 64
_MOST = 1024  # nodes that a kernel can have
_POLICY = re.compile(r"[0-9a-f]+ ([a-z]+)(?:[=a-z|]*):([0-9,-]+)")


def pin(cpus: Iterable[int]) -> bool:
    """Bind the calling thread, and no other, to exactly these processors; say whether it worked.

    Where the system cannot pin (macOS) or refuses, the thread stays as it was.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    if affinity is None:
        return False
    wanted, before = set(cpus), affinity(0)
    try:
        os.sched_setaffinity(0, wanted)
    except (OSError, OverflowError, ValueError):
        return False
    if affinity(0) == wanted:
        return True
    # The kernel drops processors that are not allowed without a word, and keeps the rest.
    os.sched_setaffinity(0, before)
    return False


def unbind() -> None:
    """Let this process run wherever its cpuset allows: a launcher may have bound it to one core."""
    if hasattr(os, "sched_setaffinity"):
        with suppress(OSError):  # it stays as it was
            os.sched_setaffinity(0, range(os.cpu_count() or 1))


def ask_for_large(address: int, nbytes: int) -> bool:
    """Ask for large pages of memory of this process; return whether the kernel took it well.

    Only whole pages are asked for: the first and the last one may be shared with other memory.
    """
    wish = getattr(mmap, "MADV_HUGEPAGE", None)  # Linux alone
    if wish is None or not worth_asking(nbytes):
        return False
    import ctypes

    start = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    stop = (address + nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    done: int = madvise(start, stop - start, wish)
    return done == 0


def room_for(nbytes: int) -> bool:
    """Return whether this process could have so much more memory, as far as its limits tell."""
    try:
        mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, OverflowError):
        return False
    return True


def worth_asking(nbytes: int) -> bool:
    """Return whether so much memory is worth large pages."""
    return nbytes >= _LARGE


def with_memory(tree: Tree) -> tuple[int, ...]:
    """Return the nodes whose memory this process may take; none where the system has no nodes."""
    nodes = tree.cpus(f"{_NODES}/has_memory") or tree.cpus(f"{_NODES}/has_normal_memory")
    listed = tree.allowed("Mems")
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
    """Return the nodes that a process takes memory of alone, () for any; None: not known."""
    try:
        with open(f"/proc/{process}/numa_maps", "rb") as file:  # noqa: PTH123 - pathlib is slow
            line = os.fsdecode(file.readline())
    except OSError:
        return None
    match = _POLICY.match(line)
    if match is None:
        return () if line else None  # the process has ended
    return cpu_list(match[2]) if match[1] == "bind" else ()

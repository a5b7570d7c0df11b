"""Which processors the calling thread may run on."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


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

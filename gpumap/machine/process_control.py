"""What a process asks of the kernel: cores, room in memory, its orphans."""

from __future__ import annotations

import mmap
import os
import signal
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator


def pin(cpus: Iterable[int]) -> set[int]:
    """Bind the calling thread, and no other, to exactly these processors.

    Return where it could run before. Where the system cannot pin (macOS) or refuses, the thread
    stays as it was, and there are none.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    if affinity is None:
        return set()
    wanted, before = set(cpus), set[int](affinity(0))
    try:
        os.sched_setaffinity(0, wanted)
    except (OSError, OverflowError, ValueError):
        return set()
    if affinity(0) == wanted:
        return before
    # The kernel drops processors that are not allowed without a word, and keeps the rest.
    os.sched_setaffinity(0, before)
    return set()


def unbind() -> None:
    """Let this process run wherever its cpuset allows: a launcher may have bound it to one core."""
    if hasattr(os, "sched_setaffinity"):
        with suppress(OSError):  # it stays as it was
            os.sched_setaffinity(0, range(os.cpu_count() or 1))


def room_for(nbytes: int) -> bool:
    """Return whether this process could have so much more memory, as far as its limits tell."""
    try:
        mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, OverflowError):
        return False
    return True


PARENT_DEATH = 1  # PR_SET_PDEATHSIG
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_PATIENCE = 2.0  # seconds in which the kernel ends what it was told to
STUCK = 0.2  # seconds after which it does not end what is stuck in a call of its own
_PAUSE = 0.002
_lock = threading.Lock()
_adopting = 0  # how many have requested it


def prctl() -> Callable[[int, int], int] | None:
    """Return the system's call of that name; None where there is none: not Linux."""
    import ctypes

    found: Callable[[int, int], int] | None = getattr(ctypes.CDLL(None), "prctl", None)
    return found


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Get a signal when the parent ends; Linux alone can."""
    if call := prctl():
        call(PARENT_DEATH, number)


@contextmanager
def caught(numbers: Iterable[int]) -> Iterator[int]:
    """Yield a pipe with the number of each signal that comes, whatever the main thread does.

    The default action of `numbers` does not take place; what else has a handler is in it, too.
    """
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    try:
        yield reading
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        os.close(reading)
        os.close(writing)


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """Be the parent of what one's descendants leave behind; Linux alone can.

    Of those that want it, the last one ends it.
    """
    _count(1)
    try:
        yield
    finally:
        _count(-1)


def keep_orphans() -> None:
    """Be the parent of orphans to the end of this process, which calls `kill_orphans` then."""
    _count(1)


def kill_orphans() -> None:
    """Kill what is left of all that was started, by a driver for example, if orphans came here."""
    if _adopting:
        kill_children()


def _count(change: int) -> None:
    global _adopting
    with _lock:
        _adopting += change
        if _adopting == max(0, change) and (call := prctl()):  # the first one, or none is left
            call(SUBREAPER, _adopting)


def kill_children(mark: bytes = b"", spared: Collection[int] = ()) -> None:
    """Kill the children whose first environment has `mark`, and what they leave behind.

    Those in `spared` are left alone; one that no signal ends is not waited for.
    """
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < _PATIENCE:
        found = children(mark).difference(spared)
        if not found or (passed > STUCK and all(map(stuck, found))):
            return
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)  # no one else has its number until it is reaped
        time.sleep(_PAUSE)
        for pid in found:
            with suppress(OSError):
                os.waitpid(pid, os.WNOHANG)


def stuck(pid: int) -> bool:
    """Return whether a thread of a process is in a call of the kernel that no signal ends."""
    with suppress(OSError):
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - as below
        stats = (read(f"/proc/{pid}/task/{thread}/stat") for thread in threads)
        return any(stat.rpartition(b") ")[2][:1] == b"D" for stat in stats)
    return False


def children(mark: bytes = b"") -> set[int]:
    """Return the children of this process that live; none where the kernel does not list them.

    Of those with a first environment that has `mark` alone.
    """
    found = set()
    with suppress(OSError):
        for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 - pathlib is slow
            for pid in read(f"/proc/self/task/{thread}/children").split():
                if mark in read(f"/proc/{int(pid)}/environ"):
                    found.add(int(pid))
    return found


def stat_fields(process: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; none of a process that is gone."""
    return read(f"/proc/{process}/stat").rpartition(b")")[2].decode().split()


def read(path: str) -> bytes:
    """Return the content of a file; nothing where there is none, or no permission."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - as above
            return file.readall()
    except OSError:  # it has ended, or is another user's
        return b""

"""What a run has left: every process that carries its token, or descends from it.

A process that makes a session of its own, and is orphaned, keeps its first environment and thereby
the token. One that drops its environment too is still a descendant of the launcher, which adopts
orphans while it lives.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING

from gpumap.launch.child import TOKEN, reap

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_PAUSE = 0.02
_PATIENCE = 10.0  # seconds in which the kernel ends what it was told to
_LETTING_GO = 1.0  # seconds: it has nothing left to do, but may be stopped
_KEY = f"{TOKEN}=".encode()


class Remains:
    """The processes of the run with a token, but for its own ones."""

    def __init__(self, token: str, root: int | None, own: Collection[int] = ()) -> None:
        """Look for carriers of `token`, and descendants of `root`; never for those in `own`.

        Nor for what `root` was the parent of before.
        """
        self._token = token.encode()
        self._root = root
        self._own = {os.getpid(), *own}
        if root is not None:
            self._own |= set(_below(root, dict(_parents()), self._own))

    def find(self) -> list[int]:
        """Return the processes that live."""
        parents = dict(_parents())
        below = set(_below(self._root, parents, self._own)) if self._root is not None else set()
        return [
            pid
            for pid in parents
            if pid not in self._own and (pid in below or _carries(pid, self._token))
        ]

    def signal(self, number: int) -> bool:
        """Send a signal to all; return whether there was any."""
        found = self.find()
        for pid in found:
            self._send(pid, number)
        return bool(found)

    def _send(self, pid: int, number: int) -> None:
        """Signal a process, and no other that has its number by now."""
        with suppress(OSError):
            if not hasattr(os, "pidfd_open"):
                os.kill(pid, number)
                return
            handle = os.pidfd_open(pid)
            try:
                if pid in self._again(pid):
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)

    def _again(self, pid: int) -> Collection[int]:
        """Return those among which `pid` is if it is still one of them."""
        if _carries(pid, self._token):
            return (pid,)
        parents = dict(_parents())
        return set(_below(self._root, parents, self._own)) if self._root is not None else ()


class Keeper:
    """A process that ends all others of a run when the launcher dies without having done so."""

    def __init__(self, token: str) -> None:
        reading, self._pipe = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                os.close(self._pipe)
                _keep(reading, token)
            finally:
                os._exit(0)
        os.close(reading)

    def end(self) -> None:
        """Let it go: everything has ended."""
        with suppress(OSError):
            os.write(self._pipe, b".")
        os.close(self._pipe)
        reap(self.pid, _LETTING_GO)


def _keep(reading: int, token: str) -> None:
    """Be the keeper: wait for the launcher's word, or for its end."""
    os.setsid()  # Ctrl-C is for the launcher
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # who reads the launcher's output sees its end
        os.dup2(null, stream)
    select.select([reading], [], [])
    if os.read(reading, 1):
        return
    remains = Remains(token, None)
    until = time.monotonic() + _PATIENCE
    quiet = 0
    while quiet < 2 and time.monotonic() < until:  # noqa: PLR2004 - one may have just forked
        quiet = 0 if remains.signal(signal.SIGKILL) else quiet + 1
        time.sleep(_PAUSE)


def _carries(pid: int, token: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - pathlib is slow
            text = file.read()
    except OSError:  # it has ended, or is another user's
        return False
    if token not in text:
        return False
    return any(
        token in line.removeprefix(_KEY).split(b":")
        for line in text.split(b"\0")
        if line.startswith(_KEY)
    )


def _parents() -> Iterator[tuple[int, int]]:
    """Yield each process that lives, with its parent."""
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - pathlib is slow
    except OSError:
        return
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - pathlib is slow
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if len(fields) > 1 and fields[0] not in (b"Z", b"X"):
            yield int(name), int(fields[1])


def _below(root: int, parents: dict[int, int], but: Iterable[int]) -> Iterator[int]:
    """Yield the descendants of a process, without those of the ones in `but`."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for pid, parent in parents.items():
        children[parent].append(pid)
    without = set(but) - {root}
    waiting = [pid for pid in children[root] if pid not in without]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += [child for child in children[pid] if child not in without]

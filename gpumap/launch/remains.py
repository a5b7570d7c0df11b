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

import psutil

from gpumap.launch.child import TOKEN, reap

if TYPE_CHECKING:
    from collections.abc import Collection

_PAUSE = 0.02
_PATIENCE = 10.0  # seconds in which the kernel ends what it was told to
_LETTING_GO = 1.0  # seconds: it has nothing left to do, but may be stopped


class Remains:
    """The processes of the run with a token, but for its own ones."""

    def __init__(self, token: str, root: int | None, own: Collection[int] = ()) -> None:
        """Look for carriers of `token`, and descendants of `root`; never for those in `own`.

        Nor for what `root` was the parent of before.
        """
        self._token = token
        self._root = root
        self._own = {os.getpid(), *own}
        self._own |= self._below()

    def find(self) -> list[int]:
        """Return the processes that live."""
        return [process.pid for process in self._every()]

    def signal(self, number: int) -> bool:
        """Send a signal to all; return whether there was any."""
        found = self._every()
        for process in found:
            with suppress(psutil.Error, OSError):
                process.send_signal(number)  # to no other that has its number by now
        return bool(found)

    def _every(self) -> list[psutil.Process]:
        below = self._below()
        others = (p for p in psutil.process_iter() if p.pid not in self._own)
        return [p for p in others if _lives(p) and (p.pid in below or self._carries(p))]

    def _carries(self, process: psutil.Process) -> bool:
        try:
            return self._token in process.environ().get(TOKEN, "").split(":")
        except (psutil.Error, OSError):  # it has ended, or is another user's
            return False

    def _below(self) -> set[int]:
        """Return the descendants of the root, without those of the run's own processes."""
        children: defaultdict[int, list[int]] = defaultdict(list)
        for process in psutil.process_iter(["ppid"]) if self._root is not None else ():
            children[process.info["ppid"]].append(process.pid)
        found: set[int] = set()
        waiting = children[self._root or 0]
        while waiting:
            if (pid := waiting.pop()) not in self._own:
                found.add(pid)
                waiting += children[pid]
        return found


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False


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

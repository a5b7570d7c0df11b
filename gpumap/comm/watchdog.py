"""A watchdog for ranks: heartbeats, and the processes of a node.

No engine names a rank that dies, stops or waits for ever. A thread of rank 0 watches the
processes of its node (/proc) and receives the heartbeats of the others, each sent by a thread. A
thread, because the main one may be in a call of the engine that never returns.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from gpumap.machine.process_control import stat_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumap.comm.base import ProcessComm, RankInfo


_POLL = 0.1  # seconds between two polls
_STOPPED = 0.5  # seconds between two polls that are no delay: the process was stopped
_HEARTBEAT = 1.0  # seconds between two heartbeats
SILENT = 5.0  # seconds without a heartbeat, after which a rank does not answer
_FATAL = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


def state(process: int) -> str | None:
    """Return the state of a process of this machine: R, S, D, T, Z; None where there is none."""
    return next(iter(stat_fields(process)), None)


def stopped_siblings(process: int) -> list[int]:
    """Return the stopped processes with the parent of `process`, as ranks have."""
    parent = _parent(process)
    if parent is None:  # no /proc
        return []
    every = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return sorted(each for each in every if _parent(each) == parent and state(each) == "T")


def _parent(process: int) -> str | None:
    return next(iter(stat_fields(process)[1:]), None)


@contextmanager
def heartbeats(beats: ProcessComm, limit: float, late: Callable[[], None]) -> Iterator[None]:
    """Send heartbeats of a rank to rank 0 by `beats`, which is for these alone.

    Where rank 0 has not ended the run within its time limit, `late` is called.
    """
    over, end = threading.Event(), time.monotonic() + limit

    def send() -> None:
        while not over.wait(_HEARTBEAT):
            if time.monotonic() > end:
                late()
                return
            with suppress(*beats.failures):
                beats.send(beats.rank, 0)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join()


class Watch:
    """Watchdog of rank 0 for the other ranks; `lost` is called, once, when one has died.

    `late` gets those that no longer answer, each time that they begin not to.
    `lost` gets the dead ones, or none where this process is to end. mpirun, itself interrupted,
    sends a SIGCONT to processes that were not stopped; SIGTERM comes a second later, and SIGKILL
    close behind it.
    """

    def __init__(
        self,
        beats: ProcessComm,
        table: Sequence[RankInfo],
        lost: Callable[[Sequence[RankInfo]], None],
        late: Callable[[Sequence[RankInfo]], None],
    ) -> None:
        self._beats, self._late = beats, late
        self._others = tuple(table[1:])
        self._host = table[0].host
        self._lost = lost
        self._last_heartbeat = dict.fromkeys((info.rank for info in self._others), time.monotonic())
        self._over = threading.Event()
        self._signals: tuple[int, int] | None = None
        self._before = -1
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._signals = os.pipe()
            for end in self._signals:
                os.set_blocking(end, False)
            self._before = signal.set_wakeup_fd(self._signals[1], warn_on_full_buffer=False)
            signal.signal(signal.SIGCONT, lambda *_: None)  # or the pipe would not get it
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        if self._signals is not None:
            signal.set_wakeup_fd(self._before)
            signal.signal(signal.SIGCONT, signal.SIG_DFL)
            for end in self._signals:
                os.close(end)

    def silent(self) -> list[RankInfo]:
        """Return the ranks that are stopped, or have sent no heartbeat for a while."""
        now = time.monotonic()
        return [
            info
            for info in self._others
            if now - self._last_heartbeat[info.rank] > SILENT
            or (info.host == self._host and state(info.process) == "T")
        ]

    def dead(self) -> list[RankInfo]:
        """Return the ranks of this machine that have ended."""
        return [
            info
            for info in self._others
            if info.host == self._host and state(info.process) in (None, "Z", "X")
        ]

    def _watch(self) -> None:
        known: list[RankInfo] = []
        before, listened = time.monotonic(), 0.0
        while not self._over.wait(_POLL):
            now = time.monotonic()
            stopped, before = now - before > _STOPPED, now
            caught = self._received_signals()
            dead = self.dead()
            stop = bool(_FATAL & caught) or (signal.SIGCONT in caught and not stopped and not dead)
            if (dead or stop) and not self._over.is_set():
                self._lost(dead)  # a launcher ends all where one has died
                return
            if now - listened < _HEARTBEAT:
                continue
            listened = now
            with suppress(*self._beats.failures):
                while self._beats.waiting():
                    self._last_heartbeat[self._beats.receive()[0]] = now
            silent = self.silent()
            if late := [info for info in silent if info not in known]:
                self._late(late)
            known = silent

    def _received_signals(self) -> set[int]:
        """Return the signals received since the last poll."""
        caught = b""
        if self._signals is not None:
            with suppress(BlockingIOError):
                caught = os.read(self._signals[0], 64)
        return set(caught)

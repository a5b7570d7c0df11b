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
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from gpumap.machine.process_control import caught, stat_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumap.comm.base import ProcessComm
    from gpumap.model import Rank


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
    stopped = ["T", *stat_fields(process)[1:2]]
    every = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
    return sorted(each for each in every if stat_fields(each)[:2] == stopped)


@contextmanager
def heartbeats(beats: ProcessComm) -> Iterator[None]:
    """Send heartbeats of a rank to rank 0 by `beats`, which is for these alone."""
    over = threading.Event()

    def send() -> None:
        while not over.wait(_HEARTBEAT):
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
        table: Sequence[Rank],
        lost: Callable[[Sequence[Rank]], None],
        late: Callable[[Sequence[Rank]], None],
    ) -> None:
        self._beats, self._late = beats, late
        self._others = tuple(table[1:])
        self._here = [rank for rank in self._others if rank.host == table[0].host]
        self._lost = lost
        self._last_heartbeat = {rank.number: time.monotonic() for rank in self._others}
        self._over = threading.Event()
        self._signals, self._pipe = ExitStack(), -1
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._pipe = self._signals.enter_context(caught([signal.SIGCONT]))
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._signals.close()

    def silent(self) -> list[Rank]:
        """Return the ranks that are stopped, or have sent no heartbeat for a while."""
        now = time.monotonic()
        return [
            rank
            for rank in self._others
            if now - self._last_heartbeat[rank.number] > SILENT
            or (rank in self._here and state(rank.process) == "T")
        ]

    def dead(self) -> list[Rank]:
        """Return the ranks of this machine that have ended."""
        return [rank for rank in self._here if state(rank.process) in (None, "Z", "X")]

    def _watch(self) -> None:
        known: list[Rank] = []
        before, listened = time.monotonic(), 0.0
        while not self._over.wait(_POLL):
            now = time.monotonic()
            stopped, before = now - before > _STOPPED, now
            received, dead = self._received_signals(), self.dead()
            goes_on = signal.SIGCONT in received and not stopped and not dead
            stop = bool(_FATAL & received) or goes_on
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
            if late := [rank for rank in silent if rank not in known]:
                self._late(late)
            known = silent

    def _received_signals(self) -> set[int]:
        """Return the signals received since the last poll."""
        with suppress(OSError):  # there is none, or not one thread may catch any
            return set(os.read(self._pipe, 64))
        return set()

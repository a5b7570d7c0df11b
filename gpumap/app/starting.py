"""What ends a process that waits in vain, for MPI or for a network of the user's."""

from __future__ import annotations

import os
import select
import signal
import threading
from contextlib import suppress
from typing import Self

from gpumap.errors import Exit
from gpumap.escape import printable
from gpumap.launch.child import reap
from gpumap.parallel.comm.watch import stopped_beside

_STDERR = 2
_LETTING_GO = 1.0  # seconds that a child has to end: it may be stopped
_LATER = 10.0  # seconds that the ranks behind the first leave it to say so


class Starting:
    """Kills this process where MPI has not started in time, and says so before.

    MPI has started when every rank has come, and the call that waits for them holds Python's lock:
    neither a thread nor a handler of a signal would run in it. So a child waits beside it, which
    ends with this process however that ends.
    """

    def __init__(self, limit: float, said: str) -> None:
        """Allow `limit` seconds; `said` are the first words of the message, empty for none."""
        self._limit, self._said = limit, said
        self._child, self._pipe = 0, 0

    def __enter__(self) -> Self:
        reading, self._pipe = os.pipe()
        process = os.getpid()
        self._child = os.fork()
        if not self._child:
            try:
                os.close(self._pipe)
                self._wait(reading, process)
            finally:
                os._exit(0)
        os.close(reading)
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._pipe)  # it waits for this
        reap(self._child, _LETTING_GO)

    def _wait(self, reading: int, process: int) -> None:
        """Be the child."""
        if select.select([reading], [], [], self._limit)[0]:
            return
        if self._said:
            which = ", ".join(f"process {number}" for number in stopped_beside(process))
            fix = f"continue or end {which}: stopped" if which else "look at the other ranks"
            said = f"error: {self._said}: MPI waits for a rank that does not come\n  fix: {fix}\n"
            with suppress(OSError):
                os.write(_STDERR, said.encode())
        os.kill(process, signal.SIGKILL)


class Loading:
    """Ends this process where a network of the user's is not loaded within the time limit.

    It is loaded before there is a report, whose watchdog looks at all that comes behind.
    """

    def __init__(self, limit: float, network: str | None, rank: int) -> None:
        """Allow `limit` seconds to load `network`, if there is one, as this rank of several."""
        self._limit, self._network, self._rank = limit, network, rank
        self._timer = threading.Timer(limit + (_LATER if rank else 0.0), self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if self._network is not None:
            self._timer.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._timer.cancel()

    def _end(self) -> None:
        """Say it, and end: the thread that loads may never come back."""
        network = printable(str(self._network))
        said = f"error: the time limit of {self._limit:g} s was reached: {network} is being loaded"
        fix = "raise --timeout, or look at what its import and its class do"
        if not self._rank:
            with suppress(OSError):
                os.write(_STDERR, f"{said}\n  fix: {fix}\n".encode())
        os._exit(Exit.TIMEOUT)

"""What ends a process that waits in vain for MPI to start."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from typing import Self

from gpumap.parallel.comm.watch import stopped_beside

_STDERR = 2


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
        os.waitpid(self._child, 0)

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

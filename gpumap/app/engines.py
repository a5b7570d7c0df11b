"""The engine that carries between the ranks of a job, by their launcher, and its start.

torchrun and `gpumap run` start ranks of torch.distributed; mpirun, and srun where it says no
MASTER_ADDR or PyTorch is not installed, start those of MPI.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from gpumap.app.program import TURN, Program, several, unbound
from gpumap.comm.engines import joined
from gpumap.comm.watchdog import stopped_siblings
from gpumap.errors import GpumapError
from gpumap.escape import written
from gpumap.model import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.comm.base import ProcessComm

LATE = 10.0  # seconds beyond its time limit, after which rank 0 is given up
_STDERR = 2


def join(program: Program, limit: float, engine: str) -> ProcessComm:
    """Start an engine within `limit` seconds, and return all ranks.

    Raises:
        AbsentError: the engine is not there, or a rank is not.
        QuestionError: it knows of one rank.
    """
    launch = several(program)
    rank = launch.rank if launch else 0
    # Ctrl-C, sent to every rank, is for the run, which rank 0 ends: with its report
    before = signal.signal(signal.SIGINT, lambda *_: None) if rank else None
    try:
        with _starting(limit, rank) if engine == "mpi" else nullcontext():
            comm = joined(engine, launch, limit)
        if engine == "mpi":  # heartbeats are a thread's
            from gpumap.comm.mpi import require_threads

            require_threads()
    except GpumapError as error:
        if not rank:
            raise
        signal.signal(signal.SIGINT, before)
        time.sleep(TURN)  # rank 0 has reported by then what all ranks lack
        who = f"rank {rank} on {socket.gethostname()}"
        found = (replace(d, message=f"{who}: {d.message}") for d in error.diagnostics)
        raise type(error)(tuple(found)) from None
    unbound(program)
    return comm


@contextmanager
def _starting(limit: float, rank: int) -> Iterator[None]:
    """Limit the time for the start of MPI: print an error, and kill this process.

    MPI has started when every rank has, and the call that waits for them holds Python's lock:
    neither a thread nor a handler of a signal would run in it. So a subprocess waits, which
    ends with this process however that ends.
    """
    reading, pipe = os.pipe()
    process = os.getpid()
    watchdog = os.fork()
    if not watchdog:
        try:
            os.close(pipe)
            if not select.select([reading], [], [], limit + (LATE if rank else 0.0))[0]:
                _say_late(limit, rank, process)
                os.kill(process, signal.SIGKILL)
        finally:
            os._exit(0)
    os.close(reading)
    try:
        yield
    finally:
        os.close(pipe)
        with suppress(ProcessLookupError, ChildProcessError):  # SIGCHLD is ignored, and it ended
            os.kill(watchdog, signal.SIGKILL)  # it may be stopped
            os.waitpid(watchdog, 0)


def _say_late(limit: float, rank: int, process: int) -> None:
    """Report that the time is over: rank 0 does or, where that is stopped, rank 1."""
    if rank > 1:
        return
    which = ", ".join(f"process {number}" for number in stopped_siblings(process))
    fix = f"continue or end {which}: stopped" if which else "look at the other ranks"
    text = (
        f"error: the time limit of {limit:g} s was reached: MPI waits for a rank that does not come"
    )
    with suppress(OSError):
        os.write(_STDERR, written((text, f"  fix: {fix}")).encode())

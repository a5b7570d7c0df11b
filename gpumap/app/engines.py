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
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from gpumap.app.program import TURN, refused, several, unbound
from gpumap.comm.engines import engine_of
from gpumap.comm.watchdog import stopped_siblings
from gpumap.errors import GpumapError, QuestionError
from gpumap.escape import written
from gpumap.machine.process_control import reap
from gpumap.model import replace

if TYPE_CHECKING:
    from gpumap.app.program import Program
    from gpumap.comm.base import ProcessComm
    from gpumap.comm.ranks import Launch

LATE = 10.0  # seconds beyond its time limit, after which rank 0 is given up
_STDERR = 2
_EXIT_GRACE = 1.0  # seconds that the watchdog has to end: it may be stopped
_MEETING = {"MASTER_ADDR": "the host of rank 0", "MASTER_PORT": "a free port there"}


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
        comm = (_torch if engine == "torch" else _mpi)(launch, program, limit)
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


def _torch(launch: Launch | None, program: Program, limit: float) -> ProcessComm:
    from gpumap.comm.torch import Torch

    if launch is None:
        fix = f"start several: torchrun --nproc-per-node 2 -m {_command(program)}"
        raise QuestionError("one rank has nothing to exchange", fix)
    if missing := [name for name in _MEETING if not program.env.get(name)]:
        message = f"{missing[0]} is not set, and ranks of torch.distributed meet there"
        raise QuestionError(message, f"let every rank have {_MEETING[missing[0]]} in it")
    return Torch(launch.rank, launch.size, limit)


def _mpi(launch: Launch | None, program: Program, limit: float) -> ProcessComm:
    from gpumap.comm.mpi import Mpi, load, require_threads

    rank = launch.rank if launch else 0
    message = f"the time limit of {limit:g} s was reached" if rank < 2 else ""  # noqa: PLR2004 - one may be stopped
    with StartTimeout(limit + (LATE if rank else 0.0), message):
        comm = Mpi(load().COMM_WORLD)
    if comm.size == 1:
        raise unknown_to_mpi(launch, program)
    require_threads()  # heartbeats are a thread's
    return comm


def refuse_several(program: Program, comm: str) -> None:
    """Refuse to measure in one of several processes what one process measures alone.

    Raises:
        QuestionError: a launcher has started several; each would disturb the others.
    """
    if launch := several(program):
        fix = f"ask for --comm {engine_of(launch, program.env)}, or start it without a launcher"
        raise refused(launch, f"--comm {comm} is for one process", fix)


def unknown_to_mpi(launch: Launch | None, program: Program) -> QuestionError:
    """Return the refusal to be one of several processes that MPI has not started."""
    if launch is None:
        fix = f"start several: {_by_mpirun(program)}"
        return QuestionError("one rank has nothing to exchange", fix)
    message = f"{launch.by} has started {launch.size} processes, and MPI knows of one of them"
    by = f"{_by_mpirun(program)}; under Slurm srun --mpi=pmix"
    return QuestionError(message, f"start them by the launcher of this MPI: {by}")


def _by_mpirun(program: Program) -> str:
    return f"mpirun -n 2 {_command(program)} --comm mpi"


def _command(program: Program) -> str:
    """Return the benchmark that this process was started with, without its options."""
    return " ".join(("gpumap", *program.argv[:2]))


class StartTimeout:
    """Time limit for the start of MPI: prints an error, and kills this process.

    MPI has started when every rank has, and the call that waits for them holds Python's lock:
    neither a thread nor a handler of a signal would run in it. So a subprocess waits, which
    ends with this process however that ends.
    """

    def __init__(self, limit: float, text: str) -> None:
        """Allow `limit` seconds; `text` begins the message, empty for none."""
        self._limit, self._text = limit, text
        self._watchdog, self._pipe = 0, 0

    def __enter__(self) -> Self:
        reading, self._pipe = os.pipe()
        process = os.getpid()
        self._watchdog = os.fork()
        if not self._watchdog:
            try:
                os.close(self._pipe)
                self._wait(reading, process)
            finally:
                os._exit(0)
        os.close(reading)
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._pipe)  # it waits for this
        reap(self._watchdog, _EXIT_GRACE)

    def _wait(self, reading: int, process: int) -> None:
        """Run as the watchdog."""
        if select.select([reading], [], [], self._limit)[0]:
            return
        if self._text:
            which = ", ".join(f"process {number}" for number in stopped_siblings(process))
            fix = f"continue or end {which}: stopped" if which else "look at the other ranks"
            text = f"error: {self._text}: MPI waits for a rank that does not come"
            with suppress(OSError):
                os.write(_STDERR, written((text, f"  fix: {fix}")).encode())
        os.kill(process, signal.SIGKILL)

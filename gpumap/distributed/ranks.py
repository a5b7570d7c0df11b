"""Ranks: which one this process is, by the variables of its launcher, and whether all live.

    Open MPI    OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
    MPICH       PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS (Hydra; Intel MPI too)
    Slurm       SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID: of a step that srun started; the
                shell of a job has the first one too, and is no rank
    torchrun    RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE

The first launcher in this order counts: srun may start mpirun, and both leave their variables.

MPI itself names no rank that dies, stops or waits for ever. A thread of rank 0 looks at the
processes of its node (/proc) and listens for the others, each of which has a thread that sends a
sign of life. A thread, because the main one may be in a call of MPI that never returns.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from gpumap.errors import QuestionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


_MOST = 10_000_000  # ranks: more is no number that a launcher has written
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Launch:
    """A rank: its number among all, and among those of its node; `local_size` may not be known."""

    by: str
    rank: int
    size: int
    local_rank: int
    local_size: int | None


# launcher: what its rank, size, local rank and local size are called
VARIABLES: dict[str, tuple[str, str, str, str]] = {
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                 "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    "MPICH": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    "Slurm": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
}  # fmt: skip

# what tells that a launcher has started this process: how all that it leaves to its ranks begins
_LEFT = {
    "OMPI_COMM_WORLD_RANK": (
        "OMPI_COMM_WORLD_", "OMPI_MCA_ess", "OMPI_MCA_orte_", "OMPI_MCA_pmix", "PMIX_",
    ),
    "PMI_RANK": ("PMI_", "PMIX_", "MPI_LOCAL"),
    "SLURM_PROCID": ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", "PMI_", "PMIX_"),
}  # fmt: skip


def launched(env: Mapping[str, str]) -> Launch | None:
    """Return which rank this process is; None if no launcher has started it.

    Raises:
        QuestionError: a variable of the launcher is missing, is no number, or contradicts another.
    """
    for by, names in VARIABLES.items():
        rank, size, local_rank, local_size = names
        if rank in env and size in env:
            most = _number(env, local_size) if local_size in env else None
            place, ranks, local = (_number(env, name) for name in (rank, size, local_rank))
            return _checked(Launch(by, place, ranks, local, most), names)
    return None


def without_ranks(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for processes that a rank starts: its place is not theirs."""
    left = tuple(start for told, starts in _LEFT.items() if told in env for start in starts)
    return {name: value for name, value in env.items() if not name.startswith(left)}


def _checked(found: Launch, names: tuple[str, str, str, str]) -> Launch:
    rank, size, local_rank, local_size = names
    most = found.size if found.local_size is None else min(found.size, found.local_size)
    for name, value, limit, of in (
        (rank, found.rank, found.size, size),
        (local_rank, found.local_rank, most, local_size if found.local_size else size),
    ):
        if value >= limit:
            raise _wrong(found.by, f"{name} is {value}, and {of} is {limit}")
    return found


def _number(env: Mapping[str, str], name: str) -> int:
    text = env.get(name)
    by = next(by for by, names in VARIABLES.items() if name in names)
    if text is None:
        raise _wrong(by, f"{name} is not set")
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) < _MOST):  # noqa: PLR2004 - digits
        raise _wrong(by, f"{name} is {text[:_SHOWN]!r}, which is no number of ranks")
    return int(text)


def _wrong(by: str, said: str) -> QuestionError:
    fix = "start it anew, or unset what an earlier launcher has left"
    return QuestionError(f"the variables of {by} make no rank: {said}", fix)


class Lost(Protocol):
    """What is done about ranks that died."""

    def __call__(self, dead: Sequence[Seat], *, asked: bool) -> None:
        """End the run; `asked`: this process, too, was told to end."""


_EVERY = 0.1  # seconds between two looks
_STOPPED = 0.5  # seconds between two looks that are no delay: the process was stopped
_SIGN = 1.0  # seconds between two signs of life
SILENT = 5.0  # seconds without one, after which a rank does not answer
_TAG = 1
_ENDS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


@dataclass(frozen=True, slots=True)
class Seat:
    """A rank: who it is to a user, and where its process runs."""

    rank: int
    name: str  # of its entry in the map
    host: str
    process: int

    @property
    def words(self) -> str:
        """Return it as a message names it: ``node/name (rank 1, process 4711)``."""
        return f"{self.host}/{self.name} (rank {self.rank}, process {self.process})"


def state(process: int) -> str | None:
    """Return the state of a process of this machine: R, S, D, T, Z; None where there is none."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - ten times a second
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None


def stopped_beside(process: int) -> list[int]:
    """Return the processes that are stopped and have the parent of `process`, as ranks have."""
    parent = _parent(process)
    if parent is None:  # no /proc
        return []
    every = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return sorted(each for each in every if _parent(each) == parent and state(each) == "T")


def _parent(process: int) -> int | None:
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - of every process
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None


class Signs:
    """What a rank but the first does: it shows that it lives, and ends with the first one's time.

    Where rank 0 has not ended the run within its time limit, `late` is called.
    """

    def __init__(self, comm: Any, limit: float, late: Callable[[], None]) -> None:
        self._comm = comm
        self._end = time.monotonic() + limit
        self._late = late
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _send(self) -> None:
        sent: list[Any] = []
        while not self._over.wait(_SIGN):
            if time.monotonic() > self._end:
                self._late()
                return
            sent = [request for request in sent if not request.Test()]
            if len(sent) <= 1:  # who does not listen gets no heap of them
                sent.append(self._comm.Isend(bytearray(1), 0, _TAG))
        for request in sent:
            request.Cancel()
            request.Wait()


class Watch:
    """What rank 0 does: it looks after the others; `lost` is called, once, when one has died.

    `lost` gets the dead ones, and whether this process too was asked to end. mpirun, itself
    interrupted, asks with a SIGCONT to processes that were not stopped; SIGTERM comes a second
    later, and SIGKILL close behind it.
    """

    def __init__(self, comm: Any, seats: Sequence[Seat], lost: Lost) -> None:
        self._comm = comm
        self._others = tuple(seats[1:])
        self._host = seats[0].host
        self._lost = lost
        self._heard = dict.fromkeys((seat.rank for seat in self._others), time.monotonic())
        self._over = threading.Event()
        self._signals: tuple[int, int] | None = None
        self._before = -1
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._signals = os.pipe()
            for end in self._signals:
                os.set_blocking(end, False)
            self._before = signal.set_wakeup_fd(self._signals[1], warn_on_full_buffer=False)
            signal.signal(signal.SIGCONT, lambda *_: None)  # or the pipe would not hear of it
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

    def silent(self) -> list[Seat]:
        """Return the ranks that are stopped, or have given no sign of life for a while."""
        now = time.monotonic()
        return [
            seat
            for seat in self._others
            if now - self._heard[seat.rank] > SILENT
            or (seat.host == self._host and state(seat.process) == "T")
        ]

    def _look(self) -> None:
        before = time.monotonic()
        while not self._over.wait(_EVERY):
            now = time.monotonic()
            stopped, before = now - before > _STOPPED, now
            came = self._came()
            dead = [
                seat
                for seat in self._others
                if seat.host == self._host and state(seat.process) in (None, "Z", "X")
            ]
            asked = bool(_ENDS & came) or (signal.SIGCONT in came and not stopped and not dead)
            if (dead or asked) and not self._over.is_set():
                self._lost(dead, asked=asked)
                return
            self._listen()

    def _listen(self) -> None:
        sign = bytearray(1)
        for seat in self._others:
            while self._comm.Iprobe(seat.rank, _TAG):
                self._comm.Recv(sign, seat.rank, _TAG)
                self._heard[seat.rank] = time.monotonic()

    def _came(self) -> set[int]:
        """Return the signals that came since the last look."""
        came = b""
        if self._signals is not None:
            with suppress(BlockingIOError):
                came = os.read(self._signals[0], 64)
        return set(came)

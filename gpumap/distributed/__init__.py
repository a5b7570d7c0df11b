"""Ranks: number of this process, by the variables of its launcher, and a watchdog for all.

    Open MPI    OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
    Flux        FLUX_TASK_RANK, FLUX_JOB_SIZE, FLUX_TASK_LOCAL_ID
    MPICH       PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS (Hydra; Intel MPI too)
    PMI         PMI_RANK, PMI_SIZE, PMI_LOCAL_RANK, PMI_LOCAL_SIZE (PALS)
    Slurm       SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID: of a step that srun started; the
                shell of a job has the first one too, and is no rank
    torchrun    RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE

The first launcher in this order counts: srun may start mpirun, and both leave their variables. One
that does not say the local rank comes last: srun and Flux set PMI_RANK, too. PMIx has no variable
for it.

MPI itself names no rank that dies, stops or waits for ever. A thread of rank 0 watches the
processes of its node (/proc) and receives the heartbeats of the others, each sent by a thread. A
thread, because the main one may be in a call of MPI that never returns.
"""

from __future__ import annotations

import os
import re
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
    "Flux": ("FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", ""),
    "MPICH": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    "PMI": ("PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"),
    "Slurm": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
}  # fmt: skip

# a variable that a launcher sets, and how the names of all that it sets begin
_PREFIXES = {
    "OMPI_COMM_WORLD_RANK": (
        "OMPI_COMM_WORLD_", "OMPI_MCA_ess", "OMPI_MCA_orte_", "OMPI_MCA_pmix", "PMIX_",
    ),
    "FLUX_TASK_RANK": ("FLUX_TASK_", "FLUX_JOB_SIZE", "PMI_", "PMIX_"),
    "PMI_RANK": ("PMI_", "PMIX_", "MPI_LOCAL"),
    "SLURM_PROCID": ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", "PMI_", "PMIX_"),
}  # fmt: skip


def launched(env: Mapping[str, str]) -> Launch | None:
    """Return which rank this process is; None if no launcher has started it.

    Raises:
        QuestionError: a variable of the launcher is missing, is no number, or contradicts another.
    """
    found = [(by, names) for by, names in VARIABLES.items() if {*names[:2]} <= {*env}]
    found.sort(key=lambda each: each[1][2] not in env)  # stable: else the order is as above
    for by, names in found:
        most = _number(env, by, names[3]) if names[3] in env else None
        number, ranks, local = (_number(env, by, name) for name in names[:3])
        return _checked(Launch(by, number, ranks, local, most), names)
    return None


def ranks_of_node(launch: Launch, env: Mapping[str, str]) -> int | None:
    """Return how many ranks of a launch are on this node; None where its variables do not tell.

    Slurm counts by the step; SLURM_NTASKS_PER_NODE is what a job has requested.
    """
    if launch.by != "Slurm":
        alone = env.get("FLUX_JOB_NNODES") == "1" and launch.by == "Flux"
        return launch.size if alone else launch.local_size
    counts: list[int] = []
    for part in env.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        match = re.fullmatch(r"([0-9]{1,7})(?:\(x([0-9]{1,6})\))?", part)  # as in 4(x2),3
        counts += [int(match[1])] * int(match[2] or 1) if match else []
    node = env.get("SLURM_NODEID", "")
    if node.isdecimal() and int(node) < len(counts) and sum(counts) == launch.size:
        return counts[int(node)]
    return launch.size if env.get("SLURM_STEP_NUM_NODES") == "1" else None


def without_ranks(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for processes that a rank starts: its place is not theirs."""
    left = tuple(start for marker, starts in _PREFIXES.items() if marker in env for start in starts)
    return {name: value for name, value in env.items() if not name.startswith(left)}


def _checked(launch: Launch, names: tuple[str, str, str, str]) -> Launch:
    rank, size, local_rank, local_size = names
    most = launch.size if launch.local_size is None else min(launch.size, launch.local_size)
    for name, value, limit, of in (
        (rank, launch.rank, launch.size, size),
        (local_rank, launch.local_rank, most, local_size if launch.local_size else size),
    ):
        if value >= limit:
            raise _wrong(launch.by, f"{name} is {value}, and {of} is {limit}")
    return launch


def _number(env: Mapping[str, str], by: str, name: str) -> int:
    text = env.get(name)
    if text is None:
        raise _wrong(by, f"{name} is not set")
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) < _MOST):  # noqa: PLR2004 - digits
        raise _wrong(by, f"{name} is {text[:_SHOWN]!r}, which is no number of ranks")
    return int(text)


def _wrong(by: str, message: str) -> QuestionError:
    fix = "start it anew, or unset what an earlier launcher has left"
    return QuestionError(f"the variables of {by} make no rank: {message}", fix)


class OnLost(Protocol):
    """Callback for ranks that died."""

    def __call__(self, dead: Sequence[RankInfo], *, stop: bool) -> None:
        """End the run; `stop`: this process, too, is to end."""


_POLL = 0.1  # seconds between two polls
_STOPPED = 0.5  # seconds between two polls that are no delay: the process was stopped
_HEARTBEAT = 1.0  # seconds between two heartbeats
SILENT = 5.0  # seconds without a heartbeat, after which a rank does not answer
_TAG = 1
_FATAL = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


@dataclass(frozen=True, slots=True)
class RankInfo:
    """A row of the rank table: number, name, host and process."""

    rank: int
    name: str  # of its entry in the map
    host: str
    process: int

    @property
    def label(self) -> str:
        """Return the rank's name in messages: ``node/name (rank 1, process 4711)``."""
        return f"{self.host}/{self.name} (rank {self.rank}, process {self.process})"


def state(process: int) -> str | None:
    """Return the state of a process of this machine: R, S, D, T, Z; None where there is none."""
    return next(iter(_stat(process)), None)


def stopped_siblings(process: int) -> list[int]:
    """Return the stopped processes with the parent of `process`, as ranks have."""
    parent = _parent(process)
    if parent is None:  # no /proc
        return []
    every = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return sorted(each for each in every if _parent(each) == parent and state(each) == "T")


def _parent(process: int) -> str | None:
    return next(iter(_stat(process)[1:]), None)


def _stat(process: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; none of a process that is gone."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - ten times a second
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


class Heartbeat:
    """Heartbeats of a rank to rank 0, until rank 0's time limit is over.

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
        while not self._over.wait(_HEARTBEAT):
            if time.monotonic() > self._end:
                self._late()
                return
            sent = [request for request in sent if not request.Test()]
            if len(sent) <= 1:  # do not pile them up where rank 0 does not receive
                sent.append(self._comm.Isend(bytearray(1), 0, _TAG))
        for request in sent:
            request.Cancel()
            request.Wait()


class Watch:
    """Watchdog of rank 0 for the other ranks; `lost` is called, once, when one has died.

    `lost` gets the dead ones, and whether this process too is to end. mpirun, itself
    interrupted, sends a SIGCONT to processes that were not stopped; SIGTERM comes a second
    later, and SIGKILL close behind it.
    """

    def __init__(self, comm: Any, table: Sequence[RankInfo], lost: OnLost) -> None:
        self._comm = comm
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

    def _watch(self) -> None:
        before = time.monotonic()
        while not self._over.wait(_POLL):
            now = time.monotonic()
            stopped, before = now - before > _STOPPED, now
            caught = self._received_signals()
            dead = [
                info
                for info in self._others
                if info.host == self._host and state(info.process) in (None, "Z", "X")
            ]
            stop = bool(_FATAL & caught) or (signal.SIGCONT in caught and not stopped and not dead)
            if (dead or stop) and not self._over.is_set():
                self._lost(dead, stop=stop)
                return
            for info in self._others:
                while self._comm.Iprobe(info.rank, _TAG):
                    self._comm.Recv(bytearray(1), info.rank, _TAG)
                    self._last_heartbeat[info.rank] = time.monotonic()

    def _received_signals(self) -> set[int]:
        """Return the signals received since the last poll."""
        caught = b""
        if self._signals is not None:
            with suppress(BlockingIOError):
                caught = os.read(self._signals[0], 64)
        return set(caught)

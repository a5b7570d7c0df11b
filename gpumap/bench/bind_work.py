"""Copies and exchanges by a thread that runs at its place, or wherever the system lets it.

The place is that of `gpumap run`: the cores and the memory near the device. What a thread allocates
is touched when it is there, so that it lies in that memory.
"""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumap.bench.exchanges import ITEM, exact
from gpumap.bench.exchanges import Job as Exchange
from gpumap.bench.mpi_ranks import Exchanging, MpiRound
from gpumap.bench.verify import worse
from gpumap.launch.places import places
from gpumap.machine.affinity import allowed, pin
from gpumap.machine.numa import take_any_memory, take_memory_of, with_memory
from gpumap.machine.topology import read
from gpumap.machine.tree import Tree
from gpumap.model import Binding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np

    from gpumap.backends.base import Session
    from gpumap.bench.mpi_ranks import MpiRanks
    from gpumap.bench.spans import Spans
    from gpumap.launch.places import Place
    from gpumap.model import Check

    Array = np.ndarray[Any, Any]

_CYCLE = 251  # a prime: a copy that is off by any power of two does not fit


@dataclass(frozen=True, slots=True)
class Job:
    """What each name is to move: a case, its bytes, and whether its threads are bound."""

    case: str
    nbytes: int
    bound: bool
    names: tuple[tuple[str, Binding], ...]  # of each rank, with its host


class World:
    """Where this process may run: the processors that it was given, when this was made."""

    def __init__(self) -> None:
        self._anywhere = allowed()
        self._thread = threading.local()

    def near(self, bindings: Sequence[Binding]) -> tuple[Place, ...]:
        """Return the place of each name; this thread is not bound afterwards."""
        self.settle(None)
        return places(bindings, read(), with_memory(Tree(Path("/"))))

    def settle(self, place: Place | None) -> None:
        """Bind this thread to a place, or to nothing; it costs nothing where it is there."""
        if getattr(self._thread, "place", ()) == place:
            return
        pin(place.cores if place is not None and place.cores else self._anywhere)
        if place is not None and place.memory is not None:
            take_memory_of(place.memory)
        else:
            take_any_memory()
        self._thread.place = place


class Copying:
    """Copies between a device and memory that the calling thread has touched, in one direction."""

    def __init__(self, session: Session, case: str, nbytes: int) -> None:
        import numpy as np

        self._session, self._up = session, case == "h2d"
        length = nbytes // ITEM
        self._source = np.resize(np.arange(_CYCLE, dtype=np.float32), length)
        self._landing = np.zeros(length, np.float32)
        self._buffer = session.empty((length,), "float32")

    def poison(self) -> None:
        """Make the destination wrong."""
        self._landing.fill(-1.0)
        self._session.upload(self._landing if self._up else self._source, self._buffer)
        self._session.synchronize()

    def run(self, rounds: int) -> None:
        """Copy `rounds` times, each waited for."""
        for _ in range(rounds):
            if self._up:
                self._session.upload(self._source, self._buffer)
            else:
                self._session.download(self._buffer, self._landing)
            self._session.synchronize()

    def check(self) -> Check:
        """Return whether every byte came."""
        if self._up:
            self._landing.fill(-1.0)
            self._session.download(self._buffer, self._landing)
            self._session.synchronize()
        return exact(self._landing, self._source)


class Placed:
    """What one name does, always at its place."""

    def __init__(self, work: Copying | Exchanging, world: World, place: Place | None) -> None:
        self._work, self._world, self._place = work, world, place

    def settle(self) -> None:
        """Go there."""
        self._world.settle(self._place)

    def poison(self) -> None:
        """Make what it writes wrong."""
        self.settle()
        self._work.poison()

    def run(self, rounds: int) -> None:
        """Do it `rounds` times."""
        self.settle()
        self._work.run(rounds)

    def check(self) -> Check:
        """Return whether it is right."""
        return self._work.check()


def placed(
    session: Session, job: Job, world: World, place: Place | None, comm: Any = None
) -> Placed:
    """Take memory for a name's part of a job, at its place."""
    world.settle(place)
    if job.case == "allreduce":
        exchange = Exchange("native", job.nbytes // ITEM, "float32", 1, fused=False)
        return Placed(Exchanging(exchange, comm, session), world, place)
    return Placed(Copying(session, job.case, job.nbytes), world, place)


# --- the names of one process


class LocalNames:
    """The devices of this process, each with a thread of its own."""

    comm = "local"
    cases: tuple[str, ...] = ("h2d", "d2h")

    @property
    def hosts(self) -> list[str]:
        """Return the machine of each name: this one."""
        return [socket.gethostname()] * len(self._sessions)

    def __init__(self, sessions: Mapping[str, Session]) -> None:
        self._sessions, self._world = dict(sessions), World()
        self._threads = {name: ThreadPoolExecutor(1, f"bind-{name}") for name in sessions}

    def beside(self, bindings: Iterable[Binding]) -> Iterable[Binding]:
        """Return all of them."""
        return bindings

    def begin(self) -> None:
        """Do nothing: each round owns its memory."""

    def round(self, job: Job) -> LocalRound:
        """Take memory for a job on each device."""
        near = self._world.near([binding for _, binding in job.names]) if job.bound else ()
        found = {place.name: place for place in near}
        parts = []
        for name, thread in self._threads.items():
            made = thread.submit(placed, self._sessions[name], job, self._world, found.get(name))
            parts.append((thread, made.result()))
        return LocalRound(parts)


class LocalRound:
    """A job on all devices of this process, at once."""

    route: str | None = None

    def __init__(self, parts: Sequence[tuple[ThreadPoolExecutor, Placed]]) -> None:
        self._parts = parts

    def renew(self) -> None:
        """Go to the place."""
        self._all("settle")

    def poison(self) -> None:
        """Make every destination wrong."""
        self._all("poison")

    def queue(self, spans: Spans | None = None, rounds: int = 1) -> None:  # noqa: ARG002 - timed by the host
        """Do it `rounds` times."""
        self._all("run", rounds)

    def finish(self) -> None:
        """Do nothing: all is done when `queue` returns."""

    def check(self) -> Check:
        """Return the worst of the names' checks."""
        self.poison()
        self.queue()
        found: list[Check] = self._all("check")
        return reduce(worse, found)

    def _all(self, what: str, *arguments: Any) -> list[Any]:
        futures = [thread.submit(getattr(part, what), *arguments) for thread, part in self._parts]
        wait(futures)
        return [future.result() for future in futures]


# --- a process for each name


class Binds:
    """What makes a rank's part of a job; made before its device is opened, which may bind it."""

    def __init__(self) -> None:
        self._world = World()

    def begin(self) -> None:
        """Do nothing: each one owns its memory."""

    def make(self, job: Job, comm: Any, session: Session) -> RankPart:
        """Take memory for it."""
        place = None
        if job.bound:
            here, rank = socket.gethostname(), comm.Get_rank()
            mine = [number for number, (host, _) in enumerate(job.names) if host == here]
            found = self._world.near([job.names[number][1] for number in mine])
            place = found[mine.index(rank)]
        return RankPart(placed(session, job, self._world, place, comm), comm)


class RankPart:
    """A rank's part; it is done when every rank has done its own."""

    def __init__(self, part: Placed, comm: Any) -> None:
        self.settle, self.poison, self.check = part.settle, part.poison, part.check
        self._part, self._comm = part, comm

    def run(self, rounds: int) -> None:
        """Do it `rounds` times."""
        self._part.run(rounds)
        self._comm.Barrier()


class RankNames:
    """The processes that MPI has started, one for each name."""

    comm = "mpi"
    cases: tuple[str, ...] = ("h2d", "d2h", "allreduce")

    def __init__(self, ranks: MpiRanks) -> None:
        self._ranks = ranks

    @property
    def hosts(self) -> list[str]:
        """Return the machine of each rank."""
        return [seat.host for seat in self._ranks.seats]

    def beside(self, bindings: Iterable[Binding]) -> Iterable[Binding]:
        """Return those whose memory is this machine's."""
        return self._ranks.beside(bindings)

    def begin(self) -> None:
        """Let every rank give back its memory."""
        self._ranks.begin()

    def round(self, job: Job) -> RankRound:
        """Take memory on every rank; raises OutOfMemory, by the name of the rank."""
        return RankRound(self._ranks, self._ranks.make(job))


class RankRound(MpiRound):
    """A job on all ranks."""

    def renew(self) -> None:
        """Let every rank go to its place."""
        self._ranks.tell("ask", self._number, "settle")

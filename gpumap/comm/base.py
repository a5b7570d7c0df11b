"""What carries between ranks: the contract of every engine, and what is built on it for processes.

An engine is what users run: MPI (`gpumap.comm.mpi`), torch.distributed (`gpumap.comm.torch`), or
threads of one process (`gpumap.comm.threads`). Objects go between ranks as it sends them, and
`native` is its own allreduce; `host` and `ring` are schedules (`gpumap.comm.algorithms`) over its
sends and receives.

Rank 0 may serve all ranks: answer numbers, and change arrays, for one of them at a time. Between
processes that is a thread of rank 0.
"""

from __future__ import annotations

import sys
import threading
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from gpumap.backends.base import destination
from gpumap.comm.algorithms import schedule
from gpumap.dtypes import Array, np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumap.backends.base import Buffer, Mark, Session
    from gpumap.comm.algorithms import Schedule, Step, Transfer

    Ends = Sequence[tuple[Array, int]]  # arrays, each with the rank that it goes to or comes from


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


class Beats(Protocol):
    """Heartbeats of all ranks to rank 0, usable from a thread."""

    def beat(self) -> None:
        """Send one; does not wait."""

    def heard(self, rank: int) -> bool:
        """Return whether one of a rank has come since the last call."""

    def close(self) -> None:
        """Send no more."""


class Served(Protocol):
    """What rank 0 does for every rank."""

    def answer(self, rank: int, number: int) -> tuple[int, int]:
        """Return two numbers for the one that a rank sends."""

    def change(self, array: Array) -> None:
        """Change an array that a rank has sent; it goes back to it."""


class Service(Protocol):
    """What rank 0 serves, as a rank calls it; while it serves one, the others wait."""

    remote: bool  # in another process

    def ask(self, number: int) -> tuple[int, int]:
        """Return what rank 0 answers."""

    def trade(self, array: Array, begun: Callable[[], None]) -> None:
        """Let rank 0 change an array; `begun` is called when it is this rank's turn."""


class Comm(Protocol):
    """All ranks of a job, as one of them sees them."""

    name: str  # local, mpi, torch
    rank: int
    size: int
    failures: tuple[type[Exception], ...]  # raised where another rank is gone

    def broadcast(self, what: Any = None) -> Any:
        """Return the object of rank 0, on every rank."""

    def gather(self, what: Any) -> list[Any] | None:
        """Return the object of every rank, on rank 0."""

    def barrier(self) -> None:
        """Return when every rank has come here."""

    def meet(self, session: Session, then: Callable[[], object] | None = None) -> Sequence[Mark]:
        """Come together with every rank; return the marks at which all are there.

        `then` is an exchange, as `summing` returns it, to be done or queued.
        """

    def allreduce(self, array: Any) -> Callable[[], None]:
        """Return the engine's own exchange: it replaces an array by the sum over all ranks."""

    def summing(self, algorithm: str, buffer: Buffer) -> Callable[[], object]:
        """Return what replaces a device's buffer by the sum over all ranks, when they meet.

        Every rank calls this.
        """

    def send(self, what: Any, to: int, array: Array | None = None) -> None:
        """Send an object, and float32s that nothing changes; does not wait for the receiver."""

    def sending(self) -> int:
        """Return how many arrays were sent that may not have been received."""

    def waiting(self) -> bool:
        """Return whether an object has come."""

    def receive(self) -> tuple[Any, Array | None]:
        """Return the next object that was sent to this rank, and its array; waits."""

    def serve(self, served: Served) -> AbstractContextManager[Service]:
        """Let rank 0 serve all ranks, until each of them was answered no second number."""
        ...

    def close(self) -> None:
        """Leave the other ranks."""


def gathered(comm: Comm, what: Any) -> list[Any]:
    """Return the object of every rank, on every rank."""
    result: list[Any] = comm.broadcast(comm.gather(what))
    return result


# --- ranks that are processes


class ProcessComm(Comm, Protocol):
    """Ranks that are processes: an engine says how it carries, the rest is here."""

    def part(self, size: int) -> ProcessComm | None:
        """Return the first ranks as an engine of their own, on each of them; collective."""

    def in_place(self, native: Any) -> bool:
        """Return whether the engine can exchange an array that a device's library holds."""

    def move(self, sends: Ends, receives: Ends) -> None:
        """Send and receive arrays, all at once; return when they have come and gone."""

    def put(self, array: Array, to: int, tag: int) -> None:
        """Send an array; usable from a thread beside other calls."""

    def take(self, array: Array, sender: int | None, tag: int) -> int:
        """Receive an array of one rank or, with None, of any, and return of which; as `put`."""
        ...

    def beats(self) -> Beats:
        """Return what sends heartbeats; called by all ranks."""
        ...

    def abort(self) -> None:
        """End all ranks, as one that has failed."""

    def meet(self, session: Session, then: Callable[[], object] | None = None) -> Sequence[Mark]:
        """Wait for this rank's device, and for every other rank; exchange."""
        session.synchronize()
        self.barrier()
        mark = session.mark()
        if then is not None:
            then()
        return (mark,)

    def summing(self, algorithm: str, buffer: Buffer) -> Callable[[], object]:
        """Return the exchange of a buffer: in place where the engine can, else by the host.

        Raises:
            OutOfMemory: the host has no room for it.
        """
        if algorithm == "native" and self.in_place(buffer.native):
            return on_stream(buffer.session, self.allreduce(buffer.native))
        staging = Staging(buffer)
        summed = exchange(algorithm, self, staging.array)
        if staging.on_host:  # an exchange of microseconds is one call, as in any program
            return summed

        def by_host() -> None:
            staging.read()
            summed()
            staging.put()

        return by_host

    @contextmanager
    def serve(self, served: Served) -> Iterator[Service]:
        """Serve by a thread of rank 0."""
        if self.rank:
            yield RemoteService(self)
            return
        lock, failure = threading.Lock(), list[BaseException]()

        def work() -> None:
            try:
                _serve(self, served, lock)
            except BaseException as error:  # noqa: BLE001 - it is said, and ends all ranks
                sys.excepthook(type(error), error, error.__traceback__)
                self.abort()  # those that wait for an answer would wait for ever
                failure.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        yield OwnService(0, served, lambda: lock)
        thread.join()
        if failure:
            raise failure[0]


class ScheduledExchange:
    """One exchange of a rank's array with those of all others, to be run again and again."""

    def __init__(self, plan: Schedule, comm: ProcessComm, array: Array) -> None:
        """Take scratch.

        Args:
            plan: of the exchange.
            comm: of as many ranks.
            array: shape (length,), in C order; the sum takes its place.
        """
        self._comm, self._array = comm, array
        self._scratch = np.empty(plan.scratch(comm.rank), array.dtype)
        self._steps = [self._part(step) for step in plan.steps]

    def _part(self, step: Step) -> tuple[Ends, Ends, list[Array]]:
        """Return what this rank sends and receives in a step, and where it adds."""
        rank = self._comm.rank
        sends = [(self._of(t), t.receiver) for t in step if t.sender == rank]
        received = [t for t in step if t.receiver == rank]
        receives = [
            (self._scratch[: t.length] if t.add else self._of(t), t.sender) for t in received
        ]
        return sends, receives, [self._of(t) for t in received if t.add]

    def _of(self, transfer: Transfer) -> Array:
        result: Array = self._array[transfer.start : transfer.stop]
        return result

    def run(self) -> None:
        """Exchange, and return when this rank has the sum and may be overwritten."""
        for sends, receives, added in self._steps:
            self._comm.move(sends, receives)
            for place in added:
                np.add(place, self._scratch[: len(place)], out=place)


def exchange(algorithm: str, comm: ProcessComm, array: Array) -> Callable[[], None]:
    """Return the exchange of `array` by `native`, or by an algorithm that has a schedule."""
    if algorithm == "native":
        return comm.allreduce(array)
    return ScheduledExchange(schedule(algorithm, comm.size, len(array)), comm, array).run


class Staging:
    """A device's buffer on the host: the buffer itself where the device is a core, else a copy."""

    def __init__(self, buffer: Buffer) -> None:
        """Take host memory, if it takes any; raises OutOfMemory."""
        self._buffer, self._session = buffer, buffer.session
        self.on_host = self._session.device.backend == "numpy"
        self.array: Array = buffer.native if self.on_host else destination(buffer)

    def read(self) -> Array:
        """Copy the elements to the host and return them; waits for the device."""
        if not self.on_host:
            self._session.download(self._buffer, self.array)
        self._session.synchronize()
        return self.array

    def put(self) -> None:
        """Copy the elements back; waits, so that they may be written again."""
        if not self.on_host:
            self._session.upload(self.array, self._buffer)
            self._session.synchronize()


def on_stream(session: Session, exchange: Callable[[], object]) -> Callable[[], object]:
    """Return an engine's exchange of a device's array, queued where its session queues its work."""
    current = getattr(session, "current", None)
    if current is None:  # an array of the host
        return exchange

    def queued() -> None:
        with current:
            exchange()

    return queued


# --- rank 0 serves all ranks


_REQUEST, _ANSWER, _TRADE = 11, 12, 13  # tags


class OwnService:
    """What is served where it is: in the process of rank 0."""

    remote = False

    def __init__(
        self, rank: int, served: Served, exclusive: Callable[[], AbstractContextManager[object]]
    ) -> None:
        """Call `served` as a rank; `exclusive` lets one rank in at a time."""
        self._rank, self._served, self._exclusive = rank, served, exclusive

    def ask(self, number: int) -> tuple[int, int]:
        """Return what rank 0 answers."""
        with self._exclusive():
            return self._served.answer(self._rank, number)

    def trade(self, array: Array, begun: Callable[[], None]) -> None:
        """Let rank 0 change an array."""
        with self._exclusive():
            begun()
            self._served.change(array)


class RemoteService:
    """What is served by another process."""

    remote = True

    def __init__(self, comm: ProcessComm) -> None:
        self._comm = comm

    def ask(self, number: int, length: int = 0) -> tuple[int, int]:
        """Return what rank 0 answers; `length` is that of an array to trade, else 0."""
        answer = np.empty(2, np.int64)
        self._comm.put(np.array([number, length], np.int64), 0, _REQUEST)
        self._comm.take(answer, 0, _ANSWER)
        return int(answer[0]), int(answer[1])

    def trade(self, array: Array, begun: Callable[[], None]) -> None:
        """Let rank 0 change an array.

        It answers first, so that waiting is not booked as moving the array.
        """
        self.ask(0, array.size)
        begun()
        self._comm.put(array, 0, _TRADE)
        self._comm.take(array, 0, _TRADE)


def _serve(comm: ProcessComm, served: Served, lock: threading.Lock) -> None:
    """Serve the other ranks until each was answered no second number."""
    left, request = comm.size - 1, np.empty(2, np.int64)
    while left:
        rank = comm.take(request, None, _REQUEST)
        number, length = request.tolist()
        with lock:
            if length:
                comm.put(np.zeros(2, np.int64), rank, _ANSWER)
                array = np.empty(length, np.float32)
                comm.take(array, rank, _TRADE)
                served.change(array)
                comm.put(array, rank, _TRADE)
                continue
            answer = np.array(served.answer(rank, number), np.int64)
            comm.put(answer, rank, _ANSWER)
            left -= not answer[1]

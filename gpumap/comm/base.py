"""What carries between ranks: the contract of every engine, and what is built on it for processes.

An engine is what users run: MPI (`gpumap.comm.mpi`), torch.distributed (`gpumap.comm.torch`), or
threads of one process (`gpumap.comm.threads`). Objects go between ranks as it sends them, and
`native` is its own allreduce; `host` and `ring` (`gpumap.comm.algorithms`) are steps of its sends
and receives.

Rank 0 may serve all ranks: answer numbers, and change arrays, for one of them at a time. Between
processes that is a thread of rank 0. A rank calls what rank 0 serves with a number, or with an
array, and gets two numbers; rank 0 knows which rank calls.
"""

from __future__ import annotations

import sys
import threading
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from gpumap.backends.base import destination
from gpumap.comm.algorithms import STEPS
from gpumap.dtypes import Array, np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumap.backends.base import Buffer, Session
    from gpumap.comm.algorithms import Ends

    Action = Callable[[], object]  # as an exchange, to be done or queued
    Ask = Callable[..., tuple[int, int]]  # of a number, and of an array that it may change
    Served = Callable[[int, int, Array | None], tuple[int, int]]  # of the rank that calls, too

T = TypeVar("T")


class Comm(Protocol):
    """All ranks of a job, as one of them sees them."""

    name: str  # local, mpi, torch
    rank: int
    size: int

    def broadcast(self, what: Any = None) -> Any:
        """Return the object of rank 0, on every rank."""
        return self.gather(what)[0]

    def gather(self, what: Any) -> list[Any]:
        """Return the object of every rank, on every rank."""

    def barrier(self) -> None:
        """Return when every rank has come here."""
        self.gather(None)

    def meet(self, session: Session, mark: Callable[[], T], then: Action) -> Sequence[T]:
        """Come together with every rank; return what `mark` returns when all are there.

        `then` is an exchange, as `summing` returns it.
        """

    def allreduce(self, array: Any) -> Callable[[], None]:
        """Return the engine's own exchange: it replaces an array by the sum over all ranks."""

    def summing(self, algorithm: str, buffer: Buffer) -> Action:
        """Return what replaces a device's buffer by the sum over all ranks, when they meet.

        Every rank calls this.
        """

    def send(self, what: Any, to: int, array: Array | None = None) -> None:
        """Send an object, and float32s that nothing changes; does not wait for the receiver."""

    def sending(self) -> int:
        """Return how many arrays were sent that may not have been received."""
        return 0

    def waiting(self) -> bool:
        """Return whether an object has come."""

    def receive(self, room: Array | None = None) -> tuple[Any, Array | None]:
        """Return the next object that was sent to this rank, and its array, in `room`; waits."""

    def serve(self, served: Served) -> AbstractContextManager[Ask]:
        """Let all ranks call what rank 0 serves, until no second number was answered to each."""


# --- ranks that are processes


class ProcessComm(Comm, Protocol):
    """Ranks that are processes: an engine says how it carries, the rest is here."""

    failures: tuple[type[Exception], ...] = ()  # raised where another rank is gone
    sent: list[tuple[Callable[[], bool], Array]]  # arrays, and whether each has arrived

    def part(self, size: int) -> ProcessComm:
        """Return the first ranks as an engine of their own; collective, of use on these alone.

        A thread may use it beside another one that uses this engine.
        """

    def in_place(self, native: Any) -> bool:
        """Return whether the engine can exchange an array that a device's library holds."""

    def move(self, sends: Ends, receives: Ends) -> None:
        """Send and receive arrays, all at once; return when they have come and gone."""

    def abort(self) -> None:
        """End all ranks, as one that has failed."""

    def close(self) -> None:
        """Leave the other ranks."""

    def sending(self) -> int:
        """Return how many arrays were sent that may not have arrived, and forget the others."""
        self.sent = [(arrived, array) for arrived, array in self.sent if not arrived()]
        return len(self.sent)

    def meet(self, session: Session, mark: Callable[[], T], then: Action) -> Sequence[T]:
        """Wait for this rank's device, and for every other rank; exchange."""
        session.synchronize()
        self.barrier()
        there = mark()
        then()
        return (there,)

    def summing(self, algorithm: str, buffer: Buffer) -> Action:
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

    @cached_property
    def aside(self) -> ProcessComm:
        """The same ranks, for what rank 0 serves."""
        return self.part(self.size)

    @contextmanager
    def serve(self, served: Served) -> Iterator[Ask]:
        """Serve by a thread of rank 0."""
        aside, lock, failure = self.aside, threading.Lock(), list[BaseException]()

        def remote(number: int, array: Array | None = None) -> Any:
            aside.send((self.rank, number), 0, array)
            return aside.receive(array)[0]

        def own(number: int, array: Array | None = None) -> tuple[int, int]:
            with lock:
                return served(0, number, array)

        def work() -> None:
            try:
                _serve(aside, served, lock, self.size - 1)
            except BaseException as error:  # noqa: BLE001 - it is said, and ends all ranks
                sys.excepthook(type(error), error, error.__traceback__)
                self.abort()  # those that wait for an answer would wait for ever
                failure.append(error)

        if self.rank:
            yield remote
            return
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        yield own
        thread.join()
        if failure:
            raise failure[0]


def exchange(algorithm: str, comm: ProcessComm, array: Array) -> Callable[[], None]:
    """Return the exchange of `array`, shape (length,), by `native`, `host` or `ring`."""
    if algorithm == "native":
        return comm.allreduce(array)
    empty = partial(np.empty, dtype=array.dtype)
    steps = [*STEPS[algorithm](comm.rank, comm.size, array, empty)] if len(array) else []

    def run() -> None:
        for sends, receives, place in steps:
            comm.move(sends, receives)
            if place is not None:
                np.add(place, receives[0][0], out=place)

    return run


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


def on_stream(session: Session, exchange: Action) -> Action:
    """Return an engine's exchange of a device's array, queued where its session queues its work."""
    current = getattr(session, "current", None)
    if current is None:  # an array of the host
        return exchange

    def queued() -> None:
        with current:
            exchange()

    return queued


def _serve(comm: ProcessComm, served: Served, lock: threading.Lock, left: int) -> None:
    """Serve so many ranks, of all that `comm` has, until no second number was answered to each."""
    while left:
        (rank, number), array = comm.receive()
        with lock:
            answer = served(rank, number, array)
        left -= array is None and not answer[1]
        comm.send(answer, rank, array)

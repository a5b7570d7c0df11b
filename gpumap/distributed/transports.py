"""Ranks that are processes, on one node or many: the slices travel by MPI (mpi4py).

All bytes are moved by MPI: sends and receives are MPI's, and so is `native`, its own Allreduce,
Reduce_scatter or Allgatherv. A schedule is run ahead as far as it allows and `AHEAD` steps at most,
so that one segment is added while the next ones are under way.

Where less is to travel, slices are float16 on the wire (Theano-MPI's asa16): each is rounded when
it is sent, at its sender too, and added to float32. In the end every rank rounds the sum, so that
all have the same bits: two that add what each has sent the other have added the same two numbers.

Ranks of one process: the sessions of a map, each with a buffer of its own.

A copy is in the queue of its sender, and waits there until the receiver's queue has come to it:
what the receiver did before with that place, or that scratch, is over. The receiver's queue waits
for the copy, then adds. All of it is queued at once; the host waits for nothing but the end.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from gpumap.backends.base import Buffer, destination, has_data, require
from gpumap.distributed.algorithms import balanced, schedule, slices
from gpumap.dtypes import Array, np
from gpumap.errors import AbsentError
from gpumap.extras import install

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gpumap.backends.base import Route, Session
    from gpumap.distributed.algorithms import Schedule, Step, Transfer, Turn
    from gpumap.dtypes import Dtype

    Mark = Any


class Exchange(Protocol):
    """An exchange between buffers that is queued again and again."""

    def queue(self) -> frozenset[Any]:
        """Queue it; return how its copies go."""


@dataclass(frozen=True, slots=True)
class _Move:
    """A transfer with its memory: a copy, and where the receiver adds it, if it does."""

    sender: int
    receiver: int
    source: Buffer
    target: Buffer  # the place itself, or scratch
    place: Buffer | None  # None: the copy is all
    length: int


class Library(Protocol):
    """A library that does the exchange."""

    def exchange(self, buffers: Sequence[Any]) -> Exchange:
        """Return the exchange of one buffer of each session."""


class LocalExchange:
    """One exchange between buffers of several sessions, ready to be queued again and again."""

    def __init__(
        self,
        plan: Schedule,
        sessions: Sequence[Session],
        buffers: Sequence[Buffer],
        scratch: list[Buffer | None] | None = None,
    ) -> None:
        """Take scratch on each session, if none is given; `buffers` have one axis each.

        Raises:
            Unsupported: a session that adds has no kernels.
            OutOfMemory: there is no room for the scratch.
        """
        self._plan = plan
        self._sessions = tuple(sessions)
        self._buffers = tuple(buffers)
        adding = {t.receiver for step in plan.steps for t in step.transfers if t.add}
        for rank in sorted(adding):
            require(sessions[rank], "kernels", "adding what is exchanged")
        self._scratch = scratch or [
            _scratch(plan, rank, session, buffers[rank]) for rank, session in enumerate(sessions)
        ]
        self._steps = [tuple(self._moves(step)) for step in plan.steps]

    def at(self, buffers: Sequence[Buffer]) -> LocalExchange:
        """Return the same exchange of other buffers, with the scratch of this one."""
        return LocalExchange(self._plan, self._sessions, buffers, self._scratch)

    def queue(self) -> frozenset[Route]:
        """Queue the exchange on all sessions; return how its copies go."""
        return frozenset(route for moves in self._steps for route in self._queue(moves))

    def finish(self) -> None:
        """Wait until every rank has its sum; raises what went wrong in a queue."""
        for session in self._sessions:
            session.synchronize()

    def _moves(self, step: Step) -> Iterator[_Move]:
        """Yield the transfers of a step; what one rank adds is contiguous in its scratch."""
        used = [0] * len(self._sessions)
        for transfer in step.transfers:
            start = used[transfer.receiver]
            used[transfer.receiver] += transfer.length if transfer.add else 0
            yield self._move(transfer, slice(start, start + transfer.length))

    def _move(self, transfer: Transfer, free: slice) -> _Move:
        elements = slice(transfer.start, transfer.stop)
        source = self._buffers[transfer.sender][elements]
        place = self._buffers[transfer.receiver][elements]
        ranks = transfer.sender, transfer.receiver
        if not transfer.add:
            return _Move(*ranks, source, place, None, transfer.length)
        scratch = self._scratch[transfer.receiver]
        assert scratch is not None
        return _Move(*ranks, source, scratch[free], place, transfer.length)

    def _queue(self, moves: Sequence[_Move]) -> Iterator[Route]:
        """Queue a step: every copy first, so that no sum gets ahead of what is sent."""
        free = {move.receiver: self._sessions[move.receiver].mark() for move in moves}
        arrived: list[Mark] = []
        for move in moves:
            sender = self._sessions[move.sender]
            sender.wait(free[move.receiver])
            yield sender.copy(move.source, move.target)
            arrived.append(sender.mark())
        for move, mark in zip(moves, arrived, strict=True):
            receiver = self._sessions[move.receiver]
            receiver.wait(mark)
            if move.place is not None:
                receiver.run("add", move.place, move.target, move.place, size=move.length)


class HostSum:
    """The exchange through the host: every buffer comes there, is added, and the sum goes back."""

    def __init__(
        self,
        sessions: Sequence[Session],
        buffers: Sequence[Buffer],
        operation: str = "allreduce",
        room: Sequence[Array] | None = None,
    ) -> None:
        """Take host memory for what comes from each session, and for the sum, if none is given.

        The sum has a place of its own: a session that is ahead may send its next numbers while
        another one has not read the sum yet.

        Raises:
            OutOfMemory: there is no room for it.
        """
        self._pairs = list(zip(sessions, buffers, strict=True))
        self._operation = operation
        self._parts = [slice(*each) for each in slices(buffers[0].shape[0], len(buffers))]
        self._room = room or [destination(buffer) for buffer in (*buffers, buffers[0])]
        *self._staging, self._total = self._room

    def at(self, buffers: Sequence[Buffer]) -> HostSum:
        """Return the same exchange of other buffers, with the host memory of this one."""
        sessions = [session for session, _ in self._pairs]
        return HostSum(sessions, buffers, self._operation, self._room)

    def queue(self) -> frozenset[Route]:
        """Exchange; the host is part of it, so that only the way back is left to be waited for."""
        gathers, scatters = self._operation == "all-gather", self._operation == "reduce-scatter"
        staging = [self._total] * len(self._pairs) if gathers else self._staging
        self._copy(staging, down=True, parted=gathers)
        self.finish()
        total, *others = staging
        with np.errstate(all="ignore"):  # as a device, which warns of nothing
            for other in others if has_data(total) and not gathers else ():
                total = np.add(total, other, out=self._total)
        self._copy([total] * len(self._pairs), down=False, parted=scatters)
        return frozenset()

    def _copy(self, arrays: Sequence[Array], *, down: bool, parted: bool) -> None:
        """Queue the copies between each session and its array: of all, or of its slice alone."""
        for (session, buffer), array, part in zip(self._pairs, arrays, self._parts, strict=True):
            if parted and part.start == part.stop:
                continue
            there, here = (buffer[part], array[part]) if parted else (buffer, array)
            if down:
                session.download(there, here)
            else:
                session.upload(here, there)

    def finish(self) -> None:
        """Wait until every rank has its sum."""
        for session, _ in self._pairs:
            session.synchronize()


def exchange(
    algorithm: str,
    sessions: Sequence[Session],
    buffers: Sequence[Buffer],
    operation: str = "allreduce",
) -> HostSum | LocalExchange:
    """Return the exchange of one buffer of each session by `host`, or by a schedule."""
    if algorithm == "host":
        return HostSum(sessions, buffers, operation)
    plan = schedule(algorithm, len(sessions), buffers[0].shape[0], operation=operation)
    return LocalExchange(plan, sessions, buffers)


def send(source: Buffer, target: Buffer) -> Route:
    """Queue a copy to another session's buffer: when both have come to it, and before what follows.

    Return how it went.
    """
    sender, receiver = source.session, target.session
    if sender is not receiver:
        sender.wait(receiver.mark())
    route: Route = sender.copy(source, target)
    if sender is not receiver:
        receiver.wait(sender.mark())
    return route


def _scratch(plan: Schedule, rank: int, session: Session, buffer: Buffer) -> Buffer | None:
    """Return scratch for what a rank receives at once; None where it adds nothing."""
    most = max((turn.scratch for turn in plan.turns(rank)), default=0)
    if not most:
        return None
    result: Buffer = session.empty((most,), cast("Dtype", buffer.dtype.name))
    return result


SEGMENT = 1 << 16  # elements that ring sends at once: they are added while the next ones arrive
AHEAD = 4  # steps under way at once; two would do if segments arrived at an even pace
_INSTALL = f"{install('mpi')}; and an MPI library: apt-get install openmpi-bin"
_SHOWN = 200  # characters of the loader's message


def load() -> Any:
    """Return mpi4py's module MPI; the first call starts MPI.

    Raises:
        AbsentError: mpi4py is not installed, or finds no MPI library that it can load.
    """
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise AbsentError(f"MPI cannot be used: {error}", _INSTALL) from error
    except RuntimeError as error:  # so mpi4py says that it found no library
        first = str(error).partition("\n")[0][:_SHOWN]
        raise AbsentError(f"mpi4py has no MPI library: {first}", _INSTALL) from error
    return MPI


class MpiExchange:
    """One exchange of a rank's array with those of all others, to be run again and again."""

    def __init__(
        self,
        plan: Schedule,
        comm: Any,
        array: Array,
        wire: str | None = None,
        scratch: tuple[list[Array], list[Array]] | None = None,
    ) -> None:
        """Take scratch, if none is given.

        Args:
            plan: of the exchange.
            comm: of mpi4py, with as many ranks.
            array: shape (length,), in C order; the sum takes its place.
            wire: the type that travels, if it is another one.
            scratch: of an exchange by the same plan.
        """
        self._plan, self._comm = plan, comm
        self._array = array
        self._wire = array.dtype if wire is None else np.dtype(wire)
        self._turns = list(plan.turns(comm.Get_rank()))
        self._ahead = max(min(plan.depth(), AHEAD), 1)
        self._arriving, self._leaving = scratch or (
            self._room(turn.receives for turn in self._turns),
            self._room(turn.sends for turn in self._turns) if self._narrow else [],
        )

    @property
    def _narrow(self) -> bool:
        """Return whether what travels is of another type than the array."""
        return bool(self._wire != self._array.dtype)

    def at(self, array: Array) -> MpiExchange:
        """Return the same exchange of another array of that shape, with the scratch of this one."""
        scratch = self._arriving, self._leaving
        return MpiExchange(self._plan, self._comm, array, self._wire.name, scratch)

    def run(self) -> None:
        """Exchange, and return when this rank has the sum and may be overwritten."""
        under_way: deque[tuple[int, list[Any]]] = deque()
        over = 0
        for number, turn in enumerate(self._turns):
            while over < turn.needs or len(under_way) == self._ahead:
                self._end(*under_way.popleft())
                over += 1
            targets, sent = self._targets(number, turn), self._sent(number, turn)
            posted = [self._comm.Irecv(_bits(place), t.sender) for t, place in targets]
            posted += [self._comm.Isend(_bits(each), t.receiver) for t, each in sent]
            under_way.append((number, posted))
        while under_way:
            self._end(*under_way.popleft())
        if self._narrow and self._turns:
            self._array[:] = self._array.astype(self._wire)

    def _end(self, number: int, requests: list[Any]) -> None:
        """Wait for a step, and add or put what came to its place, in the order of its turn."""
        for request in requests:
            request.Wait()
        for transfer, received in self._targets(number, self._turns[number]):
            place = self._of(transfer)
            if transfer.add:
                np.add(place, received, out=place)
            elif self._narrow:
                place[:] = received

    def _targets(self, number: int, turn: Turn) -> Iterator[tuple[Transfer, Array]]:
        """Yield the destination of each receive of a step: its place, or a part of scratch."""
        free, used = self._arriving[number % self._ahead], 0
        for transfer in turn.receives:
            if transfer.add or self._narrow:
                yield transfer, free[used : used + transfer.length]
                used += transfer.length
            else:
                yield transfer, self._of(transfer)

    def _sent(self, number: int, turn: Turn) -> Iterator[tuple[Transfer, Array]]:
        """Yield what each send of a step sends: its slice, or that in the type that travels."""
        used = 0
        for transfer in turn.sends:
            if not self._narrow:
                yield transfer, self._of(transfer)
                continue
            narrow = self._leaving[number % self._ahead][used : used + transfer.length]
            narrow[:] = self._of(transfer)
            self._of(transfer)[:] = narrow
            used += transfer.length
            yield transfer, narrow

    def _of(self, transfer: Transfer) -> Array:
        result: Array = self._array[transfer.start : transfer.stop]
        return result

    def _room(self, steps: Iterable[Sequence[Transfer]]) -> list[Array]:
        """Return scratch for each step that is under way at once, as large as any of them needs."""
        most = max(
            (sum(t.length for t in step if t.add or self._narrow) for step in steps), default=0
        )
        return [np.empty(most, self._wire) for _ in range(self._ahead)]


class NativeExchange:
    """MPI's own exchange, in place: the baseline of every schedule."""

    def __init__(self, comm: Any, array: Array, operation: str = "allreduce") -> None:
        """Exchange `array`, in C order; `run` returns when this rank has what it is to have.

        A reduce-scatter leaves this rank's slice at the beginning of the array.
        """
        self._comm, self._operation = comm, operation
        counts, place = list(balanced(len(array), comm.Get_size())), load().IN_PLACE
        self.run: Callable[[], None] = {
            "allreduce": partial(comm.Allreduce, place, array),
            "reduce-scatter": partial(comm.Reduce_scatter, place, array, counts),
            "all-gather": partial(comm.Allgatherv, place, (array, counts)),
        }[operation]

    def at(self, array: Array) -> NativeExchange:
        """Return the same exchange of another array."""
        return NativeExchange(self._comm, array, self._operation)


def mpi_exchange(
    algorithm: str, comm: Any, array: Array, wire: str | None = None, operation: str = "allreduce"
) -> MpiExchange | NativeExchange:
    """Return the exchange of `array` by `native`, or by an algorithm that has a schedule."""
    if algorithm == "native":
        return NativeExchange(comm, array, operation)
    segment = SEGMENT if algorithm == "ring" else None
    plan = schedule(algorithm, comm.Get_size(), len(array), segment, operation)
    return MpiExchange(plan, comm, array, wire)


def _bits(array: Array) -> Array:
    """Return an array as MPI can send it: it has no type of 16-bit floats."""
    return array.view("u2") if array.dtype == "f2" else array

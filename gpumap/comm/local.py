"""Exchanges between the devices of a process: copies between their sessions, or by the host.

The ranks are the sessions of a map, each with a buffer of its own.

A copy is in the queue of its sender, and waits there until the receiver's queue has come to it:
what the receiver did before with that place, or that scratch, is over. The receiver's queue waits
for the copy, then adds. All of it is queued at once; the host waits for nothing but the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from gpumap.backends.base import Buffer, destination, has_data, require
from gpumap.comm.algorithms import schedule
from gpumap.dtypes import np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.backends.base import Route, Session
    from gpumap.comm.algorithms import Schedule, Transfer
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
    ) -> None:
        """Take scratch on each session; `buffers` have one axis each.

        Raises:
            Unsupported: a session that adds has no kernels.
            OutOfMemory: there is no room for the scratch.
        """
        self._sessions = tuple(sessions)
        self._buffers = tuple(buffers)
        adding = {t.receiver for step in plan.steps for t in step if t.add}
        for rank in sorted(adding):
            require(sessions[rank], "kernels", "adding what is exchanged")
        self._scratch = [
            _scratch(plan, rank, session, buffers[rank]) for rank, session in enumerate(sessions)
        ]
        self._steps = [tuple(map(self._move, step)) for step in plan.steps]

    def queue(self) -> frozenset[Route]:
        """Queue the exchange on all sessions; return how its copies go."""
        return frozenset(route for moves in self._steps for route in self._queue(moves))

    def _move(self, transfer: Transfer) -> _Move:
        elements = slice(transfer.start, transfer.stop)
        source = self._buffers[transfer.sender][elements]
        place = self._buffers[transfer.receiver][elements]
        ranks = transfer.sender, transfer.receiver
        if not transfer.add:
            return _Move(*ranks, source, place, None, transfer.length)
        scratch = self._scratch[transfer.receiver]
        assert scratch is not None
        return _Move(*ranks, source, scratch[: transfer.length], place, transfer.length)

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

    def __init__(self, sessions: Sequence[Session], buffers: Sequence[Buffer]) -> None:
        """Take host memory for what comes from each session, and for the sum.

        The sum has a place of its own: a session that is ahead may send its next numbers while
        another one has not read the sum yet.

        Raises:
            OutOfMemory: there is no room for it.
        """
        self._pairs = list(zip(sessions, buffers, strict=True))
        self._staging = [destination(buffer) for buffer in buffers]
        self._total = destination(buffers[0])

    def queue(self) -> frozenset[Route]:
        """Exchange; the host is part of it, so that only the way back is left to be waited for."""
        for (session, buffer), array in zip(self._pairs, self._staging, strict=True):
            session.download(buffer, array)
        for session, _ in self._pairs:
            session.synchronize()
        total, *others = self._staging
        with np.errstate(all="ignore"):  # as a device, which warns of nothing
            for other in others if has_data(total) else ():
                total = np.add(total, other, out=self._total)
        for session, buffer in self._pairs:
            session.upload(total, buffer)
        return frozenset()


def exchange(
    algorithm: str, sessions: Sequence[Session], buffers: Sequence[Buffer]
) -> HostSum | LocalExchange:
    """Return the exchange of one buffer of each session by `host`, or by a schedule."""
    if algorithm == "host":
        return HostSum(sessions, buffers)
    plan = schedule(algorithm, len(sessions), buffers[0].shape[0])
    return LocalExchange(plan, sessions, buffers)


def _scratch(plan: Schedule, rank: int, session: Session, buffer: Buffer) -> Buffer | None:
    """Return scratch for what a rank receives at once; None where it adds nothing."""
    most = plan.scratch(rank)
    if not most:
        return None
    result: Buffer = session.empty((most,), cast("Dtype", buffer.dtype.name))
    return result

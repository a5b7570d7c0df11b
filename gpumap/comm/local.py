"""Exchanges between the devices of a process: copies between their sessions, or by the host.

The ranks are the sessions of a map, each with a buffer of its own.

A copy is in the queue of its sender, and waits there until the receiver's queue has come to it:
what the receiver did before with that place, or that scratch, is over. The receiver's queue waits
for the copy, then adds. All of it is queued at once; the host waits for nothing but the end.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from gpumap.backends.base import Buffer, destination, has_data, require
from gpumap.comm.algorithms import ring
from gpumap.dtypes import np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.backends.base import Exchange, Route
    from gpumap.comm.algorithms import Step
    from gpumap.dtypes import Dtype


LIBRARIES = ("nccl", "psum")  # how --comm calls what a library of the devices has


class Ring:
    """The ring of the buffers of several sessions, ready to be queued again and again."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        """Take scratch for one slice on each session; `buffers` have one axis each.

        Raises:
            Unsupported: a session has no kernels.
            OutOfMemory: there is no room for the scratch.
        """
        self._sessions, size = [buffer.session for buffer in buffers], len(buffers)
        for session in self._sessions:
            require(session, "kernels", "adding what is exchanged")
        rooms = [partial(b.session.empty, dtype=cast("Dtype", b.dtype.name)) for b in buffers]
        ranks = (ring(rank, size, buffers[rank], room) for rank, room in enumerate(rooms))
        self._steps = list(zip(*ranks, strict=True))

    def queue(self, iterations: int) -> frozenset[Route]:
        """Queue the exchange on all sessions; return how its copies go."""
        steps = iterations * self._steps
        return frozenset(route for step in steps for route in self._queue(step))

    def _queue(self, step: Sequence[Step]) -> Iterator[Route]:
        """Queue a step of all ranks: copies first, so that no sum gets ahead of what is sent."""
        free = [session.mark() for session in self._sessions]
        arrived = {}
        for session, (sends, _, _) in zip(self._sessions, step, strict=True):
            for source, receiver in sends:
                session.wait(free[receiver])
                yield session.copy(source, step[receiver][1][0][0])
                arrived[receiver] = session.mark()
        for rank, mark in arrived.items():
            _, receives, place = step[rank]
            session = self._sessions[rank]
            session.wait(mark)
            if place is not None:
                session.run("add", place, receives[0][0], place, size=place.shape[0])


class HostSum:
    """The exchange through the host: every buffer comes there, is added, and the sum goes back."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        """Take host memory for what comes from each session, and for the sum.

        The sum has a place of its own: a session that is ahead may send its next numbers while
        another one has not read the sum yet.

        Raises:
            OutOfMemory: there is no room for it.
        """
        self._buffers = buffers
        self._staging = [destination(buffer) for buffer in buffers]
        self._total = destination(buffers[0])

    def queue(self, iterations: int) -> frozenset[Route]:
        """Exchange; the host is part of it, so that only the way back is left to be waited for."""
        for _ in range(iterations):
            for buffer, array in zip(self._buffers, self._staging, strict=True):
                buffer.session.download(buffer, array)
            for buffer in self._buffers:
                buffer.session.synchronize()
            total, *others = self._staging
            with np.errstate(all="ignore"):  # as a device, which warns of nothing
                for other in others if has_data(total) else ():
                    total = np.add(total, other, out=self._total)
            for buffer in self._buffers:
                buffer.session.upload(total, buffer)
        return frozenset()


def exchange(algorithm: str, buffers: Sequence[Buffer]) -> Exchange:
    """Return the exchange of one buffer of each session by `host` or `ring`."""
    return (HostSum if algorithm == "host" else Ring)(buffers).queue

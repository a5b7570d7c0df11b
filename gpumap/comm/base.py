"""What carries between ranks that are processes: the contract of every engine, and its exchanges.

An engine is what users run: MPI (`gpumap.comm.mpi`) or torch.distributed (`gpumap.comm.torch`).
Objects go between ranks as it sends them, and `native` is its own allreduce; `host` and `ring` are
schedules (`gpumap.comm.algorithms`) over its sends and receives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from gpumap.comm.algorithms import schedule
from gpumap.dtypes import Array, np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


class Comm(Protocol):
    """All ranks of a job, as one of them sees them."""

    name: str  # mpi, torch
    rank: int
    size: int
    failures: tuple[type[Exception], ...]  # raised where another rank is gone

    def broadcast(self, what: Any = None) -> Any:
        """Return the object of rank 0, on every rank."""

    def gather(self, what: Any) -> list[Any] | None:
        """Return the object of every rank, on rank 0."""

    def barrier(self) -> None:
        """Return when every rank has come here."""

    def allreduce(self, array: Any) -> Callable[[], None]:
        """Return the engine's own exchange: it replaces an array by the sum over all ranks."""

    def in_place(self, native: Any) -> bool:
        """Return whether the engine can exchange an array that a device's library holds."""

    def move(self, sends: Ends, receives: Ends) -> None:
        """Send and receive arrays, all at once; return when they have come and gone."""

    def send(self, what: Any, to: int) -> None:
        """Send an object; does not wait for its receiver."""

    def waiting(self) -> bool:
        """Return whether an object has come."""

    def receive(self) -> Any:
        """Return the next object that was sent to this rank; waits."""

    def beats(self) -> Beats:
        """Return what sends heartbeats; called by all ranks."""
        ...

    def close(self) -> None:
        """Leave the other ranks."""


class ScheduledExchange:
    """One exchange of a rank's array with those of all others, to be run again and again."""

    def __init__(self, plan: Schedule, comm: Comm, array: Array) -> None:
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


def exchange(algorithm: str, comm: Comm, array: Array) -> Callable[[], None]:
    """Return the exchange of `array` by `native`, or by an algorithm that has a schedule."""
    if algorithm == "native":
        return comm.allreduce(array)
    return ScheduledExchange(schedule(algorithm, comm.size, len(array)), comm, array).run

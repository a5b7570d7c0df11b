"""Ranks that are processes, on one node or many: the slices travel by MPI (mpi4py).

All bytes are moved by MPI: sends and receives are MPI's, and so is `native`, its own Allreduce,
Reduce_scatter or Allgatherv. A schedule is run ahead as far as it allows and `AHEAD` steps at most,
so that one segment is added while the next ones are under way.

Where less is to travel, slices are float16 on the wire (Theano-MPI's asa16): each is rounded when
it is sent, at its sender too, and added to float32. In the end every rank rounds the sum, so that
all have the same bits: two that add what each has sent the other have added the same two numbers.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.distributed.algorithms import balanced, schedule
from gpumap.dtypes import Array, np
from gpumap.errors import AbsentError
from gpumap.extras import install

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gpumap.distributed.algorithms import Schedule, Transfer, Turn


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
            under_way.append((number, self._post(number, turn)))
        while under_way:
            self._end(*under_way.popleft())
        if self._narrow and self._turns:
            self._array[:] = self._array.astype(self._wire)

    def _post(self, number: int, turn: Turn) -> list[Any]:
        """Begin every receive of a step, then every send; return what to wait for."""
        comm, targets, sent = self._comm, self._targets(number, turn), self._sent(number, turn)
        requests = [comm.Irecv(_bits(place), t.sender) for t, place in targets]
        return requests + [comm.Isend(_bits(array), t.receiver) for t, array in sent]

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


def exchange(
    algorithm: str,
    comm: Any,
    array: Array,
    wire: str | None = None,
    operation: str = "allreduce",
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

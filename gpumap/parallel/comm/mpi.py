"""Ranks that are processes, on one node or many: the slices travel by MPI (mpi4py).

Nothing of this moves a byte by itself: sends and receives are MPI's, and so is `native`, its own
Allreduce. A schedule is run ahead as far as it allows and `AHEAD` steps at most, so that one
segment is added while the next ones are under way.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from gpumap.errors import AbsentError, DtypeError, ShapeError
from gpumap.escape import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from gpumap.parallel.algorithms import Schedule, Transfer, Turn

    Array = np.ndarray[Any, Any]

AHEAD = 4  # steps under way at once; two would do if segments arrived at an even pace
_TYPES = ("float32", "float64")
_INSTALL = "pip install 'gpumap[mpi]', and an MPI library: apt-get install openmpi-bin"
_SHOWN = 200  # characters of what the loader says


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
        first = printable(str(error).partition("\n")[0][:_SHOWN])
        raise AbsentError(f"mpi4py has no MPI library: {first}", _INSTALL) from error
    return MPI


class MpiExchange:
    """One exchange of a rank's array with those of all others, to be run again and again."""

    def __init__(self, plan: Schedule, comm: Any, array: Array) -> None:
        """Take scratch; `array` has one axis and is in C order.

        Raises:
            ShapeError: it is not as long as the schedule, or the ranks are more or fewer.
            DtypeError: it is of a type that MPI could not add up either.
        """
        _check(plan, comm, array)
        self._comm = comm
        self._array = array
        self._turns = list(plan.turns(comm.Get_rank()))
        self._ahead = max(min(plan.depth(), AHEAD), 1)
        self._scratch = _scratch(self._turns, self._ahead, array)

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

    def _post(self, number: int, turn: Turn) -> list[Any]:
        """Begin every receive of a step, then every send; return what to wait for."""
        requests = [self._comm.Irecv(place, t.sender) for t, place in self._places(number, turn)]
        requests += [self._comm.Isend(self._of(t), t.receiver) for t in turn.sends]
        return requests

    def _end(self, number: int, requests: list[Any]) -> None:
        """Wait for a step, and add what came, in the order of its turn."""
        import numpy as np

        for request in requests:
            request.Wait()
        for transfer, came in self._places(number, self._turns[number]):
            if transfer.add:
                place = self._of(transfer)
                np.add(place, came, out=place)

    def _places(self, number: int, turn: Turn) -> Iterator[tuple[Transfer, Array]]:
        """Yield where each receive of a step goes: its place, or a part of scratch."""
        free = self._scratch[number % self._ahead]
        used = 0
        for transfer in turn.receives:
            if transfer.add:
                yield transfer, free[used : used + transfer.length]
                used += transfer.length
            else:
                yield transfer, self._of(transfer)

    def _of(self, transfer: Transfer) -> Array:
        found: Array = self._array[transfer.start : transfer.stop]
        return found


class NativeExchange:
    """MPI's own Allreduce, in place: what every schedule is held against."""

    def __init__(self, comm: Any, array: Array) -> None:
        self._comm, self._array, self._place = comm, array, load().IN_PLACE

    def run(self) -> None:
        """Exchange, and return when this rank has the sum."""
        self._comm.Allreduce(self._place, self._array)


def _check(plan: Schedule, comm: Any, array: Array) -> None:
    if comm.Get_size() != plan.ranks:
        said = f"{comm.Get_size()} ranks for a schedule of {plan.ranks}"
        raise ShapeError(said, "make the schedule for the ranks that mpirun has started")
    if array.shape != (plan.length,) or not array.flags.c_contiguous:
        said = f"an array of shape {array.shape} for a schedule of {plan.length} elements"
        raise ShapeError(said, "give one axis of that length, without steps")
    if array.dtype.name not in _TYPES:
        raise DtypeError(f"{array.dtype.name} is not exchanged", f"choose {' or '.join(_TYPES)}")


def _scratch(turns: list[Turn], ahead: int, array: Array) -> list[Array]:
    """Return room for what arrives in each of the steps that are under way at once."""
    import numpy as np

    most = max((turn.scratch for turn in turns), default=0)
    return [np.empty(most, array.dtype) for _ in range(ahead)]

"""MPI as an engine of ranks, by mpi4py."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.comm.base import ProcessComm
from gpumap.dtypes import Array, np
from gpumap.errors import AbsentError
from gpumap.extras import install

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumap.comm.algorithms import Ends

_INSTALL = f"{install('mpi')}; and an MPI library: apt-get install openmpi-bin"
_THREADS = (
    "unset MPI4PY_RC_THREAD_LEVEL and MPI4PY_RC_THREADS, set no mpi4py.rc of them, and use an MPI "
    "library with MPI_THREAD_MULTIPLE (ompi_info has the line Thread support)"
)
_SHOWN = 200  # characters of the loader's message
_OBJECT, _ARRAY, _MOVED = 1, 2, 3  # tags
_REST = 1e-4  # seconds between two polls for an object


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


def require_threads() -> None:
    """Raise AbsentError where not all threads of a process may use MPI at once."""
    mpi = load()
    if mpi.Query_thread() < mpi.THREAD_MULTIPLE:
        message = "MPI was started without MPI_THREAD_MULTIPLE, and a thread of gpumap uses it, too"
        raise AbsentError(message, _THREADS)


class Mpi(ProcessComm):
    """The ranks of a communicator of mpi4py; where one is gone, MPI ends all."""

    name = "mpi"

    def __init__(self, native: Any) -> None:
        self.native = native
        self.rank, self.size = int(native.Get_rank()), int(native.Get_size())
        self.sent = []

    def part(self, size: int) -> Mpi:
        """Return the first ranks; AbsentError where not all threads may use MPI at once."""
        require_threads()
        return Mpi(self.native.Split(int(self.rank >= size), self.rank))

    def broadcast(self, what: Any = None) -> Any:
        """Return the object of rank 0, on every rank."""
        return self.native.bcast(what)

    def gather(self, what: Any) -> list[Any]:
        """Return the object of every rank, on every rank."""
        return list(self.native.allgather(what))

    def barrier(self) -> None:
        """Return when every rank has come here."""
        self.native.Barrier()

    def allreduce(self, array: Array) -> Callable[[], None]:
        """Return MPI's Allreduce of an array, in place."""
        return partial(self.native.Allreduce, load().IN_PLACE, array)

    def in_place(self, native: Any) -> bool:  # noqa: ARG002 - the contract's
        """Return False: whether an MPI library knows of devices, it does not tell."""
        return False

    def move(self, sends: Ends, receives: Ends) -> None:
        """Send and receive arrays, all at once; return when they have come and gone."""
        posted = [self.native.Irecv(array, sender, _MOVED) for array, sender in receives]
        posted += [self.native.Isend(array, receiver, _MOVED) for array, receiver in sends]
        for request in posted:
            request.Wait()

    def send(self, what: Any, to: int, array: Array | None = None) -> None:
        """Send an object, small enough for MPI to keep it until it is received, and an array."""
        self.sending()  # what has left is forgotten
        self.native.send((what, None if array is None else array.size), to, _OBJECT)
        if array is not None:
            self.sent.append((self.native.Isend(array, to, _ARRAY).Test, array))

    def waiting(self) -> bool:
        """Return whether an object has come."""
        return bool(self.native.Iprobe(tag=_OBJECT))

    def receive(self, room: Array | None = None) -> tuple[Any, Array | None]:
        """Return the next object that was sent to this rank, and its array; waits."""
        while not self.waiting():  # MPI's own wait would keep a core busy
            time.sleep(_REST)
        status = load().Status()
        what, size = self.native.recv(tag=_OBJECT, status=status)
        if size is None:
            return what, None
        array = np.empty(size, np.float32) if room is None else room
        self.native.Recv(array, status.Get_source(), _ARRAY)
        return what, array

    def abort(self) -> None:
        """End all ranks."""
        self.native.Abort(1)

    def close(self) -> None:
        """Leave it to mpi4py, which ends MPI with the process."""

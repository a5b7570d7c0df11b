"""A worker that trains with those of other processes: its rule's exchanges, by MPI.

A core's array is the host's own and is exchanged in place; arrays of other devices come to the host
and go back. Every rank does the exchanges of a step in the same order, so that each message has one
who waits for it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from gpumap.distributed.mpi import exchange
from gpumap.dtypes import Array, np
from gpumap.errors import DeviceError
from gpumap.kernels import training
from gpumap.training.optimizers import Mean, Meet, Push

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.backends.base import Buffer
    from gpumap.distributed.mpi import MpiExchange, NativeExchange
    from gpumap.training.optimizers import Exchange
    from gpumap.training.workers import Worker


class Landing:
    """A buffer's elements on the host: its own, where that is the device, else a copy."""

    def __init__(self, buffer: Buffer) -> None:
        """Take host memory, if it takes any; raises MemoryError."""
        self._buffer, self._session = buffer, buffer.session
        self._own = self._session.device.backend == "numpy"
        self.array: Array = buffer.native if self._own else np.empty(buffer.shape, np.float32)

    def fetch(self) -> Array:
        """Return the elements as they are now; waits for the device."""
        if not self._own:
            self._session.download(self._buffer, self.array)
        self._session.synchronize()
        return self.array

    def put(self) -> None:
        """Bring the elements back; waits, so that they may be written again."""
        if not self._own:
            self._session.upload(self.array, self._buffer)
            self._session.synchronize()


class MpiTeam:
    """One rank of a team."""

    def __init__(self, comm: Any, worker: Worker, algorithm: str) -> None:
        """Take part in `comm`, of the ranks that train."""
        self._comm, self._worker, self._algorithm = comm, worker, algorithm
        self._rank = int(comm.Get_rank())
        self.weights = Landing(worker.model.weights)
        self._gradient = Landing(worker.model.gradient)
        self._sums: dict[str, MpiExchange | NativeExchange] = {}
        self._room: Array | None = None
        self._centre: Array | None = None

    def begin(self, parameters: Array) -> None:
        """Begin with the parameters of rank 0, whatever is given here; nothing is remembered.

        Raises:
            DeviceError: what came is not what rank 0 has sent.
        """
        given = np.array(parameters, np.float32)
        sent = self._comm.bcast(_digest(given))
        self._comm.Bcast(given)
        came = _digest(given) == sent
        if self._comm.allreduce(int(came)) != self._comm.Get_size():
            here = "here" if not came else "on another rank"
            raise DeviceError(f"the first parameters came {here} as others than rank 0 has sent")
        self._worker.model.put(given)
        self._worker.session.synchronize()
        self._worker.optimizer.reset()
        if self._centre is not None:
            self._centre[:] = given

    def prepare(self, wanted: Sequence[Exchange]) -> None:
        """Take the memory that exchanges need; raises MemoryError."""
        for one in wanted:
            if isinstance(one, Mean):
                self._sum(one)
            elif isinstance(one, Meet):
                self._keep_centre()
            else:
                self.room()

    def exchange(self, wanted: Exchange, shares: Sequence[float]) -> None:
        """Do an exchange, and return when this rank's part of it is over."""
        if isinstance(wanted, Mean):
            self._mean(wanted, shares[self._rank])
        elif isinstance(wanted, Meet):
            self._meet(wanted)
        else:
            self._push(wanted)

    def parameters(self) -> Array:
        """Return what was trained: the centre's parameters, or this rank's own; waits."""
        found: Array = self.weights.fetch() if self._centre is None else self._centre
        return found.copy()

    def _mean(self, wanted: Mean, share: float) -> None:
        landing = self._landing(wanted)
        array = landing.fetch()
        if wanted.of == "parameters":
            training.scaled(array, share, array)
        self._sum(wanted).run()
        landing.put()

    def _landing(self, wanted: Mean) -> Landing:
        return self._gradient if wanted.of == "gradients" else self.weights

    def _sum(self, wanted: Mean) -> MpiExchange | NativeExchange:
        if wanted.of not in self._sums:
            array = self._landing(wanted).array
            self._sums[wanted.of] = exchange(self._algorithm, self._comm, array)
        return self._sums[wanted.of]

    def _meet(self, wanted: Meet) -> None:
        self._keep_centre()
        if self._rank == 0:
            self._keep(wanted)
        elif self._rank == wanted.worker:
            array = self.weights.fetch()
            self._comm.Send(array, 0)
            self._comm.Recv(array, 0)
            self.weights.put()

    def _keep(self, wanted: Meet) -> None:
        """Let a worker meet the centre, which rank 0 has."""
        assert self._centre is not None  # it was prepared
        if wanted.worker == 0:
            training.elastic(self.weights.fetch(), self._centre, wanted.share)
            self.weights.put()
            return
        came = self.room()
        self._comm.Recv(came, wanted.worker)
        training.elastic(came, self._centre, wanted.share)
        self._comm.Send(came, wanted.worker)

    def _push(self, wanted: Push) -> None:
        if self._rank == wanted.sender:
            self._comm.Send(self.weights.fetch(), wanted.receiver)
        elif self._rank == wanted.receiver:
            came = self.room()
            self._comm.Recv(came, wanted.sender)
            training.blend(self.weights.fetch(), came, wanted.share)
            self.weights.put()

    def room(self) -> Array:
        """Return where this rank takes in what others send."""
        if self._room is None:
            self._room = np.empty(self.weights.array.shape, np.float32)
        return self._room

    def _keep_centre(self) -> None:
        """Let rank 0 have a centre, which begins as it is now."""
        if self._rank == 0 and self._centre is None:
            self.room()
            self._centre = self.weights.fetch().copy()


def _digest(array: Array) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()

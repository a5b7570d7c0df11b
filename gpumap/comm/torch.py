"""torch.distributed as an engine of ranks: gloo for the host, NCCL for CUDA, XCCL for XPU.

The ranks meet in the store that MASTER_ADDR and MASTER_PORT name, as torchrun sets them: objects
for one rank, and heartbeats, go through it.
"""

from __future__ import annotations

import pickle
import time
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.comm.base import ProcessComm
from gpumap.dtypes import Array, np
from gpumap.errors import AbsentError
from gpumap.extras import install

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumap.comm.algorithms import Ends

_FIX = "look at the other ranks: all meet at MASTER_ADDR, the host of rank 0, and MASTER_PORT"
_SHOWN = 200  # characters of PyTorch's message
_NAMED = 16  # ranks of those that are missing
_PATIENCE = 0.7  # of the time limit, after which it is said who does not come
_ARRAY = 1  # tag
_SMALL = 1024  # bytes of an object that is one message
_REST = 0.02  # seconds between two polls
_ENGINES = {"cuda": "nccl", "xpu": "xccl"}


def load() -> Any:
    """Return the module torch.

    Raises:
        AbsentError: PyTorch is not installed, cannot be loaded or has no torch.distributed.
    """
    try:
        import torch
    except (ImportError, OSError) as error:
        raise AbsentError(f"torch.distributed cannot be used: {error}", install("torch")) from error
    if not torch.distributed.is_available():
        raise AbsentError("this build of PyTorch has no torch.distributed", install("torch"))
    return torch


class Torch(ProcessComm):
    """The ranks of torch.distributed's default group."""

    name = "torch"
    failures: tuple[type[Exception], ...] = (RuntimeError,)  # all of torch.distributed's are

    def __init__(
        self, rank: int, size: int, limit: float, part: tuple[Any, Any] | None = None
    ) -> None:
        """Meet the other ranks; where the program itself has, by a group of the same ranks.

        Args:
            rank: of this process.
            size: how many ranks there are.
            limit: seconds in which all must come, and each exchange must end.
            part: the store and the group of ranks that have met.

        Raises:
            AbsentError: PyTorch is not there, or a rank does not come.
        """
        self._torch, self.rank, self.size = load(), rank, size
        self._dist = self._torch.distributed
        self._arrays = self._parts = 0  # that were sent; that were made
        self._limit = timedelta(seconds=limit)
        self.sent = []
        self._room = np.zeros(_SMALL, np.uint8)
        self._engines = {"cpu": "gloo", **dict(self._accelerators())}
        self._which = ",".join(f"{device}:{by}" for device, by in self._engines.items())
        try:
            self._store, self._group = part or self._joined()
            self._store.queue_len(f"to/{rank}")  # not every store has queues
        except (RuntimeError, ValueError) as error:
            first = str(error).partition("\n")[0][:_SHOWN]
            raise AbsentError(f"torch.distributed does not start: {first}", _FIX) from error

    def _joined(self) -> tuple[Any, Any]:
        """Start torch.distributed; where the program has, take a group of this engine's own."""
        if self._dist.is_initialized():
            group = self._dist.new_group(timeout=self._limit, backend=self._which)
            store = self._dist.distributed_c10d._get_default_store()  # noqa: SLF001 - no other way
            return self._dist.PrefixStore("gpumap", store), group
        seconds = _PATIENCE * self._limit.total_seconds()
        meeting = timedelta(seconds=seconds)
        store, *_ = next(self._dist.rendezvous("env://", self.rank, self.size, timeout=meeting))
        self._meet(store, seconds)
        self._dist.init_process_group(
            self._which, store=store, rank=self.rank, world_size=self.size, timeout=self._limit
        )
        return store, None

    def _meet(self, store: Any, seconds: float) -> None:
        """Wait for all ranks; raises AbsentError with those that do not come."""
        store.set(f"here/{self.rank}", b"")
        keys, end = [f"here/{rank}" for rank in range(self.size)], time.monotonic() + seconds
        while not store.check(keys):
            if time.monotonic() > end:
                missing = [rank for rank, key in enumerate(keys) if not store.check([key])]
                who = ", ".join(f"rank {rank}" for rank in missing[:_NAMED])
                message = f"torch.distributed waits for {who}: not there within {seconds:g} s"
                raise AbsentError(message, _FIX)
            time.sleep(_REST)

    def _accelerators(self) -> Any:
        """Yield the kinds of accelerators that this build exchanges between."""
        for device, engine in _ENGINES.items():
            has_engine = getattr(self._dist, f"is_{engine}_available")
            if getattr(self._torch, device).is_available() and has_engine():
                yield device, engine

    def part(self, size: int) -> Torch:
        """Return the first ranks."""
        group = self._dist.new_group([*range(size)], timeout=self._limit, backend=self._which)
        self._parts += 1  # as many on every rank
        # a connection of its own: one that waits for an object does nothing else
        store = self._dist.PrefixStore(f"part/{self._parts}", self._store.clone())
        return Torch(self.rank, size, self._limit.total_seconds(), (store, group))

    def broadcast(self, what: Any = None) -> Any:
        """Return the object of rank 0, on every rank.

        A small one is one message: broadcast_object_list takes two, and three times as long.
        """
        if self.rank == 0:
            sent = pickle.dumps(what)
            sent = sent if len(sent) <= _SMALL else pickle.dumps(...)
            self._room[: len(sent)] = np.frombuffer(sent, np.uint8)
        self._dist.broadcast(self._torch.from_numpy(self._room), 0, self._group)
        box = [pickle.loads(self._room.tobytes())]  # noqa: S301 - of a rank of this job
        if box[0] is ...:
            box[0] = what
            self._dist.broadcast_object_list(box, 0, self._group, device="cpu")
        return box[0]

    def gather(self, what: Any) -> list[Any]:
        """Return the object of every rank, on every rank."""
        every: list[Any] = [None] * self.size
        self._dist.all_gather_object(every, what, self._group)
        return every

    def barrier(self) -> None:
        """Return when every rank has come here."""
        self._dist.barrier(self._group)

    def allreduce(self, array: Any) -> Callable[[], None]:
        """Return the all_reduce of a NumPy array or a tensor, in place."""
        tensor = array if self._torch.is_tensor(array) else self._torch.from_numpy(array)
        return partial(self._dist.all_reduce, tensor, group=self._group)

    def in_place(self, native: Any) -> bool:
        """Return whether it is a tensor, on a device that an engine is there for."""
        return self._torch.is_tensor(native) and native.device.type in self._engines

    def move(self, sends: Ends, receives: Ends) -> None:
        """Send and receive arrays, all at once; return when they have come and gone."""
        tensor, dist, group = self._torch.from_numpy, self._dist, self._group
        posted = [dist.irecv(tensor(array), sender, group) for array, sender in receives]
        posted += [dist.isend(tensor(array), receiver, group) for array, receiver in sends]
        for request in posted:
            request.wait()

    def send(self, what: Any, to: int, array: Array | None = None) -> None:
        """Send an object by a queue of the store, and an array; waits for no receiver."""
        self.sending()  # what has left is forgotten
        size = None if array is None else array.size
        receipt = f"received/{self.rank}/{self._arrays}"
        self._store.queue_push(f"to/{to}", pickle.dumps((what, self.rank, size, receipt)))
        if array is not None:
            request = self._dist.isend(self._torch.from_numpy(array), to, self._group, _ARRAY)
            self.sent.append((partial(self._arrived, receipt, request), array))
            self._arrays += 1

    def _arrived(self, receipt: str, request: Any) -> bool:
        """Return whether an array was received: a request of gloo's does not tell."""
        return bool(self._store.check([receipt]) and request.wait())

    def waiting(self) -> bool:
        """Return whether an object has come."""
        return bool(self._store.queue_len(f"to/{self.rank}"))

    def receive(self, room: Array | None = None) -> tuple[Any, Array | None]:
        """Return the next object that was sent to this rank, and its array; waits."""
        sent = self._store.queue_pop(f"to/{self.rank}")
        what, sender, size, receipt = pickle.loads(sent)  # noqa: S301 - of a rank of this job
        if size is None:
            return what, None
        array = np.empty(size, np.float32) if room is None else room
        self._dist.recv(self._torch.from_numpy(array), sender, self._group, _ARRAY)
        self._store.set(receipt, b"")
        return what, array

    def abort(self) -> None:
        """Do nothing: the launcher ends all ranks where one fails."""

    def close(self) -> None:
        """Leave the other ranks."""
        self._dist.destroy_process_group()

"""torch.distributed as an engine of ranks: gloo for the host, NCCL for CUDA, XCCL for XPU.

The ranks meet in the store that MASTER_ADDR and MASTER_PORT name, as torchrun sets them: objects
for one rank, and heartbeats, go through it.
"""

from __future__ import annotations

import pickle
import time
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.dtypes import np
from gpumap.errors import AbsentError
from gpumap.extras import install

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumap.comm.base import Ends

_FIX = "look at the output of the other ranks; they meet at MASTER_ADDR and MASTER_PORT"
_SHOWN = 200  # characters of PyTorch's message
_NAMED = 16  # ranks of those that are missing
_PATIENCE = 0.7  # of the time limit, after which it is said who does not come
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


class Torch:
    """The ranks of torch.distributed's default group."""

    name = "torch"
    failures: tuple[type[Exception], ...] = (RuntimeError,)  # all of torch.distributed's are

    def __init__(self, rank: int, size: int, limit: float) -> None:
        """Meet the other ranks.

        Args:
            rank: of this process.
            size: how many ranks there are.
            limit: seconds in which all must come, and each exchange must end.

        Raises:
            AbsentError: PyTorch is not there, or a rank does not come.
        """
        self._torch, self.rank, self.size = load(), rank, size
        self._dist = self._torch.distributed
        self._received = 0
        self._room = np.zeros(_SMALL, np.uint8)
        meeting, time_limit = timedelta(seconds=_PATIENCE * limit), timedelta(seconds=limit)
        try:
            self._store, *_ = next(self._dist.rendezvous("env://", rank, size, timeout=meeting))
            self._meet(_PATIENCE * limit)
            self._engines = {"cpu": "gloo", **dict(self._accelerators())}
            which = ",".join(f"{device}:{engine}" for device, engine in self._engines.items())
            self._dist.init_process_group(
                which, store=self._store, rank=rank, world_size=size, timeout=time_limit
            )
        except (RuntimeError, ValueError) as error:
            first = str(error).partition("\n")[0][:_SHOWN]
            raise AbsentError(f"torch.distributed does not start: {first}", _FIX) from error

    def _meet(self, seconds: float) -> None:
        """Wait for all ranks; raises AbsentError with those that do not come."""
        self._store.set(f"here/{self.rank}", b"")
        keys, end = [f"here/{rank}" for rank in range(self.size)], time.monotonic() + seconds
        while not self._store.check(keys):
            if time.monotonic() > end:
                missing = [rank for rank, key in enumerate(keys) if not self._store.check([key])]
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

    def broadcast(self, what: Any = None) -> Any:
        """Return the object of rank 0, on every rank.

        A small one is one message: broadcast_object_list takes two, and three times as long.
        """
        if self.rank == 0:
            sent = pickle.dumps(what)
            sent = sent if len(sent) <= _SMALL else pickle.dumps(...)
            self._room[: len(sent)] = np.frombuffer(sent, np.uint8)
        self._dist.broadcast(self._torch.from_numpy(self._room), 0)
        box = [pickle.loads(self._room.tobytes())]  # noqa: S301 - of a rank of this job
        if box[0] is ...:
            box[0] = what
            self._dist.broadcast_object_list(box, device="cpu")
        return box[0]

    def gather(self, what: Any) -> list[Any] | None:
        """Return the object of every rank, on rank 0."""
        every = None if self.rank else [None] * self.size
        self._dist.gather_object(what, every)
        return every

    def barrier(self) -> None:
        """Return when every rank has come here."""
        self._dist.barrier()

    def allreduce(self, array: Any) -> Callable[[], None]:
        """Return the all_reduce of a NumPy array or a tensor, in place."""
        tensor = array if self._torch.is_tensor(array) else self._torch.from_numpy(array)
        return partial(self._dist.all_reduce, tensor)

    def in_place(self, native: Any) -> bool:
        """Return whether it is a tensor, on a device that an engine is there for."""
        return self._torch.is_tensor(native) and native.device.type in self._engines

    def move(self, sends: Ends, receives: Ends) -> None:
        """Send and receive arrays, all at once; return when they have come and gone."""
        tensor, dist = self._torch.from_numpy, self._dist
        posted = [dist.irecv(tensor(array), sender) for array, sender in receives]
        posted += [dist.isend(tensor(array), receiver) for array, receiver in sends]
        for request in posted:
            request.wait()

    def send(self, what: Any, to: int) -> None:
        """Send an object; does not wait for its receiver."""
        number = self._store.add(f"sent/{to}", 1)
        self._store.set(f"message/{to}/{number}", pickle.dumps(what))

    def waiting(self) -> bool:
        """Return whether an object has come."""
        return bool(self._store.check([self._next]))

    def receive(self) -> Any:
        """Return the next object that was sent to this rank; waits."""
        sent = self._store.get(self._next)
        self._received += 1
        return pickle.loads(sent)  # noqa: S301 - of a rank of this job

    @property
    def _next(self) -> str:
        return f"message/{self.rank}/{self._received + 1}"

    def beats(self) -> TorchBeats:
        """Return what sends heartbeats, by a connection of its own."""
        return TorchBeats(self._store.clone(), self.rank)

    def close(self) -> None:
        """Leave the other ranks."""
        self._dist.destroy_process_group()


class TorchBeats:
    """Heartbeats as a counter for each rank; without the store there are none."""

    def __init__(self, store: Any, rank: int) -> None:
        self._store, self._rank = store, rank
        self._counted: dict[int, int] = {}

    def beat(self) -> None:
        """Count one."""
        with suppress(RuntimeError):
            self._store.add(f"beats/{self._rank}", 1)

    def heard(self, rank: int) -> bool:
        """Return whether one of a rank has come since the last call."""
        with suppress(RuntimeError):
            before = self._counted.get(rank, 0)
            self._counted[rank] = self._store.add(f"beats/{rank}", 0)
            return self._counted[rank] > before
        return False

    def close(self) -> None:
        """Leave the store as it is."""

"""Workers of one process that train one network: a replica and an optimizer on each session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from gpumap.distributed.local import send
from gpumap.dtypes import Array, np
from gpumap.training.optimizers import Mean, Meet, Push

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumap.backends.base import Buffer, Session
    from gpumap.distributed.local import Exchange as Summing
    from gpumap.training.optimizers import Exchange, Optimizer


class Model(Protocol):
    """A network on a session: all of its parameters in one buffer, their gradient in another."""

    session: Session
    weights: Buffer
    gradient: Buffer
    examples: int

    def put(self, parameters: Array) -> None:
        """Queue the copy of parameters to the device."""

    def load(self, x: Any, y: Any) -> None:
        """Queue the copy of a batch to the device."""

    def compute(self, share: float) -> None:
        """Queue the gradient of `share` times the sum of the examples' losses."""


class Worker:
    """Who trains on one device."""

    def __init__(self, name: str, model: Model, optimizer: Optimizer) -> None:
        self.name, self.model, self.optimizer = name, model, optimizer
        self.session = model.session
        self.diverged = False  # what it trains was seen to be no number

    def update(self, rate: float) -> None:
        """Queue a step of the optimizer."""
        self.optimizer.step(self.model.weights, self.model.gradient, rate)


class LocalTeam:
    """Workers between which a rule's exchanges are queued."""

    def __init__(
        self, workers: Sequence[Worker], join: Callable[[Sequence[Buffer]], Summing]
    ) -> None:
        """Take part; `join` returns what sums up one buffer of each worker, in place."""
        self.workers = tuple(workers)
        self._join = join
        self._sums: dict[str, Summing] = {}
        self._rooms: dict[int, Buffer] = {}
        self.centre: Buffer | None = None

    def begin(self, parameters: Array) -> None:
        """Queue that everyone, and the centre, begins with these parameters; nothing is remembered.

        One array goes to every device: no rank can begin with another one.
        """
        for worker in self.workers:
            worker.model.put(parameters)
            worker.optimizer.reset()
        if self.centre is not None:
            self.workers[0].session.upload(parameters, self.centre)

    def exchange(self, wanted: Exchange, shares: Sequence[float]) -> frozenset[Any]:
        """Queue an exchange; `shares` of the batch that each worker has. Return how copies go."""
        if isinstance(wanted, Mean):
            return self._mean(wanted, shares)
        if isinstance(wanted, Meet):
            return self._meet(wanted)
        return self._push(wanted)

    def parameters(self) -> Array:
        """Return what was trained: the centre's parameters, or the first worker's; waits."""
        first = self.workers[0]
        source = self.centre if self.centre is not None else first.model.weights
        found: Array = np.empty(source.shape, np.float32)
        first.session.download(source, found)
        first.session.synchronize()
        return found

    def prepare(self, wanted: Sequence[Exchange]) -> None:
        """Take the memory that exchanges need; raises OutOfMemory, Unsupported."""
        for exchange in wanted:
            if isinstance(exchange, Mean):
                self._sum(exchange)
            elif isinstance(exchange, Meet):
                self.room(0)
                self._centre()
            else:
                self.room(exchange.receiver)

    def _mean(self, wanted: Mean, shares: Sequence[float]) -> frozenset[Any]:
        """Sum up; a gradient is the worker's share of the whole batch's, parameters get theirs."""
        if wanted.of == "parameters":
            for worker, share in zip(self.workers, shares, strict=True):
                weights = worker.model.weights
                worker.session.run("scaled", weights, share, weights, size=weights.shape[0])
        return self._sum(wanted).queue()

    def _sum(self, wanted: Mean) -> Summing:
        if wanted.of not in self._sums:
            models = [worker.model for worker in self.workers]
            buffers = [m.gradient if wanted.of == "gradients" else m.weights for m in models]
            self._sums[wanted.of] = self._join(buffers)
        return self._sums[wanted.of]

    def _meet(self, wanted: Meet) -> frozenset[Any]:
        centre, weights = self._centre(), self.workers[wanted.worker].model.weights
        session, size = self.workers[0].session, centre.shape[0]
        if wanted.worker == 0:
            session.run("elastic", weights, centre, wanted.share, size=size)
            return frozenset()
        room = self.room(0)
        there = send(weights, room)
        session.run("elastic", room, centre, wanted.share, size=size)
        return frozenset((there, send(room, weights)))

    def _push(self, wanted: Push) -> frozenset[Any]:
        receiver, room = self.workers[wanted.receiver], self.room(wanted.receiver)
        route = send(self.workers[wanted.sender].model.weights, room)
        weights = receiver.model.weights
        receiver.session.run("blend", weights, room, wanted.share, size=weights.shape[0])
        return frozenset((route,))

    def room(self, number: int) -> Buffer:
        """Return where a worker takes in the parameters of another one."""
        if number not in self._rooms:
            worker = self.workers[number]
            self._rooms[number] = worker.session.empty(worker.model.weights.shape, "float32")
        return self._rooms[number]

    def _centre(self) -> Buffer:
        """Return the centre, on the first worker's device; it begins as that worker is now."""
        if self.centre is None:
            first = self.workers[0]
            self.centre = first.session.empty(first.model.weights.shape, "float32")
            first.session.copy(first.model.weights, self.centre)
        return self.centre

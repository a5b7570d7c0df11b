"""Optimizers, the rules by which workers train one network, and the workers of one process.

sgd        w -= rate g
momentum   v = 0.9 v + g; w -= rate v: what is remembered knows no rate, so that a new rate needs
           no correction of it (Goyal et al., arXiv:1706.02677, remark 2 and equation 9)
adam       Kingma & Ba, arXiv:1412.6980, with both corrections in the rate (the end of its
           section 2), beta 0.9 and 0.999; epsilon is Keras' 1e-7

Rules:

    bsp      every step: the mean of all gradients, or of all parameters (bulk synchronous parallel)
    easgd    every tau steps each worker and a center move towards each other by a share alpha of
             what they differ by (Zhang, Choromanska & LeCun, arXiv:1412.6651)
    gosgd    in each step each worker, with probability p, pushes its parameters to a random other
             one, which blends them in by weight; half of its weight goes along (Blot et al.,
             arXiv:1611.09726)

A rule returns the exchanges before and after the update of a step, as values; the worker group does
them. Every worker draws the same random numbers: all know the sender and the receiver of each push,
and their order, without a message.

In lock-step (`easgd-lockstep`, `gosgd-lockstep`) a worker exchanges with the center, or takes a
push, at a step that both agree on, and waits for the other one there. As published, `easgd` and
`gosgd` are asynchronous (`gpumap.training.asynchronous`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Literal, Protocol

from gpumap.comm.local import send
from gpumap.dtypes import Array, np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumap.backends.base import Buffer, Session
    from gpumap.comm.local import Exchange as Summing


Average = Literal["gradients", "parameters"]
ALPHA, TAU = 0.5, 10  # Theano-MPI's
CHANCE = 0.01  # Theano-MPI's p
DECAY = 0.9
FIRST, SECOND, EPSILON = 0.9, 0.999, 1e-7


@dataclass(frozen=True, slots=True)
class Mean:
    """Every worker gets the mean of all, by their examples."""

    of: Average


@dataclass(frozen=True, slots=True)
class Elastic:
    """Elastic averaging: a worker and the center move by `share` of their difference."""

    worker: int
    share: float


@dataclass(frozen=True, slots=True)
class Push:
    """The receiver moves towards the sender by `share` of what they differ by."""

    sender: int
    receiver: int
    share: float


Exchange = Mean | Elastic | Push


def partners(exchange: Exchange, workers: int) -> tuple[int, ...]:
    """Return the workers that take part in an exchange: it begins when the last of them comes."""
    if isinstance(exchange, Mean):
        return tuple(range(workers))
    if isinstance(exchange, Elastic):
        return (0, exchange.worker) if exchange.worker else (0,)  # the first one has the center
    return (exchange.sender, exchange.receiver)


RULES = ("bsp", "easgd", "gosgd", "easgd-lockstep", "gosgd-lockstep")


@dataclass(frozen=True, slots=True)
class RuleSpec:
    """Options of a rule."""

    name: str
    average: Average = "gradients"
    alpha: float = ALPHA
    tau: int = TAU
    chance: float = CHANCE

    @property
    def kind(self) -> str:
        """Return bsp, easgd or gosgd."""
        return self.name.removesuffix("-lockstep")

    @property
    def asynchronous(self) -> bool:
        """Return whether workers do not wait for each other."""
        return self.name in ("easgd", "gosgd")

    def of(self, workers: int, seed: int) -> Rule:
        """Return the rule for so many workers."""
        return Rule(self, workers, seed)


class Rule:
    """Exchanges of each step, counted from 0; called for each step once, in order.

    The `weights` are those of gosgd: they sum up to 1.
    """

    def __init__(self, spec: RuleSpec, workers: int, seed: int) -> None:
        self.spec, self._workers = spec, workers
        self.weights = [1.0 / workers] * workers
        self._random = Random(seed)  # noqa: S311 - gossip, not a secret

    def before(self, step: int) -> Sequence[Exchange]:  # noqa: ARG002 - the same in every step
        """Return the exchanges between gradient and update: the mean of the gradients."""
        return self._means("gradients")

    def after(self, step: int) -> Sequence[Exchange]:
        """Return the exchanges after the update, in the order of workers."""
        spec, workers = self.spec, range(self._workers)
        if self._workers == 1:
            return []
        if spec.kind == "easgd":
            exchanging = workers if (step + 1) % spec.tau == 0 else ()
            return [Elastic(worker, spec.alpha) for worker in exchanging]
        if spec.kind == "gosgd":
            pushing = [worker for worker in workers if self._random.random() < spec.chance]
            return [self._push(sender) for sender in pushing]
        return self._means("parameters")

    def _means(self, of: Average) -> Sequence[Exchange]:
        averaged = self.spec.name == "bsp" and self.spec.average == of
        return [Mean(of)] if averaged and self._workers > 1 else []

    def _push(self, sender: int) -> Push:
        other = self._random.randrange(self._workers - 1)
        receiver = other + (other >= sender)
        self.weights[sender] /= 2
        sent = self.weights[sender]
        self.weights[receiver] += sent
        return Push(sender, receiver, sent / self.weights[receiver])


STATES = {"sgd": 0, "momentum": 1, "adam": 2}  # arrays that each remembers
RATES = {"sgd": 0.1, "momentum": 0.01, "adam": 1e-4}  # to begin with
OPTIMIZERS = tuple(STATES)


class Optimizer:
    """Steps along a gradient; `state` are the arrays that it remembers, which begin with 0."""

    def __init__(self, name: str, session: Session, parameters: int) -> None:
        """Take memory; raises OutOfMemory."""
        self._name, self._session, self._parameters = name, session, parameters
        self.steps = 0
        self.state = tuple(session.empty((parameters,), "float32") for _ in range(STATES[name]))
        self.reset()

    def reset(self) -> None:
        """Queue the reset of the state."""
        self.steps = 0
        for buffer in self.state:
            self._session.run("fill", buffer, 0.0, size=self._parameters)

    def step(self, weights: Buffer, gradient: Buffer, rate: float) -> None:
        """Queue one step."""
        self.steps += 1
        constants: tuple[float, ...] = (rate,)
        if self._name == "momentum":
            constants = rate, DECAY
        elif self._name == "adam":
            rate *= math.sqrt(1.0 - SECOND**self.steps) / (1.0 - FIRST**self.steps)
            constants = rate, 1.0 - FIRST, 1.0 - SECOND, EPSILON
        operands = weights, *self.state, gradient, *constants
        self._session.run(self._name, *operands, size=self._parameters)


def scaled(rate: float, workers: int, step: int, warmup: int) -> float:
    """Return the rate of a step of several workers: linear in them, after a warm-up.

    Over the first `warmup` steps it grows by the same factor each, from `rate` to `rate` times
    `workers` (Theano-MPI's warm-up; the rule is Goyal et al.'s, section 2.1).
    """
    return rate * math.pow(workers, min(step / warmup, 1.0) if warmup else 1.0)


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
    """A model and its optimizer on one device."""

    def __init__(self, name: str, model: Model, optimizer: Optimizer) -> None:
        self.name, self.model, self.optimizer = name, model, optimizer
        self.session = model.session
        self.diverged = False  # its parameters are no longer finite

    def update(self, rate: float) -> None:
        """Queue a step of the optimizer."""
        self.optimizer.step(self.model.weights, self.model.gradient, rate)


class LocalGroup:
    """Worker group of one process: queues a rule's exchanges."""

    def __init__(
        self, workers: Sequence[Worker], join: Callable[[Sequence[Buffer]], Summing]
    ) -> None:
        """Form a group; `join` returns an in-place sum of one buffer of each worker."""
        self.workers = tuple(workers)
        self._join = join
        self._sums: dict[str, Summing] = {}
        self._rooms: dict[int, Buffer] = {}
        self.center: Buffer | None = None

    def begin(self, parameters: Array) -> None:
        """Queue the reset of all workers and the center to these parameters.

        One array goes to every device: no rank can begin with another one.
        """
        for worker in self.workers:
            worker.model.put(parameters)
            worker.optimizer.reset()
        if self.center is not None:
            self.workers[0].session.upload(parameters, self.center)

    def exchange(self, requested: Exchange, shares: Sequence[float]) -> frozenset[Any]:
        """Queue an exchange; `shares` of the batch that each worker has. Return how copies go."""
        if isinstance(requested, Mean):
            return self._mean(requested, shares)
        if isinstance(requested, Elastic):
            return self._exchange_center(requested)
        return self._push(requested)

    def parameters(self) -> Array:
        """Return the center's parameters, or the first worker's; waits."""
        first = self.workers[0]
        source = self.center if self.center is not None else first.model.weights
        result: Array = np.empty(source.shape, np.float32)
        first.session.download(source, result)
        first.session.synchronize()
        return result

    def prepare(self, requested: Sequence[Exchange]) -> None:
        """Take the memory that exchanges need; raises OutOfMemory, Unsupported."""
        for exchange in requested:
            if isinstance(exchange, Mean):
                self._sum(exchange)
            elif isinstance(exchange, Elastic):
                self.room(0)
                self._center()
            else:
                self.room(exchange.receiver)

    def _mean(self, requested: Mean, shares: Sequence[float]) -> frozenset[Any]:
        """Sum up; a gradient is the worker's share of the whole batch's, parameters get theirs."""
        if requested.of == "parameters":
            for worker, share in zip(self.workers, shares, strict=True):
                weights = worker.model.weights
                worker.session.run("scaled", weights, share, weights, size=weights.shape[0])
        return self._sum(requested).queue()

    def _sum(self, requested: Mean) -> Summing:
        if requested.of not in self._sums:
            models = [worker.model for worker in self.workers]
            buffers = [m.gradient if requested.of == "gradients" else m.weights for m in models]
            self._sums[requested.of] = self._join(buffers)
        return self._sums[requested.of]

    def _exchange_center(self, requested: Elastic) -> frozenset[Any]:
        center, weights = self._center(), self.workers[requested.worker].model.weights
        session, size = self.workers[0].session, center.shape[0]
        if requested.worker == 0:
            session.run("elastic", weights, center, requested.share, size=size)
            return frozenset()
        room = self.room(0)
        there = send(weights, room)
        session.run("elastic", room, center, requested.share, size=size)
        return frozenset((there, send(room, weights)))

    def _push(self, requested: Push) -> frozenset[Any]:
        receiver, room = self.workers[requested.receiver], self.room(requested.receiver)
        route = send(self.workers[requested.sender].model.weights, room)
        weights = receiver.model.weights
        receiver.session.run("blend", weights, room, requested.share, size=weights.shape[0])
        return frozenset((route,))

    def room(self, number: int) -> Buffer:
        """Return a worker's receive buffer for parameters."""
        if number not in self._rooms:
            worker = self.workers[number]
            self._rooms[number] = worker.session.empty(worker.model.weights.shape, "float32")
        return self._rooms[number]

    def _center(self) -> Buffer:
        """Return the center, on the first worker's device; a copy of its parameters at first."""
        if self.center is None:
            first = self.workers[0]
            self.center = first.session.empty(first.model.weights.shape, "float32")
            first.session.copy(first.model.weights, self.center)
        return self.center

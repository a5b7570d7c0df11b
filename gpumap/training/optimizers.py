"""Optimizers on a session, and rules by which workers train one network.

sgd        w -= rate g
momentum   v = 0.9 v + g; w -= rate v: what is remembered knows no rate, so that a new rate needs
           no correction of it (Goyal et al., arXiv:1706.02677, remark 2 and equation 9)
adam       Kingma & Ba, arXiv:1412.6980, with both corrections in the rate (the end of its
           section 2), beta 0.9 and 0.999; epsilon is Keras' 1e-7

Rules:

    bsp      every step: the mean of all gradients, or of all parameters (bulk synchronous parallel)
    easgd    every tau steps each worker and a centre move towards each other by a share alpha of
             what they differ by (Zhang, Choromanska & LeCun, arXiv:1412.6651)
    gosgd    in each step each worker, with probability p, pushes its parameters to a random other
             one, which blends them in by weight; half of its weight goes along (Blot et al.,
             arXiv:1611.09726)

A rule says which exchanges stand before the update of a step and which behind it, as values; who
has the parameters does them. Every worker draws the same numbers: all know who pushes to whom, and
in which order, so that no one has to ask.

In lock-step (`easgd-lockstep`, `gosgd-lockstep`) a worker meets the centre, or takes what is pushed
to it, at a step that both agree on, and waits for the other one there. As published, `easgd` and
`gosgd` are asynchronous (`gpumap.training.asynchronous`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.backends.base import Buffer, Session

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
class Meet:
    """A worker and the centre move towards each other by `share` of what they differ by."""

    worker: int
    share: float


@dataclass(frozen=True, slots=True)
class Push:
    """The receiver moves towards the sender by `share` of what they differ by."""

    sender: int
    receiver: int
    share: float


Exchange = Mean | Meet | Push


def partners(exchange: Exchange, workers: int) -> tuple[int, ...]:
    """Return the workers that take part in an exchange: it begins when the last of them comes."""
    if isinstance(exchange, Mean):
        return tuple(range(workers))
    if isinstance(exchange, Meet):
        return (0, exchange.worker) if exchange.worker else (0,)  # the first one has the centre
    return (exchange.sender, exchange.receiver)


RULES = ("bsp", "easgd", "gosgd", "easgd-lockstep", "gosgd-lockstep")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A rule that is selected, with what can be set of each."""

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
        """Return whether each worker goes at its own pace."""
        return self.name in ("easgd", "gosgd")

    def of(self, workers: int, seed: int) -> Rule:
        """Return the rule for so many workers."""
        return Rule(self, workers, seed)


class Rule:
    """Exchanges of each step, counted from 0; called for each step once, in order.

    The `weights` are those of gosgd: they sum up to 1.
    """

    def __init__(self, chosen: Chosen, workers: int, seed: int) -> None:
        self.chosen, self._workers = chosen, workers
        self.weights = [1.0 / workers] * workers
        self._random = Random(seed)  # noqa: S311 - gossip, not a secret

    def before(self, step: int) -> Sequence[Exchange]:  # noqa: ARG002 - the same in every step
        """Return the exchanges between gradient and update: the mean of the gradients."""
        return self._means("gradients")

    def after(self, step: int) -> Sequence[Exchange]:
        """Return the exchanges after the update; meetings and pushes in the order of workers."""
        chosen, workers = self.chosen, range(self._workers)
        if self._workers == 1:
            return []
        if chosen.kind == "easgd":
            met = workers if (step + 1) % chosen.tau == 0 else ()
            return [Meet(worker, chosen.alpha) for worker in met]
        if chosen.kind == "gosgd":
            pushing = [worker for worker in workers if self._random.random() < chosen.chance]
            return [self._push(sender) for sender in pushing]
        return self._means("parameters")

    def _means(self, of: Average) -> Sequence[Exchange]:
        averaged = self.chosen.name == "bsp" and self.chosen.average == of
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
        """Queue that all is forgotten."""
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

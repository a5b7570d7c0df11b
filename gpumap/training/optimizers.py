"""How parameters follow their gradient, on a session.

sgd        w -= rate g
momentum   v = 0.9 v + g; w -= rate v: what is remembered knows no rate, so that a new rate needs
           no correction of it (Goyal et al., arXiv:1706.02677, remark 2 and equation 9)
adam       Kingma & Ba, arXiv:1412.6980, with both corrections in the rate (the end of its
           section 2), beta 0.9 and 0.999; epsilon is Keras' 1e-7

Rules by which workers train one network: what they exchange, and when.

    bsp      every step: the mean of all gradients, or of all parameters (bulk synchronous parallel)
    easgd    every tau steps each worker and a centre move towards each other by a share alpha of
             what they differ by (Zhang, Choromanska & LeCun, arXiv:1412.6651)
    gosgd    in each step each worker, with probability p, pushes its parameters to a random other
             one, which blends them in by weight; half of its weight goes along (Blot et al.,
             arXiv:1611.09726)

A rule says which exchanges stand before the update of a step and which behind it, as values; who
has the parameters does them. Every worker draws the same numbers: all know who pushes to whom, and
in which order, so that no one has to ask.

Here all rules run in lock-step: a worker meets the centre, or takes what is pushed to it, at a step
that both agree on, and waits for the other one there. The published easgd and gosgd are
asynchronous: nobody waits, and a fast worker takes more steps than a slow one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from gpumap.errors import QuestionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


class Rule(Protocol):
    """What is exchanged in a step, counted from 0; asked for each step once, in order."""

    name: str

    def before(self, step: int) -> Sequence[Exchange]:
        """Return what comes between gradient and update."""

    def after(self, step: int) -> Sequence[Exchange]:
        """Return what comes behind the update."""


@dataclass(slots=True)
class Bsp:
    """All workers hold the same parameters after every step."""

    workers: int
    average: Average = "gradients"
    name: str = "bsp"

    def before(self, step: int) -> Sequence[Exchange]:  # noqa: ARG002 - the contract's
        """Return the mean of the gradients, where these are averaged."""
        return self._means("gradients")

    def after(self, step: int) -> Sequence[Exchange]:  # noqa: ARG002 - the contract's
        """Return the mean of the parameters, where these are averaged."""
        return self._means("parameters")

    def _means(self, of: Average) -> Sequence[Exchange]:
        return [Mean(of)] if self.workers > 1 and self.average == of else []


@dataclass(slots=True)
class Easgd:
    """Workers on their own, held together by a centre that the first one keeps."""

    workers: int
    alpha: float = ALPHA
    tau: int = TAU
    name: str = "easgd"

    def before(self, step: int) -> Sequence[Exchange]:  # noqa: ARG002 - the contract's
        """Return nothing."""
        return []

    def after(self, step: int) -> Sequence[Exchange]:
        """Return the meetings with the centre, one worker after the other, every tau steps."""
        if (step + 1) % self.tau or self.workers == 1:
            return []
        return [Meet(worker, self.alpha) for worker in range(self.workers)]


@dataclass(slots=True)
class Gosgd:
    """Workers on their own, that tell each other now and then; their weights sum up to 1."""

    workers: int
    chance: float = CHANCE
    seed: int = 1
    name: str = "gosgd"
    weights: list[float] = field(init=False)
    _random: Random = field(init=False)

    def __post_init__(self) -> None:
        """Begin with equal weights."""
        self.weights = [1.0 / self.workers] * self.workers
        self._random = Random(self.seed)  # noqa: S311 - gossip, not a secret

    def before(self, step: int) -> Sequence[Exchange]:  # noqa: ARG002 - the contract's
        """Return nothing."""
        return []

    def after(self, step: int) -> Sequence[Exchange]:  # noqa: ARG002 - the contract's
        """Return the pushes of a step, in the order of their senders."""
        pushing = [worker for worker in range(self.workers) if self._random.random() < self.chance]
        return [self._push(sender) for sender in pushing if self.workers > 1]

    def _push(self, sender: int) -> Push:
        other = self._random.randrange(self.workers - 1)
        receiver = other + (other >= sender)
        self.weights[sender] /= 2
        sent = self.weights[sender]
        self.weights[receiver] += sent
        return Push(sender, receiver, sent / self.weights[receiver])


RULES = ("bsp", "easgd", "gosgd")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A rule that is asked for, with what can be set of each."""

    name: str
    average: Average = "gradients"
    alpha: float = ALPHA
    tau: int = TAU
    chance: float = CHANCE

    def of(self, workers: int, seed: int) -> Rule:
        """Return the rule for so many workers.

        Raises:
            QuestionError: no rule or average is called so, or a number makes none.
        """
        if self.name not in RULES:
            raise QuestionError(f"no rule is called {self.name!r}", f"choose {', '.join(RULES)}")
        averages: tuple[str, ...] = get_args(Average)
        if self.average not in averages:
            said = f"there is no average of {self.average!r}"
            raise QuestionError(said, f"choose {', '.join(averages)}")
        if not 0.0 <= self.alpha <= 1.0 or not 0.0 <= self.chance <= 1.0 or self.tau < 1:
            said = f"alpha {self.alpha:g}, tau {self.tau}, p {self.chance:g} make no rule"
            raise QuestionError(said, "give alpha and p of 0 to 1, tau of 1 or more")
        if self.name == "bsp":
            return Bsp(workers, self.average)
        if self.name == "easgd":
            return Easgd(workers, self.alpha, self.tau)
        return Gosgd(workers, self.chance, seed)


class Optimizer(Protocol):
    """What makes a step of a gradient; what it remembers are `state`, as long as the parameters."""

    steps: int
    state: tuple[Buffer, ...]

    def step(self, weights: Buffer, gradient: Buffer, rate: float) -> None:
        """Queue one step."""

    def reset(self) -> None:
        """Queue that all is forgotten."""


class _Remembering:
    """Buffers of a session that begin with 0, and the number of steps."""

    count = 0  # of buffers

    def __init__(self, session: Session, parameters: int) -> None:
        """Take memory; raises OutOfMemory."""
        self.session, self.parameters = session, parameters
        self.steps = 0
        self.state = tuple(session.empty((parameters,), "float32") for _ in range(self.count))
        self.reset()

    def reset(self) -> None:
        """Queue that all is forgotten."""
        self.steps = 0
        for buffer in self.state:
            self.session.run("fill", buffer, 0.0, size=self.parameters)


class Sgd(_Remembering):
    """w -= rate g."""

    def step(self, weights: Buffer, gradient: Buffer, rate: float) -> None:
        """Queue one step."""
        self.steps += 1
        self.session.run("sgd", weights, gradient, rate, size=self.parameters)


class Momentum(_Remembering):
    """v = decay v + g, w -= rate v."""

    count = 1

    def step(self, weights: Buffer, gradient: Buffer, rate: float) -> None:
        """Queue one step."""
        self.steps += 1
        (v,) = self.state
        self.session.run("momentum", weights, v, gradient, rate, DECAY, size=self.parameters)


class Adam(_Remembering):
    """Steps by the mean of the gradient over the root of that of its square."""

    count = 2

    def step(self, weights: Buffer, gradient: Buffer, rate: float) -> None:
        """Queue one step."""
        self.steps += 1
        m, v = self.state
        rate *= math.sqrt(1.0 - SECOND**self.steps) / (1.0 - FIRST**self.steps)
        constants = (rate, 1.0 - FIRST, 1.0 - SECOND, EPSILON)
        self.session.run("adam", weights, m, v, gradient, *constants, size=self.parameters)


OPTIMIZERS: dict[str, Callable[[Session, int], Optimizer]] = {
    "sgd": Sgd,
    "momentum": Momentum,
    "adam": Adam,
}
STATES = {"sgd": 0, "momentum": 1, "adam": 2}  # arrays that each remembers
RATES = {"sgd": 0.1, "momentum": 0.01, "adam": 1e-4}  # to begin with


def scaled(rate: float, workers: int, step: int, warmup: int) -> float:
    """Return the rate of a step of several workers: linear in them, after a warm-up.

    Over the first `warmup` steps it grows by the same factor each, from `rate` to `rate` times
    `workers` (Theano-MPI's warm-up; the rule is Goyal et al.'s, section 2.1).
    """
    return rate * math.pow(workers, min(step / warmup, 1.0) if warmup else 1.0)

"""How parameters follow their gradient, on a session.

sgd        w -= rate g
momentum   v = 0.9 v + g; w -= rate v: what is remembered knows no rate, so that a new rate needs
           no correction of it (Goyal et al., arXiv:1706.02677, remark 2 and equation 9)
adam       Kingma & Ba, arXiv:1412.6980, with both corrections in the rate (the end of its
           section 2), beta 0.9 and 0.999; epsilon is Keras' 1e-7
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from gpumap.backends.base import Buffer, Session

    Array = np.ndarray[Any, Any]

DECAY = 0.9
FIRST, SECOND, EPSILON = 0.9, 0.999, 1e-7


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

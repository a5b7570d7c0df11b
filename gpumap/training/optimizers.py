"""Optimizers: how a gradient changes parameters.

sgd        w -= rate g
adam       Kingma & Ba, arXiv:1412.6980, with both corrections in the rate (the end of its
           section 2), beta 0.9 and 0.999; epsilon is Keras' 1e-7
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpumap.backends.base import Buffer, Session

FIRST, SECOND, EPSILON = 0.9, 0.999, 1e-7
STATES = {"sgd": 0, "adam": 2}  # arrays that each remembers
RATES = {"sgd": 0.1, "adam": 1e-4}  # to begin with
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
        if self._name == "adam":
            rate *= math.sqrt(1.0 - SECOND**self.steps) / (1.0 - FIRST**self.steps)
            constants = rate, 1.0 - FIRST, 1.0 - SECOND, EPSILON
        operands = weights, *self.state, gradient, *constants
        self._session.run(self._name, *operands, size=self._parameters)

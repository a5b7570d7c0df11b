"""A step of training mlp41m on one core, beside the same step in plain NumPy.

Both take the same batch through the same network, forward and back, and change the parameters by
Adam; NumPy's is written as a program would write it. One core, one thread of BLAS.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.contest import Contest, looped, sampled
from gpumap.machine.process_control import pin
from gpumap.training.network import PRESETS, Network, Replica
from gpumap.training.optimizers import EPSILON, FIRST, SECOND, Optimizer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.backends.base import Session

    Array = np.ndarray[Any, Any]

COST = 1.1  # of the time of the plain step
BATCH = 512
RATE = 1e-4
APART = 1e-3  # of the way that the parameters went


class Plain:
    """The network as a program in NumPy has it."""

    def __init__(self, network: Network, parameters: Array) -> None:
        self.network, self.steps = network, 0
        self.weights = [
            (parameters[w].reshape(shape).copy(), parameters[b].copy())
            for w, b, shape in network.slots
        ]
        self.means = [(np.zeros_like(w), np.zeros_like(b)) for w, b in self.weights]
        self.squares = [(np.zeros_like(w), np.zeros_like(b)) for w, b in self.weights]

    def step(self, x: Array, y: Array) -> None:
        """Take a step on a batch."""
        activations = [x]
        for (w, b), layer in zip(self.weights, self.network.layers, strict=True):
            z = activations[-1] @ w + b
            if layer.activation == "tanh":
                z = np.tanh(z)
            elif layer.activation == "relu":
                z = np.maximum(z, 0)
            else:
                z = 1 / (1 + np.exp(-z))
            activations.append(z)
        delta = (activations[-1] - y) / np.float32(len(x))
        gradients: list[tuple[Array, Array]] = []
        for number in reversed(range(len(self.weights))):
            a = activations[number]
            gradients.insert(0, (a.T @ delta, delta.sum(axis=0)))
            if number:
                delta = delta @ self.weights[number][0].T
                before = self.network.layers[number - 1].activation
                delta *= (a > 0) if before == "relu" else 1 - a * a
        self._update(gradients)

    def _update(self, gradients: list[tuple[Array, Array]]) -> None:
        self.steps += 1
        rate = RATE * (1 - SECOND**self.steps) ** 0.5 / (1 - FIRST**self.steps)
        every = zip(self.weights, self.means, self.squares, gradients, strict=True)
        for layer in every:
            for arrays in zip(*layer, strict=True):
                _adam(*arrays, rate)


def _adam(w: Array, m: Array, v: Array, g: Array, rate: float) -> None:
    m *= FIRST
    m += (1 - FIRST) * g
    v *= SECOND
    v += (1 - SECOND) * g * g
    w -= rate * m / (np.sqrt(v) + EPSILON)


def train(session: Session) -> Iterator[Contest]:
    """Yield a step of mlp41m, once the parameters of both sides were compared."""
    network = PRESETS["mlp41m"][0]
    examples = network.data(BATCH, 1)
    x, y = examples.batch(examples.numbers(0, BATCH))
    initial = network.initial(1)
    plain, replica = Plain(network, initial), Replica(network, session, BATCH)
    adam = Optimizer("adam", session, network.parameters)
    replica.put(initial)

    def step() -> None:
        replica.load(x, y)
        replica.compute(1 / BATCH)
        adam.step(replica.weights, replica.gradient, RATE)
        session.synchronize()

    with ThreadPoolExecutor(1, initializer=pin, initargs=(session.device.cores,)) as pinned:
        step()
        pinned.submit(plain.step, x, y).result()
        _verify(initial, replica, plain)
        theirs = sampled(looped(lambda: plain.step(x, y)), lambda: None, 0.0)
        yield Contest(
            f"a step of mlp41m, {BATCH} examples",
            "NumPy, one core",
            sampled(looped(step), lambda: None, 0.0),
            lambda: pinned.submit(theirs).result(),
            most=COST,
        )


def _verify(initial: Array, replica: Replica, plain: Plain) -> None:
    found = np.empty_like(initial)
    replica.session.download(replica.weights, found)
    replica.session.synchronize()
    expected = np.concatenate([part.reshape(-1) for layer in plain.weights for part in layer])
    apart = float(np.linalg.norm(found - expected) / np.linalg.norm(expected - initial))
    if not apart < APART:
        raise SystemExit(f"after a step the parameters are {apart:.1e} of its length apart")

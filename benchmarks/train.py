"""What does gpumap add to a training step? mlp41m on one core, against the same in plain NumPy.

    python -m benchmarks.train [--batch 512] [--blocks 12]

Both take the same batch through the same network, forward and back, and change the parameters by
Adam; NumPy's is written as a program would write it. One core, one thread of BLAS; each block runs
both, the next one in reverse. Printed are the median times, the median of the ratios with its 95 %
interval, and how far the parameters of both lie apart. Target: TARGET at most.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import around, contest
from gpumap import stats
from gpumap.backends.base import Host
from gpumap.machine.process_control import pin
from gpumap.machine.state import Watch
from gpumap.machine.topology import read
from gpumap.parse import parse_map
from gpumap.resolve import Inventory, resolve
from gpumap.training.network import PRESETS, Network, Replica
from gpumap.training.worker_groups import EPSILON, FIRST, SECOND, Optimizer

if TYPE_CHECKING:
    from gpumap.backends.base import Session

    Array = np.ndarray[Any, Any]

TARGET = 1.1
RATE = 1e-4
APART = 1e-3  # of the way that the parameters went


class Plain:
    """The network as a program in NumPy has it."""

    def __init__(self, network: Network, parameters: Array) -> None:
        self.network, self.steps = network, 0
        self.weights = [
            (parameters[w].reshape(shape).copy(), parameters[b].copy())
            for w, b, shape in network.slots()
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


def main() -> int:
    """Measure, print, and return 1 if the target is missed."""
    asked = _arguments()
    network = PRESETS["mlp41m"].network
    inventory = Inventory(Host(os.environ, read()))
    device = resolve(parse_map("a->cpu0"), inventory).bindings[0].device
    pin(device.cores)
    backend = inventory.backend(device.backend)
    with backend.open(device, backend.clock()) as session:
        return _measured(network, session, asked.batch, asked.blocks)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--blocks", type=int, default=12)
    return parser.parse_args()


def _measured(network: Network, session: Session, batch: int, blocks: int) -> int:
    examples = network.data(batch, 1)
    x, y = examples.batch(examples.numbers(0, batch))
    initial = network.initial(1)
    plain, replica = Plain(network, initial), Replica(network, session, batch)
    adam = Optimizer("adam", session, network.parameters)
    replica.put(initial)

    def ours() -> float:
        start = time.perf_counter()
        replica.load(x, y)
        replica.compute(1 / batch)
        adam.step(replica.weights, replica.gradient, RATE)
        session.synchronize()
        return time.perf_counter() - start

    def theirs() -> float:
        start = time.perf_counter()
        plain.step(x, y)
        return time.perf_counter() - start

    contest.both(ours, theirs, 0)  # memory is taken
    _verify(initial, replica, plain)
    watch = Watch()
    pairs = [contest.both(ours, theirs, number) for number in range(blocks)]
    return _told(pairs, batch, watch)


def _verify(initial: Array, replica: Replica, plain: Plain) -> None:
    found = np.empty_like(initial)
    replica.session.download(replica.weights, found)
    replica.session.synchronize()
    wanted = np.concatenate([part.reshape(-1) for layer in plain.weights for part in layer])
    apart = float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted - initial))
    print(f"after a step the parameters lie {apart:.1e} of its length apart")
    if not apart < APART:
        sys.exit("error: that is no rounding")


def _told(pairs: list[tuple[float, float]], batch: int, watch: Watch) -> int:
    ratio = contest.ratio(pairs)
    ours, theirs = (stats.location(times).value for times in zip(*pairs, strict=True))
    met = ratio.value <= TARGET
    print(
        f"mlp41m, {batch} examples, one core: gpumap {ours:.3f} s, NumPy {theirs:.3f} s, ratio "
        f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}], n={len(pairs)}, target {TARGET}: "
        f"{'met' if met else 'MISSED'}"
    )
    print(around.meanwhile(watch.read()))
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())

"""What a training is made of: its configuration, a rank's worker, its examples, and checks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.dtypes import Array, np
from gpumap.engine.verify import judged
from gpumap.errors import Diverged
from gpumap.training.rules import RuleSpec
from gpumap.training.tasks import Data, Model, Trainable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Check
    from gpumap.training.optimizers import Optimizer

HELD_OUT = 1024  # held-out examples for loss and accuracy
METHOD = "float32 reference"
_ALLOWED = 1e-3  # of a layer's gradient, by its length: sums of float32, and ReLUs that tip over
PROBE = 8  # examples of each worker, on which its gradient is verified


class Worker:
    """A model and its optimizer on one device."""

    def __init__(self, name: str, model: Model, optimizer: Optimizer) -> None:
        self.name, self.model, self.optimizer = name, model, optimizer
        self.session = model.session
        self.diverged = False  # its parameters are no longer finite

    def update(self, rate: float) -> None:
        """Queue a step of the optimizer."""
        self.optimizer.step(self.model.weights, self.model.gradient, rate)


def note_divergence(worker: Worker) -> None:
    """Note whether a worker's parameters are no longer finite.

    The trainings of a group share it, and the first one that is checked resets it.
    """
    if not finite(read(worker, "weights")):
        worker.diverged = True


def finite(parameters: Array) -> bool:
    """Return whether all parameters are numbers."""
    return bool(np.isfinite(parameters).all())


def diverged(label: str) -> Diverged:
    """Return the error of a worker whose parameters are no longer numbers."""
    fix = "lower --rate, or look at what the network computes"
    return Diverged(f"{label}: what it trains is no longer a number", fix)


def checked(config: Config, number: int, worker: Worker, parameters: Array) -> Check:
    """Compare a worker's gradient of a few examples with the host's, part by part."""
    network, (x, y) = config.network, config.probe(number)
    worker.model.put(parameters)
    worker.session.upload(np.full_like(parameters, np.nan), worker.model.gradient)
    worker.session.synchronize()
    worker.model.load(x, y)
    worker.model.compute(1.0 / len(x))
    actual, expected = read(worker, "gradient"), network.gradient(parameters, x, y, 1.0 / len(x))
    return judged(METHOD, max(map(partial(_error, actual, expected), network.blocks())))


def same(actual: Sequence[Array], expected: Array) -> Check:
    """Check that all workers have the same bits, equal to `expected` within rounding."""
    if any(other.tobytes() != actual[0].tobytes() for other in actual[1:]):
        return judged(METHOD, float("inf"))
    return judged(METHOD, _error(actual[0], expected, slice(None)))


def held_out(config: Config, parameters: Array, what: str = "loss") -> float | None:
    """Return loss or accuracy on held-out examples; None where not known."""
    first = config.data.count
    x, y = config.data.batch(np.arange(first, first + HELD_OUT))
    with np.errstate(all="ignore"):  # a diverged network overflows here, and its row reports it
        result: float | None = getattr(config.network, what)(parameters, x, y)
        return result


def _error(actual: Array, expected: Array, part: slice) -> float:
    """Return a gradient's error relative to the tolerance; infinite if it is not a number."""
    length = float(np.linalg.norm(expected[part]))
    error = float(np.linalg.norm(actual[part] - expected[part]))
    return error / (_ALLOWED * max(length, 1e-30)) if np.isfinite(error) else float("inf")


def read(worker: Worker, what: str) -> Array:
    """Return the weights or the gradient of a worker; waits."""
    buffer = getattr(worker.model, what)
    result: Array = np.empty(buffer.shape, np.float32)
    worker.session.download(buffer, result)
    worker.session.synchronize()
    return result


@dataclass(frozen=True)
class Config:
    """Training configuration: network, examples, rule and rate."""

    network: Trainable
    data: Data
    rule: RuleSpec
    counts: tuple[int, ...]  # examples of a batch that each worker has
    rate: float
    seed: int = 1
    reuse_batch: bool = False  # make one batch, and copy it to the device in each step

    @property
    def workers(self) -> int:
        """Return how many workers train."""
        return len(self.counts)

    @property
    def batch(self) -> int:
        """Return the examples of a step."""
        return sum(self.counts)

    @property
    def shares(self) -> list[float]:
        """Return the share of a batch that each worker has."""
        return [count / self.batch for count in self.counts]

    def share(self, worker: int) -> float:
        """Return what an example's loss counts in its worker's gradient.

        Where gradients are averaged it is its share of the whole batch, so that they sum up to the
        mean; else that of the worker's own part.
        """
        whole = self.rule.name == "bsp" and self.rule.average == "gradients"
        return 1.0 / (self.batch if whole else max(self.counts[worker], 1))

    def first(self, step: int, worker: int) -> int:
        """Return where a worker's part of the batch of a step begins, where all take as many."""
        return step * self.batch + sum(self.counts[:worker])

    def part(self, first: int, worker: int) -> tuple[Any, Any]:
        """Return a worker's examples of a step, from position `first` on."""
        return self.data.batch(self.data.numbers(first, first + self.counts[worker]))

    @property
    def probes(self) -> int:
        """Return how many examples verify the gradients of all workers."""
        return sum(map(self.probed, range(self.workers)))

    def probed(self, worker: int) -> int:
        """Return how many examples of a worker verify its gradient."""
        return min(self.counts[worker], PROBE)

    def probe(self, worker: int) -> tuple[Any, Any]:
        """Return a few examples of a worker's, to verify its gradient on."""
        start = sum(self.counts[:worker])
        return self.data.batch(self.data.numbers(start, start + self.probed(worker)))


class Inputs:
    """The workers' parts of batches: new ones in each step, or the first one again."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._reused: dict[int, tuple[Any, Any]] = {}

    def at(self, first: int, worker: int) -> tuple[Any, Any]:
        """Return a worker's examples for a step, from position `first` on."""
        if not self._config.reuse_batch:
            return self._config.part(first, worker)
        if worker not in self._reused:
            self._reused[worker] = self._config.part(self._config.first(0, worker), worker)
        return self._reused[worker]

"""A rank's worker, and the checks of what it computes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpumap.dtypes import Array, np
from gpumap.engine.verify import fetch, judged, put
from gpumap.errors import Diverged
from gpumap.training.optimizers import Optimizer

if TYPE_CHECKING:
    from gpumap.backends.base import Session
    from gpumap.model import Check
    from gpumap.training.jobs import Job

HELD_OUT = 1024  # held-out examples for loss and accuracy
METHOD = "float32 reference"
_ALLOWED = 1e-3  # of a layer's gradient, by its length: sums of float32, and ReLUs that tip over


class Worker:
    """A model and its optimizer on one device."""

    def __init__(self, name: str, session: Session, job: Job) -> None:
        """Take memory; raises OutOfMemory, Unsupported."""
        self.name, self.session = name, session
        self.optimizer = Optimizer(job.params.optimizer, session, job.network.parameters)
        self.model = job.network.model(session, job.most)
        self.diverged = False  # its parameters are no longer finite

    def update(self, rate: float) -> None:
        """Queue a step of the optimizer."""
        self.optimizer.step(self.model.weights, self.model.gradient, rate)

    def note_divergence(self) -> None:
        """Note whether its parameters are no longer finite.

        The trainings of a group share it, and the first one that is checked resets it.
        """
        self.diverged |= not finite(read(self, "weights"))


def finite(parameters: Array) -> bool:
    """Return whether all parameters are numbers."""
    return bool(np.isfinite(parameters).all())


def diverged(label: str) -> Diverged:
    """Return the error of a worker whose parameters are no longer numbers."""
    fix = "lower --rate, or look at what the network computes"
    return Diverged(f"{label}: what it trains is no longer a number", fix)


def checked(job: Job, number: int, worker: Worker) -> Check:
    """Compare a worker's gradient of a few examples with the host's, part by part."""
    (x, y), parameters = job.probe(number), job.initial
    worker.model.put(parameters)
    put(np.full_like(parameters, np.nan), worker.model.gradient)
    worker.model.load(x, y)
    worker.model.compute(1.0 / job.probes)
    expected = job.network.gradient(parameters, x, y, 1.0 / job.probes)
    actual = read(worker, "gradient")
    return judged(METHOD, max(map(partial(_error, actual, expected), job.network.blocks())))


def same(actual: Array, expected: Array) -> Check:
    """Check that an array is equal to `expected` within rounding."""
    return judged(METHOD, _error(actual, expected, slice(None)))


def held_out(job: Job, parameters: Array, what: str = "loss") -> float | None:
    """Return loss or accuracy on held-out examples; None where not known."""
    first = job.data.count
    x, y = job.data.batch(np.arange(first, first + HELD_OUT))
    with np.errstate(all="ignore"):  # a diverged network overflows here, and its row reports it
        return job.network.judged(what, parameters, x, y)


def _error(actual: Array, expected: Array, part: slice) -> float:
    """Return a gradient's error relative to the tolerance; infinite if it is not a number."""
    length = float(np.linalg.norm(expected[part]))
    error = float(np.linalg.norm(actual[part] - expected[part]))
    return error / (_ALLOWED * max(length, 1e-30)) if np.isfinite(error) else float("inf")


def read(worker: Worker, what: str) -> Array:
    """Return the weights or the gradient of a worker; waits."""
    buffer = getattr(worker.model, what)
    result: Array = np.empty(buffer.shape, np.float32)
    fetch(buffer, result)
    return result

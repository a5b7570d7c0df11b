"""A rank's worker, and the checks of what it computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.dtypes import Array, np
from gpumap.engine.verify import judged, put
from gpumap.errors import Diverged
from gpumap.training.network import fetched
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
        self.optimizer = Optimizer(job.params.optimizer, session, job.params.network.parameters)
        self.model = job.params.network.model(session, job.most)
        # its parameters are no longer finite: trainings share it, and a check resets them
        self.diverged = False


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
    expected = job.params.network.gradient(parameters, x, y, 1.0 / job.probes)
    return same(fetched(worker.model.gradient), expected, *job.params.network.blocks())


def same(actual: Array, expected: Array, *parts: slice) -> Check:
    """Check that an array is equal to `expected` within rounding, in each of its parts."""
    found = (_error(actual[part], expected[part]) for part in parts or (slice(None),))
    return judged(METHOD, max(found))


def held_out(job: Job, parameters: Array, what: str = "loss") -> float | None:
    """Return loss or accuracy on held-out examples; None where not known."""
    first = job.data.count
    x, y = job.data.batch(np.arange(first, first + HELD_OUT))
    with np.errstate(all="ignore"):  # a diverged network overflows here, and its row reports it
        return job.params.network.judged(what, parameters, x, y)


def _error(actual: Array, expected: Array) -> float:
    """Return a gradient's error relative to the tolerance; infinite if it is not a number."""
    length = float(np.linalg.norm(expected))
    error = float(np.linalg.norm(actual - expected))
    return error / (_ALLOWED * max(length, 1e-30)) if np.isfinite(error) else float("inf")

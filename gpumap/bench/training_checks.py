"""Whether workers compute the right gradient, and whether an exchange leaves all with the same."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.bench.verify import judged
from gpumap.errors import Diverged

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from gpumap.bench.training import Course
    from gpumap.model import Check
    from gpumap.parallel.team import Worker

    Array = np.ndarray[Any, Any]

HELD_OUT = 1024  # examples that a loss is told of
METHOD = "float32 reference"
_ALLOWED = 1e-3  # of a layer's gradient, by its length: sums of float32, and ReLUs that tip over


def look(worker: Worker) -> None:
    """Note whether what a worker trains is still a number.

    The trainings of a group share it, and the first one that is looked at begins it anew.
    """
    if not finite(fetched(worker, "weights")):
        worker.diverged = True


def finite(parameters: Array) -> bool:
    """Return whether all parameters are numbers."""
    import numpy as np

    return bool(np.isfinite(parameters).all())


def diverged(words: str) -> Diverged:
    """Return the error of a worker whose parameters are no longer numbers."""
    fix = "lower --rate, or look at what the network computes"
    return Diverged(f"{words}: what it trains is no longer a number", fix)


def checked(course: Course, number: int, worker: Worker, parameters: Array) -> Check:
    """Return whether a worker's gradient of a few examples is the host's, part by part."""
    import numpy as np

    task, (x, y) = course.task, course.probe(number)
    worker.model.put(parameters)
    worker.session.upload(np.full_like(parameters, np.nan), worker.model.gradient)
    worker.session.synchronize()
    worker.model.load(x, y)
    worker.model.compute(1.0 / len(x))
    found, wanted = fetched(worker, "gradient"), task.gradient(parameters, x, y, 1.0 / len(x))
    return judged(METHOD, max(map(partial(_error, found, wanted), task.slots())))


def same(found: Sequence[Array], wanted: Array) -> Check:
    """Return whether all workers hold the same bits, those of `wanted` within rounding."""
    if any(other.tobytes() != found[0].tobytes() for other in found[1:]):
        return judged(METHOD, float("inf"))
    return judged(METHOD, _error(found[0], wanted, slice(None)))


def held_out(course: Course, parameters: Array) -> float | None:
    """Return the loss on examples behind those of the course; None where nobody knows it."""
    import numpy as np

    first = course.data.count
    x, y = course.data.batch(np.arange(first, first + HELD_OUT))
    with np.errstate(all="ignore"):  # what diverged overflows here, and is told by its row
        return course.task.loss(parameters, x, y)


def _error(found: Array, wanted: Array, part: slice) -> float:
    """Return how far a gradient is off, in what is allowed; infinite if it is not a number."""
    import numpy as np

    length = float(np.linalg.norm(wanted[part]))
    error = float(np.linalg.norm(found[part] - wanted[part]))
    return error / (_ALLOWED * max(length, 1e-30)) if np.isfinite(error) else float("inf")


def fetched(worker: Worker, what: str) -> Array:
    """Return the weights or the gradient of a worker; waits."""
    import numpy as np

    buffer = getattr(worker.model, what)
    found: Array = np.empty(buffer.shape, np.float32)
    worker.session.download(buffer, found)
    worker.session.synchronize()
    return found

"""The work of `bench chain`: its data, what devices and the host do with them, and its checks.

y = log(exp(relu(x.w + b))), the layer of Theano's users: rows x 10 by 10 x 5, and a bias. As log
undoes exp, the true answer is relu(x.w + b): in float64 it takes a product and no more. Normal data
stay far from where exp overflows in 32 bits.

Rounding is counted in units in the last place, and a check's error in those that are allowed. A sum
of n terms rounds n times (Higham, Accuracy and Stability of Numerical Algorithms, 3.5), each time
by one of |x_i||w_j| at most, the norms of its row and column; exp and log miss by _ULPS at most
(OpenCL 3.0 C, relative error as ULPs: 3; CUDA C++ Programming Guide, mathematical functions: 2;
NumPy's own tests: 4). What exp misses of y, log returns as an absolute error, so the scale of the
whole is 1 + |x_i||w_j| + |b|.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from gpumap.bench.workloads import PART, WORKLOADS, Problem
from gpumap.dtypes import ITEMSIZE, ROUNDING, Array, np
from gpumap.engine.base import Iteration
from gpumap.engine.verify import fetch, moved, put

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumap.backends.base import Session
    from gpumap.engine.base import Events
    from gpumap.model import Check

DTYPE: Final = "float32"
_LAYER = WORKLOADS["affine"]
_, INNER, COLUMNS = _LAYER.dims(1)
OPERATIONS = COLUMNS * (2 * INNER + 4)  # of one row; exp and log count as one each
_ULPS = 4  # of exp and of log
_ROUNDED = INNER + 1 + 2 * _ULPS  # units in the last place by which a result may miss
_BEHIND = ("relu", "exp_each", "log_each")  # the kernels behind the product and the bias, in place


def sizes(rows: int) -> tuple[int, int, int]:
    """Return the bytes of x and of y of so many rows, and what their check takes on the host."""
    item = ITEMSIZE[DTYPE]
    checked = ITEMSIZE["float64"] * min(rows, PART) * (INNER + 4 * COLUMNS)
    return rows * INNER * item, rows * COLUMNS * item, checked


class Data(Problem):
    """Random x, w and b, and what must come of them."""

    b: Array

    def __init__(self, rows: int, seed: int, session: Session | None = None) -> None:
        """Draw them; of many rows a scripted session holds none."""
        super().__init__(_LAYER, rows, seed, session)

    @cached_property
    def destination(self) -> Array:
        """Room on the host for any result of a device, while it is checked."""
        return self.room()

    @property
    def operations(self) -> int:
        """Return the floating-point operations of all rows."""
        return self.rows * OPERATIONS

    def compute(self, out: Array) -> None:
        """Do the whole chain, as a program of the host would."""
        if self.hollow:
            return
        super().compute(out)
        np.maximum(out, 0, out=out)
        np.log(np.exp(out, out=out), out=out)

    def _errors(self, rows: slice, found: Array) -> Array:
        """Return the error of each element of some rows, as a share of what rounding allows."""
        x, w = self.x[rows].astype(np.float64), self.w.astype(np.float64)
        lengths = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(w, axis=0)
        allowed = _ROUNDED * ROUNDING[DTYPE].write * (1.0 + lengths + abs(self.b))
        errors: Array = abs(found - np.maximum(x @ w + self.b, 0.0)) / allowed
        return errors


class Placed:
    """The data on a device, with the weights."""

    def __init__(self, name: str, session: Session, data: Data) -> None:
        self.name, self.session, self.data = name, session, data
        self._w, self._b, self._x = (moved(array, session) for array in (data.w, data.b, data.x))

    def job(self, out: Any, *, fused: bool) -> Callable[[], None]:
        """Return what queues the chain in one kernel, or each operation of it."""
        rows, prepare = self.data.rows, self.session.prepare
        if fused:
            return prepare("chain", self._x, self._w, self._b, out, size=rows)
        size = rows * COLUMNS
        product = partial(self.session.gemm, self._x, self._w, out)
        bias = prepare("add_cyclic", out, size, self._b, COLUMNS, out, size=size)
        others = (prepare(name, out, out, size=size) for name in _BEHIND)
        return partial(_each, [product, bias, *others])


def _each(jobs: Sequence[Callable[[], None]]) -> None:
    for job in jobs:
        job()


class DeviceIteration(Iteration):
    """The chain on a device, in one kernel or in one for each operation."""

    def __init__(self, placed: Placed, *, fused: bool = True) -> None:
        """Take a result of its own: no other may make it right."""
        self._placed, self._session = placed, placed.session
        self.sessions = [placed.session]
        self.out = placed.session.empty(placed.data.shape, DTYPE)
        self._job = placed.job(self.out, fused=fused)

    def poison(self) -> None:
        """Fill the result with NaN."""
        destination = self._placed.data.destination
        destination.fill(float("nan"))
        put(destination, self.out)

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:
        """Queue it, between two marks where its span is wanted."""
        for _ in range(iterations):
            if events is not None:
                events.begin(self._placed.name, self._session)
            self._job()
            if events is not None:
                events.end(self._placed.name, self._session)

    def check(self) -> Check:
        """Return whether the result is right."""
        data = self._placed.data
        data.destination.fill(float("nan"))
        fetch(self.out, data.destination)
        return data.check(data.destination)

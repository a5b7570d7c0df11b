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
from typing import TYPE_CHECKING, Any, Literal

from gpumap.dtypes import ITEMSIZE, ROUNDING, Array, np
from gpumap.engine.base import Iteration
from gpumap.engine.verify import METHOD, hollow_array, is_hollow, judged, largest, moved

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumap.backends.base import Session
    from gpumap.engine.base import Events
    from gpumap.model import Check

Dtype = Literal["float32", "float64"]
INNER, COLUMNS = 10, 5
OPERATIONS = COLUMNS * (2 * INNER + 4)  # of one row; exp and log count as one each
BLOCK = 1 << 16  # rows that are checked at a time
_ULPS = 4  # of exp and of log
_ROUNDED = INNER + 1 + 2 * _ULPS  # units in the last place by which a result may miss
_BEHIND = ("relu", "exp_each", "log_each")  # the kernels behind the product and the bias, in place


class Data:
    """Random x, w and b, and what must come of them.

    Of many rows a scripted session holds none: then x and all that is made of it is hollow.
    """

    def __init__(self, rows: int, dtype: Dtype, seed: int, session: Session | None = None) -> None:
        self.rows, self.dtype = rows, dtype
        self.nbytes = rows * INNER * ITEMSIZE[dtype]
        self.hollow = session is not None and is_hollow(session, self.nbytes)
        rng = np.random.default_rng((seed, rows))
        self.x: Array = (
            hollow_array((rows, INNER), dtype)
            if self.hollow
            else rng.standard_normal((rows, INNER), dtype=dtype)
        )
        self.w: Array = rng.standard_normal((INNER, COLUMNS), dtype=dtype)
        self.b: Array = rng.standard_normal(COLUMNS, dtype=dtype)

    @cached_property
    def destination(self) -> Array:
        """Room on the host for any result of a device, while it is checked."""
        return self.room()

    @property
    def operations(self) -> int:
        """Return the floating-point operations of all rows."""
        return self.rows * OPERATIONS

    def room(self) -> Array:
        """Return room for a result on the host."""
        shape = self.rows, COLUMNS
        return hollow_array(shape, self.dtype) if self.hollow else np.empty(shape, self.dtype)

    def compute(self, out: Array) -> None:
        """Do the whole chain, as a program of the host would."""
        if self.hollow:
            return
        np.matmul(self.x, self.w, out=out)
        out += self.b
        np.maximum(out, 0, out=out)
        np.log(np.exp(out, out=out), out=out)

    def check(self, found: Array) -> Check:
        """Return whether `found` is what the chain makes of all rows, within rounding."""
        error, unit = 0.0, _ROUNDED * ROUNDING[self.dtype].write
        w, columns = self.w.astype(np.float64), np.linalg.norm(self.w.astype(np.float64), axis=0)
        with np.errstate(all="ignore"):  # what is wrong may be no number
            for start in range(0, self.rows, BLOCK):
                part = slice(start, start + BLOCK)
                x = self.x[part].astype(np.float64)
                scale = 1.0 + np.linalg.norm(x, axis=1)[:, None] * columns + abs(self.b)
                missed = abs(found[part].astype(np.float64) - np.maximum(x @ w + self.b, 0.0))
                error = largest(error, missed / (unit * scale))
        return judged(METHOD, error)


class Placed:
    """The data on a device, with the weights."""

    def __init__(self, name: str, session: Session, data: Data) -> None:
        self.name, self.session, self.data = name, session, data
        self._w, self._b, self._x = (moved(array, session) for array in (data.w, data.b, data.x))

    def elementwise(self, out: Any) -> Callable[[], None]:
        """Return what queues all behind the product, an operation each, on what is in `out`."""
        size = self.data.rows * COLUMNS
        bias = out, size, self._b, COLUMNS, out
        kernels = [self.session.prepare("add_cyclic", *bias, size=size)]
        kernels += [self.session.prepare(name, out, out, size=size) for name in _BEHIND]
        return partial(_each, kernels)

    def job(self, out: Any, *, fused: bool) -> Callable[[], None]:
        """Return what queues the chain in one kernel, or each operation of it."""
        if fused:
            rows = self.data.rows
            return self.session.prepare("chain", self._x, self._w, self._b, out, size=rows)
        product = partial(self.session.gemm, self._x, self._w, out)
        return partial(_each, [product, self.elementwise(out)])


def _each(jobs: Sequence[Callable[[], None]]) -> None:
    for job in jobs:
        job()


class DeviceIteration(Iteration):
    """The chain on a device, in one kernel or in one for each operation."""

    def __init__(self, placed: Placed, *, fused: bool = True) -> None:
        """Take a result of its own: no other may make it right."""
        self._placed, self._session = placed, placed.session
        self.out = placed.session.empty((placed.data.rows, COLUMNS), placed.data.dtype)
        self._job = placed.job(self.out, fused=fused)

    def poison(self) -> None:
        """Fill the result with NaN."""
        destination = self._placed.data.destination
        destination.fill(float("nan"))
        self._session.upload(destination, self.out)
        self._session.synchronize()

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:
        """Queue it, between two marks where its span is wanted."""
        for _ in range(iterations):
            if events is not None:
                events.begin(self._placed.name, self._session)
            self._job()
            if events is not None:
                events.end(self._placed.name, self._session)

    def finish(self) -> None:
        """Wait for the device."""
        self._session.synchronize()

    def check(self) -> Check:
        """Return whether the result is right."""
        data = self._placed.data
        data.destination.fill(float("nan"))
        self._session.download(self.out, data.destination)
        self._session.synchronize()
        return data.check(data.destination)

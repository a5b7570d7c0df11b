"""Workloads of calls, with data and the right answer for each size.

    affine     y = x.w + b, the layer of Theano's users: rows x 10 by 10 x 5, and a bias
    product    y = x.w, square

A size is counted in bytes of x: that is what may have to be moved for each call. The weights w and
b stay where they are. Square factors are those of `verify`, whose product is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpumap.dtypes import ITEMSIZE, Array, np
from gpumap.engine import verify

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumap.backends.base import Session
    from gpumap.model import Check

PART = 1 << 13  # rows that are checked at a time


class Workload(NamedTuple):
    """A computation of one size, the number of its rows; `dims` are (rows, inner, columns)."""

    key: str
    words: str
    sweep: tuple[int, ...]  # rows
    bias: bool
    dims: Callable[[int], tuple[int, int, int]]

    def rows(self, nbytes: int) -> int:
        """Return the rows of the sweep whose x has so many bytes."""
        return next(rows for rows in self.sweep if self.nbytes(rows) == nbytes)

    def nbytes(self, rows: int) -> int:
        """Return the bytes of x."""
        rows, inner, _ = self.dims(rows)
        return ITEMSIZE["float32"] * rows * inner

    def operations(self, rows: int) -> int:
        """Return the floating-point operations of a call."""
        rows, inner, columns = self.dims(rows)
        return 2 * rows * inner * columns + (rows * columns if self.bias else 0)


WORKLOADS = {
    "affine": Workload(
        "affine",
        "y=x.w+b",
        tuple(2**n for n in range(19)),
        bias=True,
        dims=lambda rows: (rows, 10, 5),
    ),
    "product": Workload(
        "product",
        "y=x.w",
        (*(n << k for k in range(7) for n in (16, 24)), 2048),
        bias=False,
        dims=lambda rows: (rows, rows, rows),
    ),
}
LARGEST = max(w.nbytes(rows) for w in WORKLOADS.values() for rows in w.sweep)  # bytes of x


class Problem:
    """Random data for a call of a workload, float32, and what the answer must be."""

    def __init__(
        self, workload: Workload, rows: int, seed: int, session: Session | None = None
    ) -> None:
        """Draw it; where a scripted session holds so much of none, without data and an answer."""
        self.workload, self.rows, self.nbytes = workload, rows, workload.nbytes(rows)
        self.hollow = session is not None and verify.is_hollow(session, self.nbytes)
        rows, inner, columns = workload.dims(rows)
        self.shape = (rows, columns)  # of y
        if self.hollow:
            self.x = verify.hollow_array((rows, inner))
            self.w = verify.hollow_array((inner, columns))
            self.b = verify.hollow_array((columns,)) if workload.bias else None
            return
        if not workload.bias:
            left = verify.Matrix((seed, rows, 0), rows, "float32")
            factors = ([part for _, part in m.blocks()] for m in (left, left.following))
            self.x, self.w = map(np.concatenate, factors)
            self.b, self._expected = None, verify.Expected(left)
            return
        rng = np.random.default_rng((seed, rows))
        self.x = rng.standard_normal((rows, inner), dtype=np.float32)
        self.w = rng.standard_normal((inner, columns), dtype=np.float32)
        self.b = rng.standard_normal(columns, dtype=np.float32)
        self._weights = np.vstack([self.w, self.b]).astype(np.float64)

    @property
    def operations(self) -> int:
        """Return the floating-point operations of a call."""
        return self.workload.operations(self.rows)

    def room(self) -> Array:
        """Return room for y on the host."""
        return verify.hollow_array(self.shape) if self.hollow else np.empty(self.shape, np.float32)

    def spread(self) -> Array | None:
        """Return the bias once for each row of y; None where there is none."""
        if self.b is None:
            return None
        return self.room() if self.hollow else np.tile(self.b, (self.shape[0], 1))

    def compute(self, out: Array) -> None:
        """Write y, as a program of the host would."""
        if self.hollow:
            return
        np.matmul(self.x, self.w, out=out)
        if self.b is not None:
            out += self.b

    def check(self, out: Array) -> Check:
        """Return whether `out` is y within rounding, measured as in `gpumap.engine.verify`."""
        if self.b is None:
            return self._expected.check(out)
        error = 0.0
        with np.errstate(all="ignore"):  # what is wrong may be no number
            for rows in verify.parts(len(out), PART):
                error = verify.largest(error, self._errors(rows, out[rows].astype(np.float64)))
        return verify.judged(verify.METHOD, error)

    def _errors(self, rows: slice, found: Array) -> Array:
        """Return the error of each element of some rows, as a share of what rounding allows."""
        left = np.column_stack([self.x[rows], np.ones(len(self.x[rows]))])
        right = self._weights
        exact, scale = left @ right, np.sqrt(np.square(left) @ np.square(right))
        errors: Array = abs(found - exact) / verify.allowance("float32", len(right), exact, scale)
        return errors

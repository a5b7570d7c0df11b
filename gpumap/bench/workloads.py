"""The computations whose break-even is looked for, with data and the right answer for each size.

    affine     y = x.w + b, the layer of Theano's users: rows x 10 by 10 x 5, and a bias
    product    y = x.w, square

A size is counted in bytes of x: that is what may have to be moved for each call. The weights w and
b stay where they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpumap.bench.scripted import hollow_array
from gpumap.bench.verify import LAMBDA, ROWS
from gpumap.dtypes import ROUNDING
from gpumap.model import Check

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_ITEM = 4  # bytes of a float32
_WIDEST = 256  # columns; of wider results a few combinations are compared (Freivalds, IFIP 1977)
_VECTORS = 3


@dataclass(frozen=True, slots=True)
class Workload:
    """A computation of one size, the number of its rows; `dims` are (rows, inner, columns)."""

    key: str
    words: str
    ladder: tuple[int, ...]  # rows
    bias: bool
    dims: Callable[[float], tuple[float, float, float]]
    rows: Callable[[float], float]  # whose x has so many bytes

    def nbytes(self, rows: float) -> float:
        """Return the bytes of x."""
        rows, inner, _ = self.dims(rows)
        return _ITEM * rows * inner

    def result(self, rows: float) -> float:
        """Return the bytes of y."""
        rows, _, columns = self.dims(rows)
        return _ITEM * rows * columns

    def operations(self, rows: float) -> float:
        """Return the floating-point operations of a call."""
        rows, inner, columns = self.dims(rows)
        return 2 * rows * inner * columns + (rows * columns if self.bias else 0)


WORKLOADS = {
    "affine": Workload(
        "affine",
        "y=x.w+b",
        tuple(8**n for n in range(7)),
        bias=True,
        dims=lambda rows: (rows, 10, 5),
        rows=lambda nbytes: nbytes / (10 * _ITEM),
    ),
    "product": Workload(
        "product",
        "y=x.w",
        tuple(2**n for n in range(4, 12)),
        bias=False,
        dims=lambda rows: (rows, rows, rows),
        rows=lambda nbytes: (nbytes / _ITEM) ** 0.5,
    ),
}
LARGEST = int(max(w.nbytes(rows) for w in WORKLOADS.values() for rows in w.ladder))  # bytes of x


class Problem:
    """Random data for a call of a workload, float32, and what the answer must be."""

    def __init__(self, workload: Workload, rows: int, seed: int, *, hollow: bool = False) -> None:
        """Draw it; a hollow one has no data and no answer."""
        import numpy as np

        self.workload, self.hollow = workload, hollow
        self.size = rows
        rows, inner, columns = map(int, workload.dims(rows))
        rng = np.random.default_rng((seed, rows))

        def draw(*shape: int) -> Array:
            return hollow_array(shape) if hollow else rng.standard_normal(shape, dtype=np.float32)

        self.x, self.w = draw(rows, inner), draw(inner, columns)
        self.b = draw(columns) if workload.bias else None
        self.shape = (rows, columns)  # of y
        self._signs = rng.choice([-1.0, 1.0], (columns, _VECTORS)) if columns > _WIDEST else None

    def room(self) -> Array:
        """Return room for y on the host."""
        import numpy as np

        return hollow_array(self.shape) if self.hollow else np.empty(self.shape, np.float32)

    def spread(self) -> Array | None:
        """Return the bias once for each row of y; None where there is none."""
        import numpy as np

        if self.b is None:
            return None
        return self.room() if self.hollow else np.tile(self.b, (self.shape[0], 1))

    def compute(self, out: Array) -> None:
        """Write y, as a program of the host would."""
        import numpy as np

        if self.hollow:
            return
        np.matmul(self.x, self.w, out=out)
        if self.b is not None:
            out += self.b

    def check(self, out: Array) -> Check:
        """Return whether `out` is y within rounding, measured as in `gpumap.bench.verify`."""
        parts = (slice(start, start + ROWS) for start in range(0, len(out), ROWS))
        errors = [self._error(out[rows], self._left(rows)) for rows in parts]
        error, rounding = max(errors), ROUNDING["float32"]
        terms = len(self._weights)
        if self._signs is None:
            bound, method = terms * rounding.add + rounding.write, "float64 reference"
        else:
            bound = LAMBDA * (terms**0.5 * rounding.add + rounding.write)
            method = f"Freivalds, {_VECTORS} vectors"
        return Check(method, error <= bound, error, bound)

    def _error(self, found: Array, left: Array) -> float:
        """Return the largest error of some rows of y; infinite if one is not a number."""
        import numpy as np

        right, scale = self._right
        with np.errstate(all="ignore"):  # what is wrong may be no number
            wide = found.astype(np.float64)
            missed = abs((wide if self._signs is None else wide @ self._signs) - left @ right)
            worst = float((missed / (np.linalg.norm(left, axis=1)[:, None] * scale)).max())
        return math.inf if math.isnan(worst) else worst

    def _left(self, rows: slice) -> Array:
        """Return rows of x in float64, and a one behind each where there is a bias."""
        import numpy as np

        wide = self.x[rows].astype(np.float64)
        return wide if self.b is None else np.column_stack([wide, np.ones(len(wide))])

    @cached_property
    def _weights(self) -> Array:
        """The weights in float64, the bias as their last row."""
        import numpy as np

        return np.vstack([self.w] if self.b is None else [self.w, self.b]).astype(np.float64)

    @cached_property
    def _right(self) -> tuple[Array, Any]:
        """The weights, or what they make of the sign vectors, and their norms."""
        import numpy as np

        if self._signs is None:
            return self._weights, np.linalg.norm(self._weights, axis=0)
        return self._weights @ self._signs, np.linalg.norm(self._weights)

"""Is a product right? Against a float64 reference, or by Freivalds' check where that is too dear.

Rounding of an element is measured against |a_i| |b_j|, the norms of its row and column: an upper
bound of (|A||B|)_ij by Cauchy-Schwarz. A sum of n terms rounds n times; what is read and written
rounds once, however large n is. Sources: Higham, Accuracy and Stability of Numerical Algorithms,
3.5 (n eps); Higham & Mary, SIAM J. Sci. Comput. 2019 (sqrt(n) eps, what is seen); Freivalds, IFIP
1977.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpumap.dtypes import ROUNDING, Arithmetic, numpy_dtype, storage
from gpumap.model import Check

if TYPE_CHECKING:
    from collections.abc import Iterator


DEAR = 1024  # above this size the float64 reference would take longer than the measuring
ROWS = 256  # rows in host memory at a time
_VECTORS = 3  # a wrong product escapes one random sign vector with probability 1/2 at most
LAMBDA = 6.0  # standard deviations of a sum of independent roundings


@dataclass(frozen=True, slots=True)
class Matrix:
    """A square random matrix that can be made again at any time, in blocks of rows."""

    seed: tuple[int, ...]
    size: int
    arithmetic: Arithmetic

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """Yield each block of rows and its place; standard normal, never zeros."""
        import numpy as np

        held = numpy_dtype(storage(self.arithmetic))
        for start in range(0, self.size, ROWS):
            stop = min(start + ROWS, self.size)
            rng = np.random.default_rng([*self.seed, start])
            drawn = rng.standard_normal((stop - start, self.size), dtype=np.float32)
            yield slice(start, stop), drawn.astype(held, copy=False)

    def whole(self) -> Any:
        """Return the matrix in float64."""
        import numpy as np

        return np.concatenate([block.astype(np.float64) for _, block in self.blocks()])


class Expected:
    """What a product must be; made once for each pair of matrices, and asked as often as needed.

    Up to DEAR the whole product in float64; above it the images of a few random sign vectors,
    which are compared with what the product makes of the same vectors.
    """

    def __init__(self, a: Matrix, b: Matrix) -> None:
        rounding = ROUNDING[a.arithmetic]
        once = 2 * rounding.read + rounding.write  # two factors, one result
        self._whole = a.size <= DEAR
        if self._whole:
            self.method = "float64 reference"
            self.bound = a.size * rounding.add + once
            self._product, self._scale = _reference(a, b)
        else:
            self.method = f"Freivalds, {_VECTORS} vectors"
            self.bound = LAMBDA * (a.size**0.5 * rounding.add + once)
            self._signs = _signs(a)
            self._product, self._scale = _images(a, b, self._signs)

    def check(self, out: Any) -> Check:
        """Return whether `out`, a buffer or a host array, is the product within rounding."""
        error = 0.0
        for rows, block in _fetched(out):
            found = block if self._whole else block @ self._signs
            error = _worst(error, abs(found - self._product[rows]) / self._scale[rows])
        return Check(self.method, error <= self.bound, error, self.bound)


def worse(first: Check, second: Check) -> Check:
    """Return the check that a row must show: the one that failed, or the larger error."""
    if first.passed != second.passed:
        return second if first.passed else first
    return max(first, second, key=lambda check: check.max_error or 0.0)


def host_bytes(size: int) -> int:
    """Return the host memory that `Expected` takes, and what making it takes beside that."""
    wide = 8  # bytes of a float64
    if size <= DEAR:
        return 6 * size**2 * wide
    return 4 * ROWS * size * wide + 4 * size * _VECTORS * wide


def _reference(a: Matrix, b: Matrix) -> tuple[Any, Any]:
    import numpy as np

    left, right = a.whole(), b.whole()
    scale = np.linalg.norm(left, axis=1)[:, None] * np.linalg.norm(right, axis=0)
    return left @ right, scale


def _images(a: Matrix, b: Matrix, signs: Any) -> tuple[Any, Any]:
    """Return A (B x) for each sign vector x, and what its rounding is measured against."""
    import numpy as np

    image = np.empty(signs.shape)
    square = 0.0
    for rows, block in b.blocks():
        image[rows] = block.astype(np.float64) @ signs
        square += float(np.square(block, dtype=np.float64).sum())
    product, scale = np.empty(signs.shape), np.empty((a.size, 1))
    for rows, block in a.blocks():
        wide = block.astype(np.float64)
        product[rows] = wide @ image
        scale[rows, 0] = np.linalg.norm(wide, axis=1) * square**0.5
    return product, scale


def _signs(a: Matrix) -> Any:
    import numpy as np

    return np.random.default_rng(a.seed).choice([-1.0, 1.0], (a.size, _VECTORS))


def _fetched(out: Any) -> Iterator[tuple[slice, Any]]:
    """Yield a device's or the host's matrix in blocks of rows, in float64."""
    import numpy as np

    for start in range(0, out.shape[0], ROWS):
        rows = slice(start, min(start + ROWS, out.shape[0]))
        block = out[rows]
        if not isinstance(out, np.ndarray):
            session = out.session
            landed = np.full(block.shape, np.nan, block.dtype)
            session.download(block, landed)
            session.synchronize()
            block = landed
        yield rows, block.astype(np.float64)


def _worst(error: float, others: Any) -> float:
    """Return the largest of the errors; a NaN is larger than anything."""
    worst = float(others.max())
    return float("inf") if math.isnan(worst) else max(error, worst)

"""What the kernels of `training.c` compute, in NumPy: the `table`'s references.

Each works on flat arrays of one type, part by part, so that temporaries stay in a core's cache.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_PART = 1 << 14  # elements


REFERENCES: dict[str, tuple[tuple[str, ...], Callable[..., None]]] = {}


def _by_parts(*kinds: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a reference one part of its arrays after the other; as a device it warns of nothing.

    `kinds` are those of the kernel's arguments.
    """

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def by_parts(*arguments: Any) -> None:
            with np.errstate(all="ignore"):
                for at in range(0, arguments[0].size, _PART):
                    part = slice(at, at + _PART)
                    given = [a[part] if isinstance(a, np.ndarray) else a for a in arguments]
                    _computed(function, given)

        REFERENCES[function.__name__] = kinds, by_parts
        return by_parts

    return decorated


@_by_parts("buffer", "buffer")
def sigmoid(a: Any, out: Any) -> None:
    """Write 1 / (1 + e^-a)."""
    np.exp(np.negative(a, out=out), out=out)
    out += 1
    np.divide(1, out, out=out, dtype=out.dtype)


@_by_parts("buffer", "buffer", "buffer")
def relu_back(a: Any, d: Any, out: Any) -> None:
    """Write d where the activation a is above 0, and else 0."""
    out[:] = np.where(a > 0, d, d.dtype.type(0))  # a product would make NaN of infinity


@_by_parts("buffer", "buffer", "buffer")
def tanh_back(a: Any, d: Any, out: Any) -> None:
    """Write d (1 - a^2), a the activation."""
    slope = a * a
    slope -= 1
    slope *= d
    out[:] = -slope


@_by_parts("buffer", "buffer", "scalar", "buffer")
def residual(a: Any, b: Any, scale: float, out: Any) -> None:
    """Write (a - b) scale."""
    np.subtract(a, b, out=out)
    out *= _as(out, scale)


@_by_parts("buffer", "scalar", "buffer")
def scaled(a: Any, scale: float, out: Any) -> None:
    """Write a scale."""
    np.multiply(a, _as(a, scale), out=out)


@_by_parts("buffer", "buffer", "scalar")
def sgd(w: Any, g: Any, rate: float) -> None:
    """Take rate g from w."""
    w -= _as(g, rate) * g


@_by_parts("buffer", "buffer", "buffer", "scalar", "scalar")
def momentum(w: Any, v: Any, g: Any, rate: float, decay: float) -> None:
    """Let v be decay v + g, and take rate v from w."""
    v *= _as(v, decay)
    v += g
    w -= _as(v, rate) * v


@_by_parts("buffer", "buffer", "buffer", "buffer", *("scalar",) * 4)
def adam(
    w: Any, m: Any, v: Any, g: Any, rate: float, first: float, second: float, epsilon: float
) -> None:
    """Let m and v move towards g and its square, and take rate m / (sqrt(v) + epsilon) from w.

    `first` and `second` are what they move by, 1 - beta of the paper: 0.999 of 32 bits is off by
    1e-8, which is 1e-5 of what it leaves of 1.
    """
    step = g - m
    step *= _as(m, first)
    m += step
    np.multiply(g, g, out=step)
    step -= v
    step *= _as(v, second)
    v += step
    np.sqrt(v, out=step)
    step += _as(v, epsilon)
    np.divide(m, step, out=step)
    step *= _as(w, rate)
    w -= step


@_by_parts("buffer", "buffer", "scalar")
def elastic(a: Any, b: Any, share: float) -> None:
    """Move a and b towards each other by share (a - b): their sum stays."""
    moved = _as(a, share) * (a - b)
    a -= moved
    b += moved


@_by_parts("buffer", "buffer", "scalar")
def blend(a: Any, b: Any, share: float) -> None:
    """Move a towards b by a share of their distance."""
    a += _as(a, share) * (b - a)


def softmax(a: Any, out: Any) -> None:
    """Write e^a of each row, as shares of their sum; the matrices are whole."""
    with np.errstate(all="ignore"):
        np.exp(a - a.max(axis=1, keepdims=True), out=out)
        out /= out.sum(axis=1, keepdims=True)


def of_a_row(given: Sequence[Any], size: int) -> Mapping[str, int]:
    """Return what `softmax` is built for: the columns of its matrices."""
    shapes = {tuple(buffer.shape) for buffer in given}
    shape = shapes.pop()
    if shapes or len(shape) != 2 or shape[0] != size or not shape[1]:  # noqa: PLR2004 - a matrix
        message = ", ".join(str(tuple(buffer.shape)) for buffer in given)
        raise ValueError(f"softmax: shapes do not fit: {message}, {size} rows")
    return {"COLUMNS": shape[1]}


def _computed(function: Callable[..., None], given: Sequence[Any]) -> None:
    """Compute a part; numbers of 16 bits are computed in 32, and rounded once."""
    if given[0].dtype.itemsize != np.dtype("f2").itemsize:
        function(*given)
        return
    wide = [a.astype(np.float32) if isinstance(a, np.ndarray) else a for a in given]
    function(*wide)
    for narrow, computed in zip(given, wide, strict=True):
        if isinstance(narrow, np.ndarray):
            narrow[:] = computed


def _as(array: Any, number: float) -> Any:
    """Return a number of the array's own type, as a kernel is given it."""
    return array.dtype.type(number)

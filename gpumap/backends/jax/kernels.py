"""gpumap's kernels as JAX computes them: what each leaves in the buffers that it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from collections.abc import Callable


def _cyclic(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return a function of two flat arrays, the shorter repeated."""

    def repeating(a: Any, a_count: int, b: Any, b_count: int, out: Any) -> Any:
        return function(*(_repeated(x[:n], out.size) for x, n in ((a, a_count), (b, b_count))))

    return repeating


def _repeated(array: Any, size: int) -> Any:
    rows = -(-size // max(array.size, 1))
    return jnp.broadcast_to(array, (rows, array.size)).reshape(-1)[:size]


def _adam(
    w: Any, m: Any, v: Any, g: Any, rate: float, first: float, second: float, epsilon: float
) -> tuple[Any, Any, Any]:
    mean = m + (g - m) * first
    square = v + (g * g - v) * second
    return w - mean / (jnp.sqrt(square) + epsilon) * rate, mean, square


def _chain(x: Any, w: Any, b: Any, out: Any) -> Any:  # noqa: ARG001 - every argument
    found = jnp.exp(jnp.maximum(jnp.matmul(x, w, precision="highest") + b, 0))
    return jnp.log(jax.lax.optimization_barrier(found))  # else XLA removes both


_BINARY = {"add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply, "div": jnp.divide,
           "maximum": jnp.maximum}  # fmt: skip
# given every argument of a kernel; they return what is written, one array or several
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: lambda a, b, _out, f=f: f(a, b) for name, f in _BINARY.items()},
    **{f"{name}_cyclic": _cyclic(function) for name, function in _BINARY.items()},
    **{f"{f.__name__}_each": lambda a, _out, f=f: f(a) for f in (jnp.exp, jnp.log, jnp.tanh)},
    "relu": lambda a, _out: jnp.maximum(a, 0),
    "sum": lambda a, _out: jnp.sum(a),
    "sigmoid": lambda a, _out: jax.nn.sigmoid(a),
    "relu_back": lambda a, d, _out: jnp.where(a > 0, d, 0),  # a product would make NaN of infinity
    "tanh_back": lambda a, d, _out: d * (1 - a * a),
    "residual": lambda a, b, scale, _out: (a - b) * scale,
    "sgd": lambda w, g, rate: w - g * rate,
    "adam": _adam,
    "fill": jnp.full_like,
    "chain": _chain,
}
# which arguments are written, where it is not the last one
WRITTEN = {FUNCTIONS["sgd"]: (0,), _adam: (0, 1, 2), jnp.full_like: (0,)}

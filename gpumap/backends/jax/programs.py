"""Programs of XLA's over places in memory: what is read, computed and written is one of them.

Arrays of JAX never change: a program takes those of places, and leaves others there, which have the
memory of what was written over.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from gpumap.backends.jax.buffers import JaxBuffer, Place, lose
from gpumap.backends.jax.kernels import WRITTEN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# of an argument: its place's number, its first element and its shape; how many there are; a scalar
View = tuple[int, int, tuple[int, ...]] | int | None


def queuing(
    function: Callable[..., Any], kinds: Sequence[str], arguments: Sequence[Any], size: int = 0
) -> Callable[[], list[Place]]:
    """Return what queues a function, and returns the places that it has written.

    Args:
        function: of JAX's arrays, numbers and counts; it returns what is written.
        kinds: of its arguments, as `gpumap.kernels` has them.
        arguments: buffers of one session, numbers and counts.
        size: elements of each buffer that it works on; a matrix is whole.
    """
    written = WRITTEN.get(function, (len(arguments) - 1,))
    pairs = list(zip(kinds, arguments, strict=True))
    places = list({each.memory: None for each in arguments if isinstance(each, JaxBuffer)})
    views = tuple(_view(kind, places, argument, size) for kind, argument in pairs)
    scalars = [argument for kind, argument in pairs if kind == "scalar"]
    program, numbers = _compiled(function, views, written)
    targets = [places[number] for number in numbers]

    def queue() -> list[Place]:
        given = [place.array for place in places]
        try:
            for place, array in zip(targets, program(*given, *scalars), strict=True):
                place.array = array
        except BaseException:  # Ctrl-C too
            lose(targets)
            raise
        return targets

    return queue


def _view(kind: str, places: list[Place], argument: Any, size: int) -> View:
    """Return what is constant of an argument: nothing of a scalar."""
    if kind in ("scalar", "count"):
        return argument if kind == "count" else None
    length = size if kind == "buffer" else min(size, prod(argument.shape))
    shape = argument.shape if kind == "matrix" else (length,)
    return places.index(argument.memory), argument.start, shape


@cache
def product(
    transpose: tuple[bool, bool], alpha: float, beta: float
) -> Callable[[Any, Any, Any], Any]:
    """Return a product of a, b and out, always the same function: programs are cached by it.

    Nothing is less exact than its type: sums of 16-bit factors are in 32 bits.
    """

    def multiply(a: Any, b: Any, out: Any) -> Any:
        left, right = (m.T if turned else m for m, turned in zip((a, b), transpose, strict=True))
        wide = jnp.promote_types(out.dtype, jnp.float32)
        found = jnp.matmul(left, right, precision="highest", preferred_element_type=wide)
        found = found if alpha == 1.0 else found * jnp.asarray(alpha, wide)
        return found + jnp.asarray(beta, wide) * out if beta else found

    return multiply


@cache
def _compiled(
    function: Callable[..., Any], views: tuple[View, ...], written: tuple[int, ...]
) -> tuple[Callable[..., list[Any]], tuple[int, ...]]:
    """Return a program that takes arrays of places, then scalars; and which places it returns.

    XLA compiles it once for each device. What it writes has the memory of what was there.
    """
    count = len({view[0] for view in views if isinstance(view, tuple)})
    targets: list[Any] = [views[number] for number in written]
    numbers = tuple(dict.fromkeys(place for place, _, _ in targets))

    def program(*given: Any) -> list[Any]:
        flat, scalars = [array.reshape(-1) for array in given[:count]], iter(given[count:])
        found = function(*(_argument(view, flat, scalars) for view in views))
        results = found if isinstance(found, tuple) else (found,)
        for (place, start, _), result in zip(targets, results, strict=True):
            part = result.astype(flat[place].dtype).reshape(-1)
            flat[place] = jax.lax.dynamic_update_slice(flat[place], part, (start,))
        return [flat[place].reshape(given[place].shape) for place in numbers]

    return jax.jit(program, donate_argnums=numbers), numbers


def _argument(view: View, flat: Sequence[Any], scalars: Any) -> Any:
    if view is None:
        return next(scalars)
    if isinstance(view, int):
        return view
    place, start, shape = view
    return flat[place][start : start + prod(shape)].reshape(shape)

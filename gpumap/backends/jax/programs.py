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

from gpumap.backends.jax.buffers import JaxBuffer, Place
from gpumap.backends.jax.kernels import FUNCTIONS, WRITTEN, narrow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumap.kernels import Kernel

# of an argument: its place's number, its first element and its shape; how many there are; a scalar
View = tuple[int, int, tuple[int, ...]] | int | None


def prepared(known: Kernel, arguments: Sequence[Any], size: int) -> Callable[[], list[Place]]:
    """Return what queues a kernel, and returns the places that it has written."""
    pairs = list(zip(known.arguments, arguments, strict=True))
    buffers = [argument for argument in arguments if isinstance(argument, JaxBuffer)]
    places = list({buffer.place: None for buffer in buffers})
    views = tuple(_view(kind, places, argument, size) for kind, argument in pairs)
    written = WRITTEN.get(known.name, (len(views) - 1,))
    scalars = [argument for kind, argument in pairs if kind == "scalar"]
    return _queued(_compiled(FUNCTIONS[known.name], views, written), places, scalars)


def multiplying(
    buffers: Sequence[JaxBuffer], transpose: tuple[bool, bool], alpha: float, beta: float
) -> Callable[[], list[Place]]:
    """Return what queues the product of two buffers, to a third one."""
    places = list({buffer.place: None for buffer in buffers})
    views = tuple((places.index(x.place), x.start, x.shape) for x in buffers)
    return _queued(_compiled(_product(transpose, alpha, beta), views, (2,)), places, ())


def _view(kind: str, places: list[Place], argument: Any, size: int) -> View:
    """Return what is constant of an argument: nothing of a scalar."""
    if kind in ("scalar", "count"):
        return argument if kind == "count" else None
    whole = prod(argument.shape)
    length = size if kind == "buffer" else min(max(size, 1), whole)
    shape = argument.shape if kind == "matrix" else (length,)
    return places.index(argument.place), argument.start, shape


def _queued(
    program: tuple[Callable[..., list[Any]], tuple[int, ...]],
    places: Sequence[Place],
    scalars: Sequence[float],
) -> Callable[[], list[Place]]:
    function, numbers = program
    written = [places[number] for number in numbers]

    def queue() -> list[Place]:
        found = function(*[place.array for place in places], *scalars)
        for place, array in zip(written, found, strict=True):
            place.array = array
        return written

    return queue


@cache
def _product(
    transpose: tuple[bool, bool], alpha: float, beta: float
) -> Callable[[Any, Any, Any], Any]:
    """Return a product as a function of a, b and out.

    Nothing is less exact than its type: sums of 16-bit factors are in 32 bits.
    """

    def multiply(a: Any, b: Any, out: Any) -> Any:
        left, right = (m.T if turned else m for m, turned in zip((a, b), transpose, strict=True))
        wide = jnp.float32 if narrow(out) else out.dtype
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

    return jax.jit(program, donate_argnums=numbers, keep_unused=True), numbers


def _argument(view: View, flat: Sequence[Any], scalars: Any) -> Any:
    if view is None:
        return next(scalars)
    if isinstance(view, int):
        return view
    place, start, shape = view
    return flat[place][start : start + prod(shape)].reshape(shape)

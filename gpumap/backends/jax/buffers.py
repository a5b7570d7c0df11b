"""Memory of a JAX session: its arrays never change, so a buffer is a place for the latest one."""

from __future__ import annotations

import time
from math import prod
from typing import TYPE_CHECKING, Any, Self

from gpumap.backends.base import Elements

if TYPE_CHECKING:
    import numpy as np


_REPLACING = 1.0  # seconds in which a thread puts in what it has computed; others take less


class Place:
    """The array that is there now; whoever writes puts another one in."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def wait(self) -> None:
        """Wait for the array; where another thread has it replaced meanwhile, for that one.

        None comes where Ctrl-C fell between a program, which took the array, and its result.
        """
        gone, since = None, 0.0
        while True:
            array = self.array
            try:
                array.block_until_ready()
            except RuntimeError:
                if not array.is_deleted():
                    raise
                now = time.monotonic()
                if array is not gone:
                    gone, since = array, now
                elif now - since > _REPLACING:
                    return
                time.sleep(0)  # the other thread goes on
            else:
                return


class JaxBuffer(Elements):
    """Elements of a place: all of them as they are, or some from `start` on."""

    def __init__(self, session: Any, place: Place, start: int, shape: tuple[int, ...]) -> None:
        self.session, self.place, self.shape = session, place, shape
        self.dtype: np.dtype[Any] = place.array.dtype
        self.nbytes = prod(shape) * self.dtype.itemsize
        self.start = start

    @property
    def whole(self) -> bool:
        """Return whether the place's array is this buffer's, in its shape."""
        return bool(self.shape == self.place.array.shape)

    @property
    def native(self) -> Any:
        """Return JAX's array of the elements."""
        array = self.place.array
        if self.whole:
            return array
        return array.reshape(-1)[self.start : self.start + prod(self.shape)].reshape(self.shape)

    def put(self, array: Any) -> None:
        """Let the elements be those of another array, on the same device."""
        there = self.place.array
        if not self.whole:
            end = self.start + prod(self.shape)
            flat = there.reshape(-1).at[self.start : end].set(array.reshape(-1))
            array = flat.reshape(there.shape)
        self.place.array = array

    def _view(self, shape: tuple[int, ...], start: int) -> Self:
        return type(self)(self.session, self.place, start, shape)

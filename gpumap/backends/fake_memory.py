"""The memory of scripted devices: data, or only the knowledge whether they are spoilt.

What a benchmark moves and multiplies there may be far too large to be really kept. Such memory has
no data: it knows whether a command that was due to go wrong has written to it, directly or by what
it was made of. A benchmark's round asks for that in the place of looking at data.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from gpumap.backends.base import check_reshape, contiguous

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


class Memory:
    """Elements of one allocation, in a row; data are made when they are first looked at."""

    __slots__ = ("__weakref__", "_data", "_spoilt", "dtype", "hollow", "size")

    def __init__(self, size: int, dtype: np.dtype[Any], *, hollow: bool) -> None:
        self.size, self.dtype, self.hollow = size, dtype, hollow
        self._spoilt: list[tuple[int, int]] = []  # from which element to which
        self._data: Array | None = None

    def write(self, start: int, stop: int, *, spoilt: bool) -> None:
        """Note that elements are written, rightly or not."""
        parts = (p for a, b in self._spoilt for p in ((a, min(b, start)), (max(a, stop), b)))
        self._spoilt = [(a, b) for a, b in parts if a < b]
        if spoilt:
            self._spoilt.append((start, stop))

    def is_spoilt(self, start: int, stop: int) -> bool:
        """Return whether something wrong was written to any of the elements."""
        return any(a < stop and start < b for a, b in self._spoilt)

    @property
    def data(self) -> Array:
        """Return the elements; at first whatever is there."""
        if self.hollow:
            raise AssertionError("a scripted device has no data here")
        if self._data is None:
            import numpy as np

            self._data = np.empty(self.size, self.dtype)
        return self._data


class FakeBuffer:
    """An array in memory that plays a device's, or a part of one."""

    def __init__(
        self, session: Any, memory: Memory, shape: tuple[int, ...], start: int = 0
    ) -> None:
        self.session = session  # a FakeSession
        self.memory = memory
        self.shape = shape
        self.dtype = memory.dtype
        self._start, self._size = start, prod(shape)
        self.nbytes: int = self._size * memory.dtype.itemsize

    @property
    def native(self) -> Array:
        """The elements, in NumPy's array."""
        return self.memory.data[self._start : self._start + self._size].reshape(self.shape)

    @property
    def hollow(self) -> bool:
        """Whether there are no data."""
        return self.memory.hollow

    @property
    def spoilt(self) -> bool:
        """Whether something wrong was written there."""
        return self.memory.is_spoilt(self._start, self._start + self._size)

    def write(self, *, hollow: bool, spoilt: bool) -> bool:
        """Note what is written over all of it; return whether there is data to write.

        Of a part the rest of the memory stays what it is: hollow memory has no data anywhere.
        """
        memory, whole = self.memory, self._size == self.memory.size
        memory.hollow = hollow or (memory.hollow and not whole)
        memory.write(self._start, self._start + self._size, spoilt=spoilt)
        return not memory.hollow

    def __getitem__(self, rows: slice) -> FakeBuffer:
        rows = contiguous(rows, self.shape[0])
        width = prod(self.shape[1:])
        shape = (rows.stop - rows.start, *self.shape[1:])
        return FakeBuffer(self.session, self.memory, shape, self._start + rows.start * width)

    def reshape(self, shape: tuple[int, ...]) -> FakeBuffer:
        """Return a view of the same elements in another shape."""
        check_reshape(self.shape, shape)
        return FakeBuffer(self.session, self.memory, shape, self._start)

"""Host memory of other kinds than a program's own: shared with a device, or without any data.

Of what a device uses itself, the owner is found again behind an array. A hollow array has one
element that stands for all of them, whatever its shape: a benchmark gives them to a scripted device
in the place of data, and a copy of a gigabyte takes no memory, and no time but the scripted one.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Shared:
    """Bytes at an address of the host; NumPy arrays made of it keep it alive."""

    def __init__(self, session: Any, address: int, nbytes: int) -> None:
        self.session = session
        self.address = address
        self.nbytes = nbytes

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's protocol for memory that another object owns."""
        return {
            "version": 3,
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "data": (self.address, False),
        }

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return all of it as an array."""
        return np.asarray(self)[: prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


def behind(array: Array, session: Any) -> Any:
    """Return the `Shared` of a session that an array is a view of, in one piece; else None."""
    owner: Any = array
    while hasattr(owner, "base"):
        owner = owner.base
    if not isinstance(owner, Shared) or owner.session is not session:
        return None
    return owner if array.flags.c_contiguous else None


class Hollow(np.ndarray[Any, Any]):
    """An array without data; a slice of it has none either."""

    hollow = True

    def fill(self, value: Any) -> None:
        """Do nothing: there is nothing to fill."""


def hollow_array(shape: tuple[int, ...], dtype: Any) -> Hollow:
    """Return an array that holds no data."""
    held = np.dtype(dtype)
    return Hollow(shape, held, np.zeros(held.itemsize, np.uint8), strides=(0,) * len(shape))

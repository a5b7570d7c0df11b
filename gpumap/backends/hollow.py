"""Host arrays that hold no data: one element stands for all of them, whatever their shape.

A benchmark gives them to a scripted device in the place of data, and takes them back from it: a
copy of a gigabyte then takes no memory, and no time but the scripted one.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Hollow(np.ndarray[Any, Any]):
    """An array without data; a slice of it has none either."""

    hollow = True

    def fill(self, value: Any) -> None:
        """Do nothing: there is nothing to fill."""


def hollow_array(shape: tuple[int, ...], dtype: Any) -> Hollow:
    """Return an array that holds no data."""
    held = np.dtype(dtype)
    return Hollow(shape, held, np.zeros(held.itemsize, np.uint8), strides=(0,) * len(shape))

"""What the kernels of the table compute, by their NumPy references, and what they refuse."""

from typing import NamedTuple

import numpy as np
import pytest
import tables

from gpumap.kernels import KERNELS


class Buffer(NamedTuple):
    """As much of a buffer as is looked at before a kernel runs."""

    dtype: np.dtype
    nbytes: int


def buffer(dtype, elements):
    return Buffer(np.dtype(dtype), np.dtype(dtype).itemsize * elements)


@pytest.mark.parametrize(("kernel", "given_", "size", "message"), tables.table(__file__)["refused"])
def test_a_call_that_does_not_fit_is_refused(kernel, given_, size, message):
    """Device code would read past an end."""
    with pytest.raises(ValueError, match=message):
        KERNELS[kernel].element([buffer(*each) for each in given_], size)

"""What the kernels of the table compute, by their NumPy references, and what they refuse."""

from typing import NamedTuple

import numpy as np
import pytest
import tables
from hypothesis import given
from hypothesis import strategies as st

from gpumap.kernels import KERNELS

BYTES = st.binary(min_size=1, max_size=200)


class Buffer(NamedTuple):
    """As much of a buffer as is looked at before a kernel runs."""

    dtype: np.dtype
    nbytes: int


def buffer(dtype, elements):
    return Buffer(np.dtype(dtype), np.dtype(dtype).itemsize * elements)


def array(text):
    return np.frombuffer(text, np.uint8).copy()


@given(BYTES, st.integers(1, 255))
def test_a_shift_makes_every_byte_another(text, value):
    """Whatever is added, unless it is nothing; and adding the rest of 256 takes it back."""
    source = array(text)
    out, back = np.empty_like(source), np.empty_like(source)
    KERNELS["shift"].reference(out, source, float(value))
    KERNELS["shift"].reference(back, out, float(256 - value))
    assert (out != source).all()
    assert (back == source).all()


@pytest.mark.parametrize(("kernel", "given_", "size", "message"), tables.table(__file__)["refused"])
def test_a_call_that_does_not_fit_is_refused(kernel, given_, size, message):
    """Device code would read past an end."""
    with pytest.raises(ValueError, match=message):
        KERNELS[kernel].element([buffer(*each) for each in given_], size)

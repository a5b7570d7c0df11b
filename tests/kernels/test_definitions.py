"""What the kernels of the table compute, by their NumPy references, and what they refuse."""

from typing import NamedTuple

import numpy as np
import pytest
import tables
from hypothesis import given
from hypothesis import strategies as st

from gpumap import kernels
from gpumap.kernels import COUNTS, KERNELS

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


@given(BYTES, st.data(), st.integers(0, 2**32 - 1))
def test_differ_adds_how_many_are_not_equal(text, data, before):
    """As a loop counts them; the counter goes on from where it was, and wraps in 32 bits."""
    assert 0 < COUNTS < 2**32
    a = array(text)
    b = array(data.draw(st.binary(min_size=len(text), max_size=len(text))))
    counter = np.array([before, 7], np.uint32)
    KERNELS["differ"].reference(a, b, counter)
    differing = sum(x != y for x, y in zip(a.tolist(), b.tolist(), strict=True))
    assert counter.tolist() == [(before + differing) % 2**32, 7]


@pytest.mark.parametrize("at", [0, 9, 10, 11, 29])
def test_differ_looks_at_every_part(monkeypatch, at):
    """It compares part by part: no place is left out at their borders; nothing is in no part."""
    monkeypatch.setattr(kernels, "_PART", 10)
    a = np.arange(30, dtype=np.uint8)
    b, counter, none = a.copy(), np.zeros(1, np.uint32), np.empty(0, np.uint8)
    b[at] += 1
    KERNELS["differ"].reference(a, b, counter)
    assert counter[0] == 1
    assert KERNELS["differ"].reference(none, none, np.empty(0, np.uint32)) is None


@pytest.mark.parametrize(("kernel", "given_", "size", "message"), tables.table(__file__)["refused"])
def test_a_call_that_does_not_fit_is_refused(kernel, given_, size, message):
    """Device code would read past an end, or count past 32 bits."""
    with pytest.raises(ValueError, match=message):
        KERNELS[kernel].element([buffer(*each) for each in given_], size)

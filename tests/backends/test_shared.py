"""Host memory that a device uses itself: arrays of it, and the way back from an array."""

import gc
import weakref

import numpy as np
import pytest

from gpumap.backends.shared import Shared, behind

OWNER, OTHER = object(), object()


def shared(nbytes=100):
    """Return memory of a session, and the array that stands in for it here."""
    store = np.arange(nbytes, dtype=np.uint8)
    made = Shared(OWNER, store.ctypes.data, nbytes)
    made.store = store
    return made


@pytest.mark.parametrize(
    ("shape", "dtype"), [((100,), "uint8"), ((5, 5), "float32"), ((0, 3), "float64"), ((3,), "u4")]
)
def test_an_array_is_the_memory_itself(shape, dtype):
    """What is written to it is there, from the first byte on."""
    memory = shared()
    array = memory.array(shape, dtype)
    array[...] = 3
    assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
    assert array.tobytes() == memory.store[: array.nbytes].tobytes()


def test_views_lead_back_to_it():
    """With the place of their first byte."""
    memory = shared()
    array = memory.array((5, 5), "float32")
    views = {0: array, 20: array[1:], 60: array[1:][2:3], 4: array.reshape(-1)[1:9],
             96: array[4, 4:]}  # fmt: skip
    for place, view in views.items():
        assert (memory.offset(view), behind(view, OWNER)) == (place, memory)


@pytest.mark.parametrize("array", [
    shared().array((100,), "uint8")[::2], shared().array((5, 5), "float32").T,
    shared().array((100,), "uint8").copy(), np.zeros(4), np.frombuffer(b"1234", np.uint8)
])  # fmt: skip
def test_other_arrays_do_not(array):
    """A copy, other memory, a view with gaps; nor an array to which the session has no claim."""
    assert behind(array, OWNER) is None
    assert behind(shared().array((4,), "uint8"), OTHER) is None


def test_an_array_keeps_it_alive():
    """And nothing else does."""
    memory = shared()
    array, alive = memory.array((4,), "uint8")[1:], weakref.ref(memory)
    del memory
    gc.collect()
    assert alive() is not None
    del array
    assert alive() is None

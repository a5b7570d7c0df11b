"""Host memory that a device uses itself: arrays of it, and the way back from an array."""

import numpy as np
import pytest

from gpumap.backends.host_memory import Shared, behind

OWNER, OTHER = object(), object()


def shared(nbytes=100):
    store = np.arange(nbytes, dtype=np.uint8)
    made = Shared(OWNER, store.ctypes.data, nbytes)
    made.store = store
    return made


def test_views_lead_back_to_it():
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

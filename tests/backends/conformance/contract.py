"""What the conformance suite is made of: the devices of every backend, and their data."""

from itertools import product

import numpy as np
import pytest
from sessions import backend

from gpumap.backends import REGISTRY

SEED = 7
POISON = 0xA5  # a byte that no source holds by accident in every place
DTYPES = ("float32", "float64", "float16", "uint8")
TURNS = list(product((False, True), repeat=2))


def places():
    """Return a (backend, device) for each test, or the backend alone where it has none.

    They are the first and the last device of a backend, and a part where there are some.
    """
    for name in REGISTRY:
        probe = backend(name)[1]
        parts = [d for d in probe.devices if d.ref.part is not None]
        whole = [d for d in probe.devices if d.ref.part is None]
        few = (*whole[:1], *parts[-1:], *whole[-1:])
        for device in {d.id: d for d in few}.values():
            yield pytest.param((name, device), id=f"{name}-{device.ref}")
        if not probe.usable:
            reason = f"{name}: {probe.reason}"
            yield pytest.param((name, None), id=name, marks=pytest.mark.skip(reason))


def opened(place):
    name, device = place
    made = backend(name)[0]
    return made.open(device, made.clock())


PLACES = list(places())
REAL = [p for p in PLACES if p.values[0][1] is not None]
PAIRS = [
    pytest.param((a.values[0], b.values[0]), id=f"{a.id}-to-{b.id}")
    for a, b in product(REAL, REAL)
    if (a.values[0][0] == "fake") == (b.values[0][0] == "fake")
]


def featured(session, *wanted):
    """Skip what the device has not; bytes and float32 are for all."""
    for each in {*wanted} - {"float32", "uint8", *session.features}:
        pytest.skip(f"{session.device.id} has no {each}")


def poisoned(shape, dtype):
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[:] = POISON
    return array

"""What the conformance suite is made of: the devices of every backend, their data, a product."""

from itertools import product

import numpy as np
import pytest
from buffers import got, sent
from sessions import backend

from gpumap.backends import REGISTRY
from gpumap.dtypes import ROUNDING

SEED = 7
POISON = 0xA5  # a byte that no source holds by accident in every place
DTYPES = ("float32", "float64", "float16", "uint8")
TURNS = list(product((False, True), repeat=2))


def chosen(devices):
    """Return the first and the last device of a backend, and a part where there are some."""
    parts = [d for d in devices if d.ref.part is not None]
    whole = [d for d in devices if d.ref.part is None]
    few = [*whole[:1], *parts[-1:], *whole[-1:]]
    return list({d.id: d for d in few}.values())


def places():
    """Return a (backend, device) for each test, or the backend alone where it has none."""
    for name in REGISTRY:
        probe = backend(name)[1]
        for device in chosen(probe.devices):
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


def random(rng, shape, dtype):
    if dtype == "uint8":
        return rng.integers(0, 256, shape, dtype=np.uint8)
    return rng.uniform(-1, 1, shape).astype(dtype)


def poisoned(shape, dtype):
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[:] = POISON
    return array


def turned(array, turn):
    return np.ascontiguousarray(array.T) if turn else array


def bound(a, b, out, alpha, beta, inner):
    """Return how far a product may be off: each term rounds, in any order of the sum."""
    unit = ROUNDING[out.dtype.name].write
    terms = abs(alpha) * (np.abs(a).astype(float) @ np.abs(b).astype(float))
    terms += abs(beta) * np.nan_to_num(np.abs(out).astype(float))
    return (inner + 4) * unit * terms + unit


def assert_product(session, rng, sizes, dtype, transpose, alpha, beta):
    rows, columns, inner = sizes
    a, b = random(rng, (rows, inner), dtype), random(rng, (inner, columns), dtype)
    out = random(rng, (rows, columns), dtype)
    if beta == 0.0:
        out[...] = np.nan  # must not be read
    factors = (sent(session, turned(*each)) for each in zip((a, b), transpose, strict=True))
    target = sent(session, out)
    session.gemm(*factors, target, transpose=transpose, alpha=alpha, beta=beta)
    expected = alpha * (a.astype(float) @ b.astype(float))
    expected += beta * out.astype(float) if beta else 0.0
    off = np.abs(got(target).astype(float) - expected)
    assert (off <= bound(a, b, out, alpha, beta, inner)).all()

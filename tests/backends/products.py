"""A product on a session, compared with float64: for what every backend is, and OpenCL's cuts."""

import numpy as np
from buffers import got, sent

from gpumap.dtypes import ROUNDING


def random(rng, shape, dtype):
    if dtype == "uint8":
        return rng.integers(0, 256, shape, dtype=np.uint8)
    return rng.uniform(-1, 1, shape).astype(dtype)


def turned(array, turn):
    return np.ascontiguousarray(array.T) if turn else array


def bound(a, b, out, alpha, beta, inner):
    """Return how far a product may be off: each term rounds, in any order of the sum."""
    unit = ROUNDING[out.dtype.name].write
    terms = abs(alpha) * (np.abs(a).astype(float) @ np.abs(b).astype(float))
    terms += abs(beta) * np.nan_to_num(np.abs(out).astype(float))
    return (inner + 3) * unit * terms + np.finfo(out.dtype).smallest_normal


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
    assert (off <= bound(a, b, out, alpha, beta, inner)).all(), sizes

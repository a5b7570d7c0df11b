"""Products of float32 on an OpenCL device, beside NumPy and CLBlast."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.speed.contest import Contest, sampled
from benchmarks.speed.peers import DEBIAN, Peer
from gpumap.dtypes import numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.speed.contest import Timed
    from gpumap.backends.base import Session
    from gpumap.dtypes import Dtype

# Size -> how many times as fast as NumPy on all cores a product is to be.
TARGETS = {512: 0.7, 1024: 0.7, 2048: 0.7, 4096: 0.85}
HASWELL, CLBLAST = 1.0, 5.0  # as fast as its kernels for AVX2; as CLBlast through pygpu
_SAMPLE = 0.1  # seconds
_SLOW = 2048  # CLBlast takes seconds for more
_EPSILON = {"float32": 2.0**-23, "bfloat16": 2.0**-7}


def contests(session: Session) -> Iterator[Contest]:
    """Yield a contest for each size and peer."""
    for size, least in TARGETS.items():
        for peer, python, more, asked in (
            ("NumPy, all cores", sys.executable, {}, least),
            ("NumPy, OPENBLAS_CORETYPE=Haswell", sys.executable, {"OPENBLAS_CORETYPE": "Haswell"},
             HASWELL),
            ("NumPy, one core", sys.executable, {"OPENBLAS_NUM_THREADS": "1"}, None),
            ("CLBlast through pygpu", str(DEBIAN), {}, CLBLAST),
        ):  # fmt: skip
            if python == str(DEBIAN) and (not DEBIAN.exists() or size > _SLOW):
                continue
            name = "pygpu" if python == str(DEBIAN) else "numpy"
            with ExitStack() as ends:
                theirs = ends.enter_context(Peer(name, size, python, more))
                yield Contest(
                    f"product of {size}",
                    peer,
                    ours(session, size),
                    theirs,
                    least=asked,
                    amount=2.0 * size**3,
                    unit="FLOP/s",
                )


def ours(session: Session, size: int, dtype: Dtype = "float32") -> Timed:
    """Return what times a product on the device, once it was seen to be right."""
    rng = np.random.default_rng(size)
    a, b = (rng.uniform(-1, 1, (size, size)).astype(numpy_dtype(dtype)) for _ in range(2))
    left, right, out = (session.empty((size, size), dtype) for _ in range(3))
    session.upload(a, left)
    session.upload(b, right)
    timed = sampled(lambda: session.gemm(left, right, out), session.synchronize, _SAMPLE)
    found = np.empty_like(a)
    session.download(out, found)
    session.synchronize()
    vector = rng.uniform(-1, 1, size)
    off = abs(found.astype(float) @ vector - a.astype(float) @ (b.astype(float) @ vector)).max()
    if off > size * _EPSILON[dtype] * size:
        raise SystemExit(f"the product of {size}, {dtype}, is off by {off}")
    return timed

"""Products and copies beside PyTorch's on one device: a GPU where there is one, else the cores.

The targets are for a GPU: there both call the same libraries, and what gpumap adds differs alone.
"""

from __future__ import annotations

import importlib.util
import os
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.speed.contest import Contest, sampled
from benchmarks.speed.products import ours
from gpumap.backends import load
from gpumap.backends.base import Host
from gpumap.machine.topology import read
from gpumap.model import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.speed.contest import Timed
    from gpumap.backends.base import Session
    from gpumap.dtypes import Dtype

# Times as fast as PyTorch's: products, without TF32, and the copy on the device; as a bare copy of
# CuPy's from pinned memory.
PRODUCTS: dict[Dtype, float] = {"float32": 0.98, "bfloat16": 0.97}
COPY, PINNED = 0.95, 0.97
_SIZE = {Kind.CUDA: 8192, Kind.CPU: 2048}
_BYTES = 512 << 20  # of each copy
_SAMPLE = 0.1  # seconds


def missing() -> str | None:
    """Return why nothing can be measured; None where it can."""
    return None if importlib.util.find_spec("torch") else "torch: not installed."


def opened() -> Session:
    """Return a session on a GPU, or, without one, on all cores."""
    host = Host(dict(os.environ), read())
    for name, first in (("cupy", "cuda0"), ("numpy", "cpu")):
        backend = load(name, host)
        for device in backend.probe().devices:
            if str(device.ref) == first:
                return backend.open(device, backend.clock())
    raise SystemExit("neither a GPU nor a core can be used")


def contests(session: Session) -> Iterator[Contest]:
    """Yield the products of each type that the device has, and the copies."""
    import torch

    cuda = session.device.kind is Kind.CUDA
    size = _SIZE[session.device.kind]
    torch.backends.cuda.matmul.allow_tf32 = False
    for dtype, least in PRODUCTS.items():
        if dtype == "float32" or dtype in session.features:
            yield Contest(
                f"product of {size}, {dtype}, on {session.device.ref}",
                f"PyTorch {torch.__version__}",
                ours(session, size, dtype),
                _product(size, dtype, cuda=cuda),
                least=least if cuda else None,
                amount=2.0 * size**3,
                unit="FLOP/s",
            )
    there, out = (session.empty((_BYTES,), "uint8") for _ in range(2))
    session.upload(np.ones(_BYTES, "uint8"), there)  # unwritten pages share one page
    session.synchronize()
    copied = partial(
        Contest, ours=sampled(lambda: session.copy(there, out), session.synchronize, _SAMPLE),
        amount=2.0 * _BYTES, unit="B/s",
    )  # fmt: skip
    theirs = _copy(cuda=cuda)
    what = f"copy on {session.device.ref}"
    yield copied(what, f"PyTorch {torch.__version__}", theirs=theirs, least=COPY if cuda else None)
    if cuda:
        yield _pinned(session, out)


def _product(size: int, dtype: Dtype, *, cuda: bool) -> Timed:
    import torch

    place = "cuda" if cuda else "cpu"
    kind = getattr(torch, dtype)
    a, b = (torch.rand((size, size), device=place).to(kind) for _ in range(2))
    out = torch.empty_like(a)
    return sampled(lambda: torch.mm(a, b, out=out), _finish(cuda=cuda), _SAMPLE)


def _copy(*, cuda: bool) -> Timed:
    import torch

    place = "cuda" if cuda else "cpu"
    source = torch.ones(_BYTES, dtype=torch.uint8, device=place)
    target = torch.zeros_like(source)
    return sampled(lambda: target.copy_(source), _finish(cuda=cuda), _SAMPLE)


def _pinned(session: Session, target: Any) -> Contest:
    """Return the copy of pinned memory to the device, beside the same call of CuPy alone."""
    import cupy
    import cupyx

    source = session.host((_BYTES,), "uint8", "pinned")
    source[...] = 1
    pinned = cupyx.empty_pinned((_BYTES,), "uint8")
    pinned[...] = 1
    device = cupy.empty((_BYTES,), "uint8")
    stream = cupy.cuda.Stream(non_blocking=True)
    return Contest(
        f"pinned memory to {session.device.ref}",
        f"CuPy {cupy.__version__}, bare",
        sampled(lambda: session.upload(source, target), session.synchronize, _SAMPLE),
        sampled(lambda: device.set(pinned, stream=stream), stream.synchronize, _SAMPLE),
        least=PINNED,
        amount=float(_BYTES),
        unit="B/s",
    )


def _finish(*, cuda: bool) -> Callable[[], None]:
    import torch

    return torch.cuda.synchronize if cuda else lambda: None

"""Copies from one CUDA device to another: whether they arrive is proved, not believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpumap.backends.base import Route
    from gpumap.backends.cupy import CupySession
    from gpumap.backends.cupy_memory import CupyBuffer

_ALREADY_ENABLED = 704  # cudaErrorPeerAccessAlreadyEnabled
_PEER_PROOF = 1 << 20 | 1  # bytes that must arrive before peer access is believed; an odd number
_PEERS: dict[tuple[int, int], bool] = {}  # ordinals -> whether peer copies were proved right


def route(here: CupySession, there: CupySession) -> Route:
    """Return how a copy to another session goes."""
    if there.ordinal == here.ordinal:
        return "same"
    pair = (here.ordinal, there.ordinal)
    if pair not in _PEERS:
        _PEERS[pair] = _opened(here, there) and _proved(here, there)
    return "peer" if _PEERS[pair] else "staged"


def queue_copy(here: CupySession, source: CupyBuffer, target: CupyBuffer, repeat: int = 1) -> None:
    """Queue a copy from one device to the other, `repeat` times."""
    import cupy

    ends = (target.address, target.session.ordinal, source.address, here.ordinal)
    with here.current():
        for _ in range(repeat):
            cupy.cuda.runtime.memcpyPeerAsync(*ends, source.nbytes, here.stream)


def _opened(here: CupySession, there: CupySession) -> bool:
    """Let a device write another's memory; False where the hardware cannot."""
    import cupy
    from cupy_backends.cuda.api.runtime import CUDARuntimeError

    runtime = cupy.cuda.runtime
    with here.current():
        if not runtime.deviceCanAccessPeer(here.ordinal, there.ordinal):
            return False
        try:
            runtime.deviceEnablePeerAccess(there.ordinal)
        except CUDARuntimeError as error:
            return bool(error.status == _ALREADY_ENABLED)
    return True


def _proved(here: CupySession, there: CupySession) -> bool:
    """Copy random bytes over a wrong target and compare: some peer access moves nothing."""
    import numpy as np

    sent = np.random.default_rng(_PEER_PROOF).integers(0, 256, _PEER_PROOF, dtype=np.uint8)
    landed = np.invert(sent)
    source, target = here.empty(sent.shape, "uint8"), there.empty(sent.shape, "uint8")
    here.upload(sent, source)
    there.upload(landed, target)
    there.synchronize()
    queue_copy(here, source, target)
    here.synchronize()
    there.download(target, landed)
    there.synchronize()
    return bool((landed == sent).all())

"""The memory of CUDA devices: buffers of a session, and what kernels use of the host's.

Copies from one CUDA device to another: whether they arrive is proved, not believed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumap.backends.base import check_reshape, contiguous
from gpumap.backends.shared import Shared

if TYPE_CHECKING:
    from gpumap.backends.base import Route
    from gpumap.backends.cupy import CupySession
    from gpumap.dtypes import Dtype

_ALREADY_ENABLED = 704  # cudaErrorPeerAccessAlreadyEnabled
_PEER_PROOF = 1 << 20 | 1  # bytes that must arrive before peer access is believed; an odd number
_PEERS: dict[tuple[int, int], bool] = {}  # ordinals -> whether peer copies were proved right
_WORD = 4  # bytes that a thread copies, of memory that is so aligned


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


class CupyBuffer:
    """Memory of one session: a CuPy array, and the type that its elements really have.

    CuPy before 14 has no bfloat16; such an array holds its bits as uint16.
    """

    def __init__(self, session: CupySession, native: Any, dtype: Any) -> None:
        self.session = session
        self.native = native
        self.shape: tuple[int, ...] = native.shape
        self.dtype = dtype
        self.nbytes: int = native.nbytes

    def __getitem__(self, rows: slice) -> CupyBuffer:
        native = self.native[contiguous(rows, self.shape[0])]
        return CupyBuffer(self.session, native, self.dtype)

    def reshape(self, shape: tuple[int, ...]) -> CupyBuffer:
        """Return a view of the same elements in another shape."""
        check_reshape(self.shape, shape)
        return CupyBuffer(self.session, self.native.reshape(shape), self.dtype)

    @property
    def address(self) -> int:
        """Return where the first element is, on the device."""
        return int(self.native.data.ptr)


class CupyPinned(Shared):
    """Pinned memory of the host: as many bytes as were asked for, and freed with the last array.

    CuPy's pool rounds up to a power of two and keeps what was freed.
    """

    flags = 0

    def __init__(self, session: CupySession, nbytes: int) -> None:
        import cupy

        self._memory = cupy.cuda.PinnedMemory(max(nbytes, 1), self.flags)
        super().__init__(session, int(self._memory), max(nbytes, 1))


class CupyMapped(CupyPinned):
    """Pinned memory that also has an address on the device."""

    flags = 2  # cudaHostAllocMapped

    def __init__(self, session: CupySession, nbytes: int) -> None:
        from cupy.cuda import runtime

        super().__init__(session, nbytes)
        self.on_device = int(runtime.pointerGetAttributes(self.address).devicePointer)


def in_words(target: int, source: int, nbytes: int) -> tuple[tuple[Dtype, int, int], ...]:
    """Return type, first byte and count of what a kernel copies: words where both are aligned."""
    words = nbytes // _WORD if (target | source) % _WORD == 0 else 0
    done = words * _WORD
    return ("uint32", 0, words), ("uint8", done, nbytes - done)

"""The memory of CUDA devices: buffers of a session, and what kernels use of the host's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumap.backends.base import check_reshape, contiguous
from gpumap.backends.shared import Shared

if TYPE_CHECKING:
    from gpumap.backends.cupy import CupySession
    from gpumap.dtypes import Dtype

_WORD = 4  # bytes that a thread copies, of memory that is so aligned


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

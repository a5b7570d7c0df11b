"""The memory of CUDA devices: buffers of a session, and the host's memory that kernels use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumap.backends.base import NativeBuffer
from gpumap.backends.shared import Shared

if TYPE_CHECKING:
    from gpumap.dtypes import Dtype

_WORD = 4  # bytes that a thread copies, of memory that is so aligned


class CupyBuffer(NativeBuffer):
    """Memory of one session: a CuPy array, and the type that its elements really have.

    CuPy before 14 has no bfloat16; such an array holds its bits as uint16.
    """

    @property
    def address(self) -> int:
        """Return where the first element is, on the device."""
        return int(self.native.data.ptr)


class CupyPinned(Shared):
    """Pinned memory of the host: as many bytes as were asked for, and freed with the last array.

    CuPy's pool rounds up to a power of two and keeps what was freed.
    """

    flags = 0

    def __init__(self, session: Any, nbytes: int) -> None:
        import cupy

        self._memory = cupy.cuda.PinnedMemory(max(nbytes, 1), self.flags)
        super().__init__(session, int(self._memory), max(nbytes, 1))


class CupyMapped(CupyPinned):
    """Pinned memory that also has an address on the device."""

    flags = 2  # cudaHostAllocMapped

    def __init__(self, session: Any, nbytes: int) -> None:
        from cupy.cuda import runtime

        super().__init__(session, nbytes)
        self.on_device = int(runtime.pointerGetAttributes(self.address).devicePointer)


def in_words(target: int, source: int, nbytes: int) -> tuple[tuple[Dtype, int, int], ...]:
    """Return type, first byte and count of what a kernel copies: words where both are aligned."""
    words = nbytes // _WORD if (target | source) % _WORD == 0 else 0
    done = words * _WORD
    return ("uint32", 0, words), ("uint8", done, nbytes - done)

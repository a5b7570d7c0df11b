"""The memory of OpenCL devices: buffers, places in them, and what the host looks into.

When a device came to a mark, by the host's clock.

Which clock a driver stamps with is not told, and differs: PoCL's is CLOCK_MONOTONIC_RAW, Intel's
CLOCK_MONOTONIC. If a marker's stamp falls between two looks at one of them, that clock is read
beside the host's; else the marker's own end is taken as now.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from gpumap.backends.base import bytes_of, check_reshape, contiguous
from gpumap.backends.host_memory import Shared
from gpumap.errors import DeviceError
from gpumap.machine.process_control import ask_for_large, room_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumap.backends.base import Clock

_CLOCKS = tuple(
    getattr(time, name)
    for name in ("CLOCK_MONOTONIC", "CLOCK_MONOTONIC_RAW")
    if hasattr(time, name)
)
_RENEWED = 1.0  # seconds: clocks drift apart by microseconds a second
_LOOKS = 5  # at two clocks; the quickest is not one in which the scheduler stepped between
_NEIGHBOURS = 1 << 20  # bytes, of what a driver keeps beside a buffer


class Timestamps:
    """One moment as the host's time and as a device's stamp; another after a while."""

    def __init__(self, clock: Clock, stamped: Callable[[], int]) -> None:
        """`stamped` marks a device's queue, and returns its stamp in nanoseconds."""
        self._clock = clock
        self._stamped = stamped
        self._host, self._stamp = self._together()

    def at(self, stamp: int) -> float:
        """Return the host's time, in seconds, of a device's stamp in nanoseconds."""
        if self._clock.now() - self._host > _RENEWED:
            self._host, self._stamp = self._together()
        return self._host + (stamp - self._stamp) * 1e-9

    def _together(self) -> tuple[float, int]:
        before = {clock: time.clock_gettime_ns(clock) for clock in _CLOCKS}
        stamp = self._stamped()
        host = self._clock.now()
        for clock, earlier in before.items():
            if earlier <= stamp <= time.clock_gettime_ns(clock):
                _, together = min(self._beside(clock) for _ in range(_LOOKS))
                return together
        return host, stamp

    def _beside(self, clock: int) -> tuple[float, tuple[float, int]]:
        """Return host and `clock` read together, behind how long that took: the host may pause."""
        start = self._clock.now()
        stamp = time.clock_gettime_ns(clock)
        stop = self._clock.now()
        return stop - start, ((start + stop) / 2, stamp)


def allocate(context: Any, nbytes: int, flags: int = 0) -> Any:
    """Return a buffer that no one has written yet, with flags beside READ_WRITE.

    It is the driver's own, which keeps it until the last command that uses it is done: NumPy's
    memory (USE_HOST_PTR) would be gone with the last name that a program has for the buffer.
    """
    return cl.Buffer(context, cl.mem_flags.READ_WRITE | flags, max(nbytes, 1))


def allocate_large(context: Any, queue: Any, nbytes: int) -> tuple[Any, list[Any]]:
    """Return a buffer of a processor in large pages, and the events of what that takes.

    Raises:
        MemoryError: the host has no room. PoCL would end the process at the buffer's first use.
    """
    room = room_for(nbytes + _NEIGHBOURS)
    native = allocate(context, nbytes)  # what goes beyond the driver's own bounds, it says
    if not room:
        raise MemoryError(f"the host has no room for {nbytes} bytes")
    return native, list(_ask_for_large_pages(native, queue))


def _ask_for_large_pages(native: Any, queue: Any) -> Iterator[Any]:
    """Ask for large pages of a processor's buffer; yield the events of what that takes.

    Its memory is the host's, and drivers do not ask. Where it is, only mapping it tells, for which
    the driver takes it at once. Nothing waits for that, and what is queued finds the buffer as it
    was.
    """
    access = cl.map_flags.WRITE_INVALIDATE_REGION
    with suppress(cl.Error):  # a wish: whoever uses the buffer hears what is wrong with it
        array, event = cl.enqueue_map_buffer(
            queue, native, access, 0, (native.size,), "uint8", is_blocking=False
        )
        ask_for_large(int(array.__array_interface__["data"][0]), native.size)
        yield event
        yield array.base.release(queue)


class PyopenclBuffer:
    """A place in an OpenCL buffer: the buffer, and the offset of the first element in bytes."""

    def __init__(
        self, session: Any, native: Any, shape: tuple[int, ...], dtype: Any, at: int = 0
    ) -> None:
        self.session = session
        self.native = native
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.at = at
        self.nbytes = bytes_of(shape, self.dtype)

    def __getitem__(self, rows: slice) -> PyopenclBuffer:
        rows = contiguous(rows, self.shape[0])
        row = self.nbytes // max(self.shape[0], 1)
        shape = (rows.stop - rows.start, *self.shape[1:])
        at = self.at + rows.start * row
        return PyopenclBuffer(self.session, self.native, shape, self.dtype, at)

    def reshape(self, shape: tuple[int, ...]) -> PyopenclBuffer:
        """Return a view of the same elements in another shape."""
        check_reshape(self.shape, shape)
        return PyopenclBuffer(self.session, self.native, shape, self.dtype, self.at)

    def overlaps(self, other: PyopenclBuffer) -> bool:
        """Return whether a place of as many bytes has some of these."""
        return self.native is other.native and abs(self.at - other.at) < self.nbytes

    @property
    def first(self) -> int:
        """Return the place of the first element, in elements."""
        return self.at // int(self.dtype.itemsize)


class PyopenclShared(Shared):
    """A buffer in host memory, mapped whenever the host may look at it."""

    def __init__(self, session: Any, queue: Any, nbytes: int) -> None:
        self.native = allocate(session.context, nbytes, cl.mem_flags.ALLOC_HOST_PTR)
        self._queue = queue
        self._mapping, address, _ = self._map(blocking=True)
        super().__init__(session, address, max(nbytes, 1))

    def lent(self, copy: Callable[[], Any]) -> Iterator[Any]:
        """Queue `copy` while the device has the memory; yield the events of all three commands.

        Raises:
            DeviceError: the memory came back at another address, where no array looks.
        """
        yield self._mapping.release(self._queue)
        yield copy()
        self._mapping, address, event = self._map(blocking=False)
        yield event
        if address != self.address:
            message = f"{self.session.device.ref} mapped its memory to another place than before"
            raise DeviceError(message, "use pageable memory")

    def _map(self, *, blocking: bool) -> tuple[Any, int, Any]:
        access = cl.map_flags.READ | cl.map_flags.WRITE
        shape = (self.native.size,)
        array, event = cl.enqueue_map_buffer(
            self._queue, self.native, access, 0, shape, "uint8", is_blocking=blocking
        )
        return array.base, int(array.__array_interface__["data"][0]), event

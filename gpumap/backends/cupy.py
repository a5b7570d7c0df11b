"""CUDA devices, driven by CuPy: cuBLAS products, streams and events.

CUDA numbers devices by speed or by bus, and CUDA_VISIBLE_DEVICES hides and reorders them; so a
device is known by its PCI bus id and UUID, and its number is only what this process calls it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpumap.backends.base import (
    Closing,
    SystemClock,
    check_copy,
    check_shapes,
    contiguous,
    require,
    staged_copy,
)
from gpumap.backends.cupy_devices import INSTALL, NAME, inventory
from gpumap.backends.probe import probe_in_child
from gpumap.errors import DeviceError, DeviceLost, OutOfMemory
from gpumap.escape import printable
from gpumap.model import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from gpumap.backends.base import Clock, Dtype, Feature, Host, HostMemory, Mark, Route
    from gpumap.model import Device, Probe

    Array = np.ndarray[Any, Any]

_LOST = (46, 219, 700, 710, 719, 999)  # unavailable, ECC, illegal address, assert, launch failure


class CupyBuffer:
    """A CuPy array that belongs to one session."""

    def __init__(self, session: CupySession, native: Any) -> None:
        self.session = session
        self.native = native
        self.shape: tuple[int, ...] = native.shape
        self.dtype = native.dtype
        self.nbytes: int = native.nbytes

    def __getitem__(self, rows: slice) -> CupyBuffer:
        return CupyBuffer(self.session, self.native[contiguous(rows, self.shape[0])])


class CupyMark:
    """A CUDA event, recorded."""

    def __init__(self, session: CupySession, event: Any) -> None:
        self.session = session
        self.event = event


class CupySession(Closing):
    """One stream on one CUDA device."""

    features: frozenset[Feature] = frozenset({"events", "float64", "float16", "pinned"})

    def __init__(self, device: Device, clock: Clock) -> None:
        import cupy

        self.device = device
        self._clock = clock
        self._ordinal = device.ref.index
        with self._entered(stream=False):
            self._stream = cupy.cuda.Stream(non_blocking=True)
        self._base = self._anchor()

    def empty(self, shape: tuple[int, ...], dtype: Dtype) -> CupyBuffer:
        """Return memory that no one has written yet."""
        import cupy

        with self._entered():
            return CupyBuffer(self, cupy.empty(shape, dtype))

    def host(self, shape: tuple[int, ...], dtype: Dtype, memory: HostMemory) -> Array:
        """Return pageable or pinned host memory."""
        import cupyx
        import numpy as np

        if memory == "pageable":
            return np.empty(shape, dtype)
        require(self, memory, f"{memory} host memory")
        with self._entered():
            pinned: Array = cupyx.empty_pinned(shape, dtype)
            return pinned

    def upload(self, source: Array, target: CupyBuffer) -> None:
        """Queue a copy from host memory."""
        check_copy(source, target)
        with self._entered():
            target.native.set(source, stream=self._stream)

    def download(self, source: CupyBuffer, target: Array) -> None:
        """Queue a copy to host memory."""
        check_copy(source, target)
        with self._entered():
            source.native.get(stream=self._stream, out=target, blocking=False)

    def copy(self, source: CupyBuffer, target: Any) -> Route:
        """Queue a copy inside this device; to any other session by way of the host."""
        check_copy(source, target)
        if not isinstance(target, CupyBuffer) or target.session.device != self.device:
            return staged_copy(source, target)
        if target.session is not self:
            self.wait(target.session.mark())  # what the target does before it must be done
        with self._entered():
            target.native[...] = source.native
        target.session.wait(self.mark())
        return "same"

    def gemm(
        self,
        a: CupyBuffer,
        b: CupyBuffer,
        out: CupyBuffer,
        *,
        transpose: tuple[bool, bool] = (False, False),
        alpha: float = 1.0,
        beta: float = 0.0,
    ) -> None:
        """Queue out = alpha a.b + beta out with cuBLAS."""
        import cupy

        check_shapes(a.shape, b.shape, out.shape, transpose)
        left = a.native.T if transpose[0] else a.native
        right = b.native.T if transpose[1] else b.native
        with self._entered():
            if alpha == 1.0 and beta == 0.0:
                cupy.matmul(left, right, out=out.native)
                return
            product = alpha * cupy.matmul(left, right)
            out.native[...] = product if beta == 0.0 else product + beta * out.native

    def run(self, kernel: str, *arguments: CupyBuffer | float, size: int) -> None:  # noqa: ARG002 - the contract's
        """Raise Unsupported: there are no kernels in CUDA's dialect."""
        require(self, "kernels", f"the kernel {kernel}")

    def mark(self) -> CupyMark:
        """Queue an event and return it."""
        import cupy

        with self._entered():
            return CupyMark(self, self._stream.record(cupy.cuda.Event()))

    def wait(self, mark: Mark) -> None:
        """Let what is queued from now on start only after `mark`, of any session."""
        if not isinstance(mark, CupyMark):
            mark.session.synchronize()
        elif mark.session is not self:
            with self._entered():
                self._stream.wait_event(mark.event)

    def seconds(self, start: Mark, stop: Mark) -> float | None:
        """Return the time between two events by the device's clock."""
        import cupy

        assert isinstance(start, CupyMark)
        assert isinstance(stop, CupyMark)
        with self._entered():
            stop.event.synchronize()
            return float(cupy.cuda.get_elapsed_time(start.event, stop.event)) * 1e-3

    def at(self, mark: Mark) -> float | None:
        """Return the host time of a mark, counted from a base event."""
        host, base = self._base
        seconds = self.seconds(base, mark)
        return None if seconds is None else host + seconds

    def synchronize(self) -> None:
        """Wait for everything queued so far."""
        with self._entered():
            self._stream.synchronize()

    def close(self) -> None:
        """Give the memory pool's free blocks back to the device."""
        import cupy

        self.synchronize()
        with self._entered():
            cupy.get_default_memory_pool().free_all_blocks()

    def _anchor(self) -> tuple[float, CupyMark]:
        self.synchronize()
        mark = self.mark()
        self.synchronize()
        return self._clock.now(), mark

    @contextmanager
    def _entered(self, *, stream: bool = True) -> Iterator[None]:
        """Make device and stream current, and turn CuPy's errors into gpumap's."""
        import cupy
        from cupy.cuda.memory import OutOfMemoryError
        from cupy_backends.cuda.api.runtime import CUDARuntimeError

        try:
            with cupy.cuda.Device(self._ordinal):
                if not stream:
                    yield
                    return
                with self._stream:
                    yield
        except OutOfMemoryError as error:
            raise OutOfMemory(f"{self.device.ref}: {printable(str(error))}") from error
        except CUDARuntimeError as error:
            kind = DeviceLost if error.status in _LOST else DeviceError
            raise kind(f"{self.device.ref}: {printable(str(error))}") from error


class CupyBackend:
    """CuPy on every CUDA device that this process may see."""

    name = NAME
    kinds = frozenset({Kind.CUDA})

    def __init__(self, host: Host) -> None:
        self._host = host

    def probe(self) -> Probe:
        """Ask a child process what is there."""
        return probe_in_child(self.name, self._host, INSTALL)

    def inventory(self) -> Probe:
        """Ask the driver, in this process; `probe` calls it in the child."""
        return inventory(self._host)

    def open(self, device: Device, clock: Clock) -> CupySession:
        """Open a device with a stream of its own."""
        return CupySession(device, clock)

    def clock(self) -> SystemClock:
        """Return the machine's own clock."""
        return SystemClock()

"""CUDA devices, driven by CuPy: cuBLAS products, streams and events.

Copies go by address, so that any type can be moved and a copy costs the host as little as CUDA
allows.

To a copy engine `mapped` memory would be pinned memory under another name. What it is for is that a
kernel uses it where it is, so that is what a copy to or from it is here: the kernel `shift` by
nothing, which reads or writes the host's memory over the link, 128 bytes of each warp at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumap.backends import cupy_devices, cupy_memory
from gpumap.backends.base import (
    Closing,
    SystemClock,
    bytes_of,
    check_copy,
    kernel_named,
    pageable,
    require,
    staged_copy,
)
from gpumap.backends.cupy_devices import INSTALL, NAME, inventory
from gpumap.backends.cupy_gemm import Products
from gpumap.backends.cupy_launch import Current, Kernels
from gpumap.backends.cupy_memory import CupyBuffer, CupyMapped, CupyPinned, in_words
from gpumap.backends.foreign import foreign
from gpumap.backends.probe import probe_in_child
from gpumap.backends.shared import behind
from gpumap.dtypes import numpy_dtype
from gpumap.model import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from gpumap.backends.base import Clock, Feature, Host, HostMemory, Mark, Peak, Route
    from gpumap.dtypes import Arithmetic, Dtype
    from gpumap.model import Device, Probe

    Array = np.ndarray[Any, Any]

_REBASE = 1.0  # seconds: the device's clock and the host's drift apart
_CONTROLS = 5  # looks at both clocks: the shortest one is off by the least


class CupyMark:
    """A CUDA event, recorded."""

    def __init__(self, session: CupySession, event: Any) -> None:
        self.session = session
        self.event = event


class CupySession(Closing):
    """One stream on one CUDA device."""

    def __init__(self, device: Device, clock: Clock) -> None:
        import cupy

        self.device = device
        self._clock = clock
        self.ordinal = int(device.ref.index or 0)
        self._kernels = Kernels(self)
        self._products = Products(self)
        self._held: list[Any] = []  # host memory of copies that may not have run yet
        self._closed = False
        with foreign(self.device), cupy.cuda.Device(self.ordinal) as on:
            self._stream = cupy.cuda.Stream(non_blocking=True)
            self.features = cupy_devices.features(self.ordinal)
        self._current = Current(device, on, self._stream)
        self._base = self._control()

    @property
    def stream(self) -> int:
        """Return the address of its stream, as CUDA's libraries take it."""
        return int(self._stream.ptr)

    def empty(self, shape: tuple[int, ...], dtype: Dtype) -> CupyBuffer:
        """Return memory that no one has written yet.

        Raises:
            OutOfMemory: the device has no room.
        """
        import cupy

        held = "uint16" if dtype == "bfloat16" else dtype
        bytes_of(shape, held)  # what CuPy cannot count, it would wrap around
        with self.current():
            return CupyBuffer(self, cupy.empty(shape, held), numpy_dtype(dtype))

    def host(self, shape: tuple[int, ...], dtype: Dtype, memory: HostMemory) -> Array:
        """Return host memory; pinned and mapped are never replaced by pageable."""
        if memory == "pageable":
            return pageable(shape, numpy_dtype(dtype))
        require(self, memory, f"{memory} host memory")
        with self.current():
            nbytes = bytes_of(shape, numpy_dtype(dtype))
            kind = CupyMapped if memory == "mapped" else CupyPinned
            return kind(self, nbytes).array(shape, dtype)

    def upload(self, source: Array, target: CupyBuffer, repeat: int = 1) -> None:
        """Queue a copy from host memory, which is kept until it was waited for.

        CUDA may read pageable memory after the call: "API synchronization behavior" of its driver's
        manual no longer promises otherwise.
        """
        import cupy
        import numpy as np

        check_copy(source, target)
        if isinstance(shared := behind(source, self), CupyMapped):
            read = shared.on_device + shared.offset(source)
            self._by_kernel(target.address, read, target.nbytes, repeat)
            self._held.append(source)
            return
        whole = np.ascontiguousarray(source)
        self._held.append(whole)
        kind = cupy.cuda.runtime.memcpyHostToDevice
        self._move(target.address, whole.ctypes.data, target.nbytes, kind, repeat)

    def download(self, source: CupyBuffer, target: Array, repeat: int = 1) -> None:
        """Queue a copy to host memory."""
        import cupy

        check_copy(source, target)
        if not target.flags.c_contiguous:
            raise ValueError("a copy to the host needs a contiguous target")
        self._held.append(target)
        if isinstance(shared := behind(target, self), CupyMapped):
            written = shared.on_device + shared.offset(target)
            self._by_kernel(written, source.address, source.nbytes, repeat)
            return
        kind = cupy.cuda.runtime.memcpyDeviceToHost
        self._move(target.ctypes.data, source.address, source.nbytes, kind, repeat)

    def copy(self, source: CupyBuffer, target: Any, repeat: int = 1) -> Route:
        """Queue a copy inside this device, to another one, or to any session by way of the host."""
        import cupy

        check_copy(source, target)
        if not isinstance(target, CupyBuffer):
            return staged_copy(source, target, repeat)
        there = target.session
        route = cupy_memory.route(self, there)
        if route == "staged":
            return staged_copy(source, target, repeat)
        if there is not self:
            self.wait(there.mark())  # what the target does before it must be done
        if route == "same":
            kind = cupy.cuda.runtime.memcpyDeviceToDevice
            self._move(target.address, source.address, source.nbytes, kind, repeat)
        elif source.nbytes:
            cupy_memory.queue_copy(self, source, target, repeat)
        there.wait(self.mark())
        return route

    def gemm(
        self,
        a: CupyBuffer,
        b: CupyBuffer,
        out: CupyBuffer,
        *,
        transpose: tuple[bool, bool] = (False, False),
        alpha: float = 1.0,
        beta: float = 0.0,
        tf32: bool = False,
        repeat: int = 1,
    ) -> None:
        """Queue out = alpha a.b + beta out with cuBLAS."""
        self._products.queue((a, b, out), transpose, (alpha, beta), repeat, tf32=tf32)

    def run(self, kernel: str, *arguments: CupyBuffer | float, size: int) -> None:
        """Queue a kernel of `gpumap.kernels.table` over `size` elements."""
        self.prepare(kernel, *arguments, size=size)()

    def prepare(self, kernel: str, *arguments: CupyBuffer | float, size: int) -> Callable[[], None]:
        """Return what queues a kernel as `run` would, with its arguments as CUDA takes them."""
        import numpy as np

        known = kernel_named(kernel, self)
        dtype = known.element(arguments, size)
        flat: list[Any] = []
        for kind, argument in zip(known.arguments, arguments, strict=True):
            if isinstance(argument, CupyBuffer):
                flat += [argument.native, np.uint64(0)]  # a view's address is its own
            else:
                flat.append(np.uint64(argument) if kind == "count" else dtype.type(argument))
        built = known.constants(arguments, size)
        launches = [(kernel, dtype.name, tuple(flat), size)]
        if (parts := known.parts(size, dtype)) > 1:  # of a reduction, which is then reduced
            results = self.empty((parts,), dtype.name).native
            (source, target) = (flat[0:2], flat[2:4])
            launches = [
                (kernel, dtype.name, (*source, results, np.uint64(0)), size),
                (kernel, dtype.name, (results, np.uint64(0), *target), parts),
            ]
        return self._kernels.prepared(launches, 1, built)

    def mark(self) -> CupyMark:
        """Queue an event and return it."""
        import cupy

        with self.current():
            return CupyMark(self, self._stream.record(cupy.cuda.Event()))

    def wait(self, mark: Mark) -> None:
        """Let what is queued from now on start only after `mark`, of any session."""
        if not isinstance(mark, CupyMark):
            mark.session.synchronize()
        elif mark.session is not self:
            with self.current():
                self._stream.wait_event(mark.event)

    def seconds(self, start: Mark, stop: Mark) -> float | None:
        """Return the time between two events by the device's clock."""
        import cupy

        assert isinstance(start, CupyMark)
        assert isinstance(stop, CupyMark)
        with self.current():
            stop.event.synchronize()
            return float(cupy.cuda.get_elapsed_time(start.event, stop.event)) * 1e-3

    def at(self, mark: Mark) -> float | None:
        """Return the host time of a mark, counted from a base event."""
        if self._clock.now() - self._base[0] > _REBASE:
            self._base = self._control()
        host, base = self._base
        seconds = self.seconds(base, mark)
        return None if seconds is None else host + seconds

    def worked(self, start: Mark, stop: Mark) -> float | None:  # noqa: ARG002 - the contract's
        """Return None: the work is the GPU's."""
        return None

    def peak(self, arithmetic: Arithmetic) -> Peak | None:
        """Return what the multiprocessors can do in a clock, times the highest clock."""
        with self.current():
            return cupy_devices.peak(self.device, self.ordinal, arithmetic)

    def synchronize(self) -> None:
        """Wait for everything queued so far."""
        with self.current():
            self._stream.synchronize()
        self._held.clear()

    def close(self) -> None:
        """Give back what this session alone has used; a second call does nothing."""
        import cupy

        if self._closed:
            return
        self._closed = True
        self.synchronize()
        self._kernels.clear()
        with self.current():
            self._products.close()
            # of this stream: to free what other sessions keep would let them wait in a sample
            cupy.get_default_memory_pool().free_all_blocks(stream=self._stream)

    def _move(self, target: int, source: int, nbytes: int, kind: int, repeat: int) -> None:
        from cupy.cuda.runtime import memcpyAsync

        if nbytes:
            with self.current():
                stream = self._stream.ptr
                for _ in range(repeat):
                    memcpyAsync(target, source, nbytes, kind, stream)

    def _by_kernel(self, target: int, source: int, nbytes: int, repeat: int) -> None:
        """Queue copies by a kernel, between addresses of the device."""
        import numpy as np

        at, launches = np.uint64(0), []
        for dtype, start, count in in_words(target, source, nbytes):
            places = (np.uint64(target + start), at, np.uint64(source + start), at)
            launches.append(("shift", dtype, (*places, np.dtype(dtype).type(0)), count))
        self._kernels.prepared(launches, repeat, {})()

    def _control(self) -> tuple[float, CupyMark]:
        """Return one moment as the host's time and as an event: the middle of the shortest look."""
        self.synchronize()
        looks = []
        for _ in range(_CONTROLS):
            before = self._clock.now()
            mark = self.mark()
            self.synchronize()
            after = self._clock.now()
            looks.append((after - before, (before + after) / 2, mark))
        _, moment, mark = min(looks, key=lambda look: look[0])
        return moment, mark

    def current(self) -> Current:
        """Make device and stream current, and turn CuPy's errors into gpumap's."""
        return self._current


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

    def features(self, device: Device) -> frozenset[Feature]:
        """Return what devices of its compute capability have."""
        return cupy_devices.expected(device)

    def clock(self) -> SystemClock:
        """Return the machine's own clock."""
        return SystemClock()

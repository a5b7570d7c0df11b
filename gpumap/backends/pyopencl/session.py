"""OpenCL devices, driven by PyOpenCL: any driver, and the parts of a device that can be divided.

Facts that shape this file, all observed on PoCL 3.1: an event that is dropped makes the next
command wait for it, so a session keeps its events until it synchronises; a buffer that is a set
kernel argument is not kept alive by OpenCL, so the session does; each local size compiles anew, so
that there is one of each kernel.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyopencl as cl

from gpumap.backends.base import EventMark, Product, Session, bytes_of, require
from gpumap.backends.device_clock import DeviceClock
from gpumap.backends.pyopencl import launch as launches
from gpumap.backends.pyopencl.launch import Facts, PyopenclBuffer, allocate, features
from gpumap.backends.third_party import third_party_errors
from gpumap.errors import OutOfMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumap.backends.base import Clock, Route
    from gpumap.backends.pyopencl.launch import Launch
    from gpumap.dtypes import Array, Dtype
    from gpumap.model import Device

_ALIGNED = 128  # bytes: sixteen of the widest number; where a driver begins a buffer at least


class PyopenclSession(Session):
    """One in-order queue with profiling, on one device or part of one."""

    def __init__(self, device: Device, clock: Clock, context: Any, native: Any) -> None:
        self.device = device
        self.context = context
        self._facts = Facts.of(native, context)
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        self._queue: Any = cl.CommandQueue(context, native, profiling)  # None once it is closed
        self.features = features(native)
        self._native = native
        self._built: dict[tuple[Any, ...], tuple[Any, Any]] = {}  # when it is first requested
        self._events: list[Any] = []
        self._arguments: dict[str, tuple[Any, ...]] = {}
        self._host_times = DeviceClock(self, clock)

    def empty(self, shape: tuple[int, ...], dtype: Dtype) -> PyopenclBuffer:
        """Return memory that no one has written yet.

        Raises:
            OutOfMemory: the device has no room.
        """
        nbytes = bytes_of(shape, dtype)
        total = self.device.memory_total
        if total is not None and nbytes > total:  # NVIDIA's driver grants it, and fails at its use
            raise OutOfMemory(
                f"{self.device.ref} ran out of memory: {nbytes} of {total} bytes",
                "choose a smaller size, or free the device's memory",
            )
        with third_party_errors(self.device):
            native = allocate(self.context, nbytes, on_host=self._facts.processor)
        return PyopenclBuffer(self, native, dtype, shape)

    def _pinned(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return a buffer that stays mapped: copies read and write it as host memory."""
        nbytes = bytes_of(shape, dtype)
        with third_party_errors(self.device):
            native = allocate(self.context, nbytes, cl.mem_flags.ALLOC_HOST_PTR)
            access = cl.map_flags.READ | cl.map_flags.WRITE
            array, _ = cl.enqueue_map_buffer(self._queue, native, access, 0, shape, dtype)
        pinned: Array = array  # its base keeps the buffer alive
        return pinned

    def _upload(self, source: Array, target: PyopenclBuffer, repeat: int) -> None:
        """Queue a copy from host memory to the device."""
        self._transfer(target.native, source, repeat, dst_offset=target.at)

    def _download(self, source: PyopenclBuffer, target: Array, repeat: int) -> None:
        """Queue a copy from the device to host memory."""
        self._transfer(target, source.native, repeat, src_offset=source.at)

    def _route(self, there: Any) -> Route:
        if there is self:
            return "same"
        if not isinstance(there, PyopenclSession) or there.context != self.context:
            return "staged"
        return "same" if self.device.hardware == there.device.hardware else "peer"

    def _copy(self, source: PyopenclBuffer, target: PyopenclBuffer, repeat: int) -> None:
        offsets = {"src_offset": source.at, "dst_offset": target.at}
        self._transfer(target.native, source.native, repeat, **offsets, byte_count=source.nbytes)

    def _multiply(self, product: Product, repeat: int) -> None:
        launch = launches.product_of(product, self._facts)
        for _ in range(repeat):
            self._queue_launch(launch)

    def run(self, kernel: str, *arguments: PyopenclBuffer | float, size: int) -> None:
        """Queue a kernel of `gpumap.kernels` over `size` elements."""
        for launch in self._launches(kernel, arguments, size):
            self._queue_launch(launch)

    def prepare(
        self, kernel: str, *arguments: PyopenclBuffer | float, size: int
    ) -> Callable[[], None]:
        """Return what queues a kernel as `run` would, with its arguments set once."""
        each = [self._prepared(launch) for launch in self._launches(kernel, arguments, size)]
        if len(each) == 1:
            return each[0]

        def again() -> None:
            for queue_one in each:
                queue_one()

        return again

    def _prepared(self, launch: Launch) -> Callable[[], None]:
        """Return what queues one launch: each step more in it costs a launch some hundredths."""
        with third_party_errors(self.device):
            program, _ = self._of(launch)
            kernel = launch.kernel(program)
            kernel.set_args(*launch.arguments)
        items, local = launch.items, launch.local
        keep, enqueue = self._events.append, cl.enqueue_nd_range_kernel

        def again(_alive: Launch = launch) -> None:  # OpenCL keeps no argument alive
            try:
                keep(enqueue(self._queue, kernel, items, local))
            except Exception:
                with third_party_errors(self.device):
                    raise

        return again

    def _launches(
        self, name: str, arguments: Sequence[PyopenclBuffer | float], size: int
    ) -> list[Launch]:
        """Return the launches of a kernel."""
        kernel, dtype = self._fitting(name, arguments, size)
        calls = self._calls(kernel, arguments, size)
        streams = len(calls) == 1 and self._streams(arguments)
        make = partial(launches.launch_of, kernel, dtype, self._facts, streams=streams)
        return [make(*call) for call in calls]

    def _streams(self, arguments: Sequence[PyopenclBuffer | float]) -> bool:
        """Return whether a call goes beyond the caches, and begins where vectors may."""
        buffers = [a for a in arguments if isinstance(a, PyopenclBuffer)]
        far = sum(buffer.nbytes for buffer in buffers) > self._facts.cache
        return far and not any(buffer.at % _ALIGNED for buffer in buffers)

    def mark(self) -> EventMark:
        """Queue a mark and return it."""
        with third_party_errors(self.device):
            event = cl.enqueue_marker(self._queue)
            self._queue.flush()
        return EventMark(self, event)

    def _queued_wait(self, mark: Any) -> bool:
        if not isinstance(mark.session, PyopenclSession) or mark.session.context != self.context:
            return False
        with third_party_errors(self.device):
            self._events.append(cl.enqueue_barrier(self._queue, wait_for=[mark.event]))
        return True

    def seconds(self, start: EventMark, stop: EventMark) -> float:
        """Return the time between two marks by the device's own clock."""
        with third_party_errors(self.device):
            cl.wait_for_events([start.event, stop.event])
            return float(stop.event.profile.end - start.event.profile.end) * 1e-9

    def synchronize(self) -> None:
        """Wait for everything queued so far."""
        with third_party_errors(self.device):
            self._queue.finish()
        self._events.clear()
        self._arguments.clear()  # every launch sets its own

    def _close(self) -> None:
        """Give queue, kernels and buffers back."""
        try:
            self.synchronize()
        finally:
            self._arguments.clear()
            self._built.clear()
            self._events.clear()
            self._queue = None

    def _transfer(self, target: Any, source: Any, repeat: int, **places: int) -> None:
        # Two device buffers copy without the argument; host memory must not block the caller.
        host = {} if "byte_count" in places else {"is_blocking": False}
        given = {key: at for key, at in places.items() if at}  # each costs a small copy 7 %
        copy = partial(cl.enqueue_copy, self._queue, target, source, **host, **given)
        keep = self._events.append
        with third_party_errors(self.device):
            for _ in range(repeat):
                keep(copy())

    def _of(self, launch: Launch) -> tuple[Any, Any]:
        """Return the program of a launch, which Intel's driver does not tell, and a kernel of it.

        The kernel's arguments are those of whoever set them last.
        """
        key = (launch.name, launch.dtype, *launch.constants.items())
        if key not in self._built:
            if launch.dtype in ("float16", "float64"):
                require(self, launch.dtype, f"{launch.dtype} arithmetic")
            program = launch.program(self.context, self._native)
            self._built[key] = program, launch.kernel(program)
        return self._built[key]

    def _queue_launch(self, launch: Launch) -> None:
        with third_party_errors(self.device):
            _, kernel = self._of(launch)
            kernel.set_args(*launch.arguments)
            self._arguments[launch.name] = launch.arguments  # OpenCL does not keep them alive
            event = cl.enqueue_nd_range_kernel(self._queue, kernel, launch.items, launch.local)
            self._events.append(event)

"""OpenCL devices, driven by PyOpenCL: any driver, and the parts of a device that can be divided.

Facts that shape this file, all observed on PoCL 3.1: an event that is dropped makes the next
command wait for it, so a session keeps its events until it synchronises; a buffer that is a set
kernel argument is not kept alive by OpenCL, so the session does; each local size compiles anew.
"""

from __future__ import annotations

import os
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpumap.backends.base import (
    Closing,
    SystemClock,
    check_copy,
    check_shapes,
    contiguous,
    kernel_named,
    require,
    staged_copy,
)
from gpumap.backends.probe import probe_in_child
from gpumap.errors import AbsentError, DeviceError, DeviceLost, OutOfMemory
from gpumap.escape import printable
from gpumap.kernels.table import text
from gpumap.model import Device, DeviceRef, Kind, Probe

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from gpumap.backends.base import Clock, Dtype, Feature, Host, HostMemory, Mark, Route

    Array = np.ndarray[Any, Any]

INSTALL = "pip install 'gpumap[opencl]'"
DRIVER = "install a driver (Debian: apt-get install pocl-opencl-icd)"
_PLATFORM_NOT_FOUND = -1001
_TYPES = {"float16": ("half", "half16"), "float32": ("float", "float16"),
          "float64": ("double", "double16"), "uint8": ("uchar", "uchar16")}  # fmt: skip
_TILE = (16, 8)  # columns and rows of a product that one work-item of gemm.cl computes
# A CPU driver runs a work-group on one core: one item in it is best. A GPU needs whole warps.
_LOCAL = {True: (1, 1), False: (8, 8)}

# OpenCL status -> error; what is not named here is a DeviceError.
_ERRORS = {
    -2: DeviceLost,  # DEVICE_NOT_AVAILABLE
    -4: OutOfMemory,  # MEM_OBJECT_ALLOCATION_FAILURE
    -5: OutOfMemory,  # OUT_OF_RESOURCES
    -6: OutOfMemory,  # OUT_OF_HOST_MEMORY
    -36: DeviceLost,  # INVALID_COMMAND_QUEUE: the driver dropped it
    -61: OutOfMemory,  # INVALID_BUFFER_SIZE
}


class PyopenclBuffer:
    """A place in an OpenCL buffer: the buffer, and the offset of the first element in bytes."""

    def __init__(
        self, session: PyopenclSession, native: Any, shape: tuple[int, ...], dtype: Any, at: int = 0
    ) -> None:
        import numpy as np

        self.session = session
        self.native = native
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.at = at
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * self.dtype.itemsize

    def __getitem__(self, rows: slice) -> PyopenclBuffer:
        rows = contiguous(rows, self.shape[0])
        row = self.nbytes // max(self.shape[0], 1)
        shape = (rows.stop - rows.start, *self.shape[1:])
        at = self.at + rows.start * row
        return PyopenclBuffer(self.session, self.native, shape, self.dtype, at)

    @property
    def first(self) -> int:
        """Return the place of the first element, in elements."""
        return self.at // int(self.dtype.itemsize)


@dataclass(frozen=True, slots=True)
class PyopenclMark:
    """A marker command in a queue, and its event."""

    session: PyopenclSession
    event: Any


class PyopenclSession(Closing):
    """One in-order queue with profiling, on one device or part of one."""

    def __init__(self, device: Device, clock: Clock, context: Any, native: Any) -> None:
        import pyopencl as cl

        self.device = device
        self.context = context
        self.features = _features(native)
        self._clock = clock
        self._cpu = bool(native.type & cl.device_type.CPU)
        self._queue = cl.CommandQueue(context, native, cl.command_queue_properties.PROFILING_ENABLE)
        self._kernels: dict[tuple[str, str], Any] = {}
        self._events: list[Any] = []
        self._arguments: dict[str, tuple[Any, ...]] = {}
        self._base = self._anchor()

    def empty(self, shape: tuple[int, ...], dtype: Dtype) -> PyopenclBuffer:
        """Return memory that no one has written yet.

        Raises:
            OutOfMemory: the device has no room.
        """
        import numpy as np
        import pyopencl as cl

        nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        with _foreign(self.device):
            native = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, max(nbytes, 1))
        return PyopenclBuffer(self, native, shape, dtype)

    def host(self, shape: tuple[int, ...], dtype: Dtype, memory: HostMemory) -> Array:
        """Return host memory: pageable, or pinned where the device has memory of its own."""
        import numpy as np
        import pyopencl as cl

        if memory == "pageable":
            return np.empty(shape, dtype)
        require(self, memory, f"{memory} host memory")
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        with _foreign(self.device):
            native = cl.Buffer(self.context, flags, max(nbytes, 1))
            access = cl.map_flags.READ | cl.map_flags.WRITE
            array, _ = cl.enqueue_map_buffer(self._queue, native, access, 0, shape, dtype)
        mapped: Array = array  # its base keeps the buffer alive
        return mapped

    def upload(self, source: Array, target: PyopenclBuffer) -> None:
        """Queue a copy from host memory to the device."""
        check_copy(source, target)
        if target.nbytes:  # OpenCL refuses to copy nothing
            self._transfer(target.native, source, dst_offset=target.at)

    def download(self, source: PyopenclBuffer, target: Array) -> None:
        """Queue a copy from the device to host memory."""
        check_copy(source, target)
        if source.nbytes:
            self._transfer(target, source.native, src_offset=source.at)

    def copy(self, source: PyopenclBuffer, target: Any) -> Route:
        """Queue a copy to a buffer of this session, or of one that shares its context."""
        check_copy(source, target)
        if not isinstance(target, PyopenclBuffer) or target.session.context != self.context:
            return staged_copy(source, target)
        if target.session is not self:
            self.wait(target.session.mark())  # what the target does before it must be done
        offsets = {"src_offset": source.at, "dst_offset": target.at, "byte_count": source.nbytes}
        if source.nbytes:
            self._transfer(target.native, source.native, **offsets)
        if target.session is self:
            return "same"
        target.session.wait(self.mark())
        return "same" if self.device.silicon == target.session.device.silicon else "peer"

    def gemm(
        self,
        a: PyopenclBuffer,
        b: PyopenclBuffer,
        out: PyopenclBuffer,
        *,
        transpose: tuple[bool, bool] = (False, False),
        alpha: float = 1.0,
        beta: float = 0.0,
    ) -> None:
        """Queue out = alpha a.b + beta out with the kernel of `kernels/gemm.cl`."""
        import numpy as np

        rows, columns, inner = check_shapes(a.shape, b.shape, out.shape, transpose)
        a_strides = (1, a.shape[1]) if transpose[0] else (a.shape[1], 1)
        b_strides = (1, b.shape[1]) if transpose[1] else (b.shape[1], 1)
        sizes = (np.uint32(n) for n in (rows, columns, inner))
        places = (np.uint64(n) for n in (a.first, b.first, out.first, *a_strides, *b_strides))
        scalars = (out.dtype.type(alpha), out.dtype.type(beta))
        arguments = (a.native, b.native, out.native, *sizes, *places, *scalars)
        items = (-(-columns // _TILE[0]), -(-rows // _TILE[1]))
        self._launch("gemm", "gemm.cl", out.dtype, arguments, items, _LOCAL[self._cpu])

    def run(self, kernel: str, *arguments: PyopenclBuffer | float, size: int) -> None:
        """Queue a kernel of `gpumap.kernels.table` over `size` elements."""
        import numpy as np

        kernel_named(kernel, self)
        dtype = next(a.dtype for a in arguments if isinstance(a, PyopenclBuffer))
        flat: list[Any] = []
        for argument in arguments:
            if isinstance(argument, PyopenclBuffer):
                flat += [argument.native, np.uint64(argument.first)]
            else:
                flat.append(dtype.type(argument))
        self._launch(kernel, "elementwise.cl", dtype, (*flat, np.uint64(size)), (size,), None)

    def mark(self) -> PyopenclMark:
        """Queue a mark and return it."""
        import pyopencl as cl

        with _foreign(self.device):
            event = cl.enqueue_marker(self._queue)
            self._queue.flush()
        return PyopenclMark(self, event)

    def wait(self, mark: Mark) -> None:
        """Let what is queued from now on start only after `mark`, of any session."""
        import pyopencl as cl

        if not isinstance(mark, PyopenclMark) or mark.session.context != self.context:
            mark.session.synchronize()
        elif mark.session is not self:
            with _foreign(self.device):
                self._events.append(cl.enqueue_barrier(self._queue, wait_for=[mark.event]))

    def seconds(self, start: Mark, stop: Mark) -> float | None:
        """Return the time between two marks by the device's own clock."""
        return (self._stamp(stop) - self._stamp(start)) * 1e-9

    def at(self, mark: Mark) -> float | None:
        """Return the host time at which the device came to `mark`."""
        if self._base_is_old():
            self._base = self._anchor()
        host, stamp = self._base
        return host + (self._stamp(mark) - stamp) * 1e-9

    def synchronize(self) -> None:
        """Wait for everything queued so far."""
        with _foreign(self.device):
            self._queue.finish()
        self._events.clear()
        self._arguments.clear()  # every launch sets its own

    def close(self) -> None:
        """Give queue, kernels and buffers back; a second call does nothing."""
        if self._queue is None:
            return
        try:
            self.synchronize()
        finally:
            self._arguments.clear()
            self._kernels.clear()
            self._events.clear()
            self._queue = None

    def _transfer(self, target: Any, source: Any, **places: int) -> None:
        import pyopencl as cl

        # Two device buffers copy without the argument; host memory must not block the caller.
        host = {} if "byte_count" in places else {"is_blocking": False}
        with _foreign(self.device):
            self._events.append(cl.enqueue_copy(self._queue, target, source, **host, **places))

    def _launch(
        self,
        name: str,
        file: str,
        dtype: Any,
        arguments: tuple[Any, ...],
        items: tuple[int, ...],
        local: tuple[int, ...] | None,
    ) -> None:
        import pyopencl as cl

        if 0 in items:
            return  # nothing to do, which OpenCL calls an error
        if local is not None:
            items = tuple(-(-n // m) * m for n, m in zip(items, local, strict=True))
        with _foreign(self.device):
            kernel = self._kernel(name, file, dtype.name)
            kernel.set_args(*arguments)
            self._arguments[name] = arguments  # OpenCL does not keep them alive
            self._events.append(cl.enqueue_nd_range_kernel(self._queue, kernel, items, local))

    def _kernel(self, name: str, file: str, dtype: Dtype) -> Any:
        import pyopencl as cl

        if (name, dtype) not in self._kernels:
            if dtype in ("float16", "float64"):
                require(self, dtype, f"{dtype} arithmetic")
            scalar, vector = _TYPES[dtype]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", cl.CompilerWarning)  # a driver's chatter
                program = cl.Program(self.context, text(file)).build(
                    [f"-DT={scalar}", f"-DV={vector}"], [self._queue.device], cache_dir=False
                )
            self._kernels[name, dtype] = cl.Kernel(program, name)
        return self._kernels[name, dtype]

    def _stamp(self, mark: Mark) -> int:
        assert isinstance(mark, PyopenclMark)
        with _foreign(self.device):
            mark.event.wait()
            stamp: int = mark.event.profile.end
        return stamp

    def _anchor(self) -> tuple[float, int]:
        """Return one moment as the host's time and as the device's stamp.

        Which clock a driver stamps with is not told, and differs: PoCL's is CLOCK_MONOTONIC_RAW,
        Intel's CLOCK_MONOTONIC. If a marker's stamp falls between two looks at one of them, that
        clock is read beside the host's; else the marker's own end is taken as now.
        """
        before = {clock: time.clock_gettime_ns(clock) for clock in _HOST_CLOCKS}
        stamp = self._stamp(self.mark())
        host = self._clock.now()
        for clock, earlier in before.items():
            now = time.clock_gettime_ns(clock)
            if earlier <= stamp <= now:
                _, together = min(self._beside(clock) for _ in range(_LOOKS))
                return together
        return host, stamp

    def _beside(self, clock: int) -> tuple[float, tuple[float, int]]:
        """Return host and `clock` read together, behind how long that took: the host may pause."""
        start = self._clock.now()
        stamp = time.clock_gettime_ns(clock)
        stop = self._clock.now()
        return stop - start, ((start + stop) / 2, stamp)

    def _base_is_old(self) -> bool:
        """Clocks drift apart by microseconds a second, so their common moment is taken anew."""
        return self._clock.now() - self._base[0] > _REBASE


_HOST_CLOCKS = tuple(
    getattr(time, name)
    for name in ("CLOCK_MONOTONIC", "CLOCK_MONOTONIC_RAW")
    if hasattr(time, name)
)
_REBASE = 1.0  # seconds
_LOOKS = 5  # at two clocks; the quickest is not one in which the scheduler stepped between


class PyopenclBackend:
    """PyOpenCL on every platform of this machine."""

    name = "pyopencl"
    kinds = frozenset({Kind.OPENCL})

    def __init__(self, host: Host) -> None:
        self._host = host
        self._contexts: dict[tuple[int, int, bool], tuple[Any, list[Any]]] = {}

    def probe(self) -> Probe:
        """Ask a child process what is there: a driver may crash, hang or lie."""
        return probe_in_child(self.name, self._host, INSTALL)

    def inventory(self) -> Probe:
        """Ask the drivers, in this process; `probe` calls it in the child."""
        try:
            import pyopencl as cl
        except ImportError as error:
            reason = f"cannot load: {error}"
            return Probe(self.name, usable=False, reason=reason, fix=INSTALL)
        version = cl.VERSION_TEXT
        try:
            platforms = cl.get_platforms()
        except cl.Error as error:
            missing = error.code == _PLATFORM_NOT_FOUND
            reason = "no OpenCL driver is installed" if missing else str(error)
            return Probe(self.name, usable=False, version=version, reason=reason, fix=DRIVER)
        found, notes = self._inventory(platforms)
        if found:
            return Probe(self.name, usable=True, version=version, devices=found, notes=notes)
        reason = "; ".join(notes) or "no platform has a device"
        fix = "check POCL_DEVICES, and that HOME or POCL_CACHE_DIR can be written"
        return Probe(self.name, usable=False, version=version, reason=reason, fix=fix)

    def open(self, device: Device, clock: Clock) -> PyopenclSession:
        """Open a device, or a part of one; parts of one device share a context.

        Raises:
            AbsentError: the device that was probed is no longer there.
        """
        ref = device.ref
        assert ref.platform is not None
        assert ref.index is not None
        key = (ref.platform, ref.index, ref.part is not None)
        with _foreign(device):
            if key not in self._contexts:
                self._contexts[key] = self._context(device)
            context, natives = self._contexts[key]
            return PyopenclSession(device, clock, context, natives[ref.part or 0])

    def clock(self) -> SystemClock:
        """Return the machine's own clock."""
        return SystemClock()

    def _context(self, device: Device) -> tuple[Any, list[Any]]:
        import pyopencl as cl

        ref = device.ref
        if self._may_pin():
            # Read by PoCL at the first platform query: without it two parts may sit on one core.
            os.environ.setdefault("POCL_AFFINITY", "1")
        try:
            native = cl.get_platforms()[ref.platform].get_devices()[ref.index]
        except IndexError:
            raise AbsentError(f"{ref} is no longer there", "`gpumap devices` looks again") from None
        natives = [native]
        if ref.part is not None:
            natives = native.create_sub_devices([cl.device_partition_property.EQUALLY, 1])
        return cl.Context(natives), natives

    def _may_pin(self) -> bool:
        """PoCL pins worker i to core i of the machine, also out of a narrower mask: not there."""
        topology = self._host.topology
        workers = self._host.env.get("POCL_MAX_PTHREAD_COUNT", "1")
        if not workers.isdigit() or int(workers) > topology.online:
            return False  # PoCL aborts when there is no core for a worker
        return topology.pinnable and len(topology.cpus) == topology.online

    def _inventory(self, platforms: list[Any]) -> tuple[tuple[Device, ...], tuple[str, ...]]:
        import pyopencl as cl

        found: list[Device] = []
        notes: list[str] = []
        for p, platform in enumerate(platforms):
            try:
                natives = platform.get_devices()
            except cl.Error as error:
                natives, reason = [], str(error)
            else:
                reason = "has no device"
            if not natives:
                notes.append(f'platform {p} "{printable(platform.name.strip())}" {reason}')
            for i, native in enumerate(natives):
                found += self._described(DeviceRef(Kind.OPENCL, i, p), platform, native)
        return tuple(found), tuple(notes)

    def _described(self, ref: DeviceRef, platform: Any, native: Any) -> list[Device]:
        """Return a device and, where it can be divided, its parts of one compute unit."""
        whole = self._device(ref, platform, native, None)
        parts = range(_parts(native))
        return [whole, *(self._device(ref, platform, native, part) for part in parts)]

    def _device(self, ref: DeviceRef, platform: Any, native: Any, part: int | None) -> Device:
        import pyopencl as cl

        pci = _pci(native)
        id_ = f"opencl:{ref.platform}:{ref.index}" + ("" if part is None else f".{part}")
        cpu = bool(native.type & cl.device_type.CPU)
        cores = self._cores(native, part) if cpu else ()
        silicon = {f"core:{core}" for core in self._silicon(cores)} or {
            f"pci:{pci}" if pci else id_
        }
        return Device(
            id=id_,
            kind=Kind.OPENCL,
            ref=DeviceRef(Kind.OPENCL, ref.index, ref.platform, part),
            name=native.name.strip(),
            backend=self.name,
            pci=pci,
            memory_total=native.global_mem_size,
            units=native.max_compute_units if part is None else 1,
            cores=cores,
            silicon=frozenset(silicon),
            driver=f"{platform.name.strip()} {native.driver_version.strip()}",
            facts={
                "type": "gpu" if native.type & cl.device_type.GPU else "other",
                "largest_buffer": native.max_mem_alloc_size,
            },
        )

    def _cores(self, native: Any, part: int | None) -> tuple[int, ...]:
        """Return the cores that a CPU device runs on; none where only the driver knows."""
        if native.name.startswith("basic"):
            return ()  # PoCL's basic device runs on whichever thread calls it
        every = tuple(cpu.index for cpu in self._host.topology.cpus)
        if part is None or not self._may_pin():
            return every
        return (part,) if part in every else every

    def _silicon(self, cores: tuple[int, ...]) -> set[int]:
        return {min(c.siblings) for c in self._host.topology.cpus if c.index in cores}


def _parts(native: Any) -> int:
    import pyopencl as cl

    equally = cl.device_partition_property.EQUALLY
    try:
        divisible = equally in native.partition_properties
        units = native.max_compute_units if divisible else 0
        return min(units, native.partition_max_sub_devices) if units > 1 else 0
    except cl.Error:  # OpenCL 1.1 has no parts
        return 0


def _pci(native: Any) -> str | None:
    import pyopencl as cl

    for read in (_pci_nvidia, _pci_amd):
        try:
            return read(native)
        except (cl.Error, AttributeError):
            continue  # another vendor's query
    return None


def _pci_nvidia(native: Any) -> str:
    slot = native.pci_slot_id_nv
    return f"{native.pci_domain_id_nv:04x}:{native.pci_bus_id_nv:02x}:{slot >> 3:02x}.{slot & 7}"


def _pci_amd(native: Any) -> str:
    place = native.topology_amd
    return f"0000:{place.bus & 0xFF:02x}:{place.device:02x}.{place.function}"


def _features(native: Any) -> frozenset[Feature]:
    extensions = native.extensions.split()
    has: dict[Feature, bool] = {
        "events": True,
        "kernels": True,
        "float64": "cl_khr_fp64" in extensions,
        "float16": "cl_khr_fp16" in extensions,
        "pinned": not native.host_unified_memory,
    }
    return frozenset(feature for feature, there in has.items() if there)


@contextmanager
def _foreign(device: Device) -> Iterator[None]:
    """Turn PyOpenCL's errors into gpumap's."""
    import pyopencl as cl

    try:
        yield
    except cl.Error as error:
        kind = _ERRORS.get(error.code, DeviceError)
        message = f"{device.ref} ({printable(device.name)}): {printable(str(error))}"
        raise kind(message, "`gpumap devices` shows the driver and its memory") from error

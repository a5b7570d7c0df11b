"""A stand-in for CuPy where there is no GPU: the names that gpumap uses, under their own names.

A test holds each name and each signature against the CuPy that is installed. What is not here is
an AttributeError or a TypeError; what is used wrongly is `Misuse`. Its version says that nothing
was measured.
"""

import sys
from math import prod
from types import ModuleType

import numpy as np

from cupy import _gpu, _math
from cupy._gpu import CURRENT, Event, PinnedMemory, get_elapsed_time
from cupy._kernels import RawModule as RawModule
from cupy._kernels import launchKernel

__version__ = "14.2.0+simulated"
_ATTRIBUTES = {36: 3201000, 37: 6144, 86: 0, 100: 0}  # as an H200 behind PCIe


class MemoryPointer:
    def __init__(self, mem, offset):
        self.mem, self.offset = mem, offset
        self.ptr = (mem.block.address if mem else 0) + offset


class ndarray:  # noqa: N801 - CuPy's names, here and below
    def __init__(self, shape, dtype=float, memptr=None):
        self.shape = (shape,) if isinstance(shape, int) else tuple(map(int, shape))
        self.dtype = np.dtype(dtype)
        if self.dtype.char not in "?bhilqBHILQefdFD":
            raise ValueError(f"Unsupported dtype {self.dtype}")
        self.nbytes = prod(self.shape) * self.dtype.itemsize
        if memptr is None:
            memptr = MemoryPointer(_gpu.Memory(self.nbytes) if self.nbytes else None, 0)
        self.data = memptr

    def __getitem__(self, rows):
        start, stop, step = rows.indices(self.shape[0])
        row = self.nbytes // self.shape[0] if self.shape[0] else 0
        at = start * row if self.data.mem else 0
        pointer = MemoryPointer(self.data.mem, self.data.offset + at)
        shape = (len(range(start, stop, step)), *self.shape[1:])
        return ndarray(shape, self.dtype, pointer)

    def reshape(self, *shape):
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        if prod(shape) * self.dtype.itemsize != self.nbytes:
            raise ValueError("cannot reshape")
        return ndarray(shape, self.dtype, self.data)


def empty(shape, dtype=float):
    return ndarray(shape, dtype)


class MemoryPool:
    """Memory that was freed and is kept; here there is none, but giving it back makes all wait."""

    def free_all_blocks(self, stream=None):
        if stream._queue.device == CURRENT.device:
            stream._queue.drain()


def get_default_memory_pool():
    return MemoryPool()


class Device:
    def __init__(self, device=None):
        self.id = CURRENT.device if device is None else int(device)
        if not 0 <= self.id < _gpu.DEVICES:
            raise _gpu.CUDARuntimeError(101)
        self._before = []

    def __enter__(self):
        self._before.append(CURRENT.device)
        if self.id != CURRENT.device:
            CURRENT.use(self.id)
        return self

    def __exit__(self, *error):
        CURRENT.use(self._before.pop())


class Stream:
    def __init__(self, null=False, non_blocking=False):  # noqa: FBT002
        if null or not non_blocking:
            raise _gpu.Misuse("only streams that do not wait for the legacy stream are here")
        CURRENT.use(CURRENT.device)
        self._queue = _gpu.Queue(CURRENT.device)
        self.ptr, self.device_id = self._queue.ptr, CURRENT.device

    def __enter__(self):
        if self.device_id != CURRENT.device:
            raise _gpu.Misuse(f"a stream of device {self.device_id} on device {CURRENT.device}")
        CURRENT.streams = (*CURRENT.streams, self._queue)
        return self

    def __exit__(self, *error):
        CURRENT.streams = CURRENT.streams[:-1]

    def __del__(self):
        if queue := getattr(self, "_queue", None):
            queue.drain() if queue.captured is None else None

    def record(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event):
        """Let what comes later wait for an event, of any device."""
        if place := event._at:
            self._queue.put(lambda: place[0].drain(place[1]))

    def synchronize(self):
        _gpu.queue_at(self.ptr).drain()

    def begin_capture(self):
        self._queue.captured = []

    def end_capture(self):
        jobs, self._queue.captured = self._queue.captured, None
        return Graph(jobs)


class Graph:
    def __init__(self, jobs):
        self._jobs = jobs

    def launch(self, stream=None):
        queue = stream._queue if stream else CURRENT.stream
        for job in self._jobs:
            queue.put(job)


def _device(ordinal):
    if not 0 <= ordinal < _gpu.DEVICES:
        raise _gpu.CUDARuntimeError(101)
    return ordinal


def getDeviceCount():  # noqa: N802 - CuPy's names, to the end of these functions
    if not _gpu.DEVICES:
        raise _gpu.CUDARuntimeError(100)
    return _gpu.DEVICES


def driverGetVersion():  # noqa: N802
    return 13020


def getDeviceProperties(device):  # noqa: N802
    uuid = _gpu.uuid(_gpu.VISIBLE[_device(device)])
    return {"name": b"NVIDIA stand-in, no GPU", "uuid": uuid, "totalGlobalMem": _gpu.TOTAL,
            "multiProcessorCount": 132, "major": 9, "minor": 0}  # fmt: skip


def deviceGetPCIBusId(device):  # noqa: N802
    return f"0000:{9 + _gpu.VISIBLE[_device(device)]:02X}:00.0"


def deviceGetAttribute(attrib, device):  # noqa: N802
    return _device(device) * 0 + _ATTRIBUTES[attrib]


def deviceCanAccessPeer(device, peerDevice):  # noqa: N802, N803
    return int(_device(device) != _device(peerDevice) and not _gpu.fault("peer-refused"))


def deviceEnablePeerAccess(peerDevice):  # noqa: N802, N803
    pair = (CURRENT.device, _device(peerDevice))
    if pair in _gpu.PEERS:
        raise _gpu.CUDARuntimeError(704)
    _gpu.PEERS.add(pair)


def memcpyAsync(dst, src, size, kind, stream):  # noqa: N802
    """Queue a copy; its kind must be true."""
    queue = _gpu.queue_at(stream)
    {1: _gpu.upload, 2: _gpu.download, 3: _gpu.copy_inside}[kind](dst, src, size, queue)


def memcpyPeerAsync(dst, dstDevice, src, srcDevice, size, stream):  # noqa: N802, N803
    """Queue a copy from one device to another; it needs no peer access."""
    ends = (_device(dstDevice), _device(srcDevice))
    for address, device in zip((dst, src), ends, strict=True):
        if (block := _gpu.found(address)[0]) is None or block.device != device:
            raise _gpu.Misuse(f"{address:#x} is not on device {device}")
    _gpu.copy_inside(dst, src, size, _gpu.queue_at(stream), ends)


_CONSTANTS = {
    "memcpyHostToDevice": 1, "memcpyDeviceToHost": 2, "memcpyDeviceToDevice": 3,
    "cudaDevAttrMemoryClockRate": 36, "cudaDevAttrGlobalMemoryBusWidth": 37,
    "cudaDevAttrHostNativeAtomicSupported": 86,
    "cudaDevAttrPageableMemoryAccessUsesHostPageTables": 100,
}  # fmt: skip
MODULES = {
    "cupy.cuda": (Device, Stream, Event, PinnedMemory, MemoryPool, get_elapsed_time, {}),
    "cupy.cuda.runtime": (
        getDeviceCount, driverGetVersion, getDeviceProperties,
        deviceGetPCIBusId, deviceGetAttribute, deviceCanAccessPeer, deviceEnablePeerAccess,
        memcpyAsync, memcpyPeerAsync, _gpu.CUDARuntimeError, _CONSTANTS,
    ),
    "cupy.cuda.driver": (_gpu.ctxGetCurrent, _gpu.ctxSetCurrent, launchKernel, {}),
    "cupy.cuda.nccl": (
        _math.NcclCommunicator, _math.groupStart, _math.groupEnd,
        {"NCCL_SUM": 0, "NCCL_FLOAT32": 7, "available": True},
    ),
    "cupy_backends.cuda.libs.cublas": (
        _math.create, _math.destroy, _math.setMathMode, _math.gemmEx, _math.CUBLASError, {},
    ),
    "cupy_backends.cuda.api.driver": (_gpu.CUDADriverError, {}),
    "cupy_backends.cuda.api.runtime": (_gpu.CUDARuntimeError, {}),
}  # fmt: skip


def modules(package):
    """Make the modules below a package, each an attribute of the one above it."""
    for name, (*named, more) in MODULES.items():
        if name.startswith(f"{package}."):
            made = ModuleType(name)
            made.__dict__.update({one.__name__: one for one in named} | more)
            above, _, own = name.rpartition(".")
            if above not in sys.modules:
                outer, _, middle = above.rpartition(".")
                sys.modules.setdefault(outer, ModuleType(outer))
                sys.modules[above] = ModuleType(above)
                setattr(sys.modules[outer], middle, sys.modules[above])
            setattr(sys.modules[above], own, made)
            if own != "cublas":  # CuPy's package loads the library when it is asked for it
                sys.modules[name] = made
    sys.modules[package].cuda = sys.modules[f"{package}.cuda"]


modules("cupy")

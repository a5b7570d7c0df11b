"""CUDA devices, driven by CuPy: cuBLAS products, streams and events.

A product has its arithmetic named in each call: CuPy's own follow environment variables
(CUPY_TF32), and a figure must not depend on one. A session's handle is its own: CuPy's are one for
each thread and device, shared by all sessions, and with a handle comes a workspace.

Copies go by address, so that any type can be moved and a copy costs the host as little as CUDA
allows.
"""

from __future__ import annotations

import ctypes
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np
from cupy.cuda import driver, runtime

from gpumap.backends.base import EventMark, StreamSession, bytes_of, check_whole, require
from gpumap.backends.cupy.launch import CupyBuffer, Kernels, peak
from gpumap.backends.device_clock import DeviceClock
from gpumap.backends.host_memory import Shared
from gpumap.backends.peers import PeerSession
from gpumap.backends.third_party import Current, third_party_errors
from gpumap.dtypes import numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumap.backends.base import Clock, Feature, Product
    from gpumap.dtypes import Arithmetic, Array, Dtype
    from gpumap.model import Device, Limit


_ALREADY_ENABLED = 704  # cudaErrorPeerAccessAlreadyEnabled
_NOT_TRANSPOSED, _TRANSPOSED = 0, 1  # cublasOperation_t
_ALGORITHM = -1  # CUBLAS_GEMM_DEFAULT: cuBLAS chooses
# Sums that are split meet in 32 bits, and not in the type of the result: cublasMath_t,
# CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION.
MATH_MODE = 16
# Element -> cudaDataType_t and cublasComputeType_t: never less than the type of a sum says.
_PRODUCTS = {
    "float16": (2, 68),  # CUDA_R_16F, CUBLAS_COMPUTE_32F
    "bfloat16": (14, 68),  # CUDA_R_16BF
    "float32": (0, 68),  # CUDA_R_32F
    "float64": (1, 70),  # CUDA_R_64F, CUBLAS_COMPUTE_64F
}
_FAST_TF32 = 77  # CUBLAS_COMPUTE_32F_FAST_TF32
_name = cache(lambda dtype: dtype.name)  # of a type: NumPy makes it anew each time, in 2 us


class CupyPinned(Shared):
    """Pinned memory of the host: as many bytes as were requested, and freed with the last array.

    CuPy's pool rounds up to a power of two and keeps what was freed.
    """

    def __init__(self, session: Any, nbytes: int) -> None:
        self._memory = cupy.cuda.PinnedMemory(max(nbytes, 1))
        super().__init__(session, int(self._memory), max(nbytes, 1))


class CupySession(StreamSession, PeerSession):
    """One stream on one CUDA device."""

    def __init__(self, device: Device, clock: Clock, features: frozenset[Feature]) -> None:
        self.device, self.features = device, features
        self.ordinal = int(device.ref.index or 0)
        self._held: list[Any] = []  # host memory of copies that may not have run yet
        with third_party_errors(self.device), cupy.cuda.Device(self.ordinal) as on:
            self._stream = cupy.cuda.Stream(non_blocking=True)
            self.stream = int(self._stream.ptr)  # as CUDA's libraries take it
            context = driver.ctxGetCurrent()  # a stream is made in the device's own
        self.current = Current(device, on, self._stream)
        self._kernels = Kernels(device, self.current, self.stream, context)
        self._host_times = DeviceClock(self, clock)

    def empty(self, shape: tuple[int, ...], dtype: Dtype) -> CupyBuffer:
        """Return memory that no one has written yet.

        Raises:
            OutOfMemory: the device has no room.
        """
        held = "uint16" if dtype == "bfloat16" else dtype
        bytes_of(shape, held)  # what CuPy cannot count, it would wrap around
        with self.current:
            return CupyBuffer(self, cupy.empty(shape, held), numpy_dtype(dtype))

    def _pinned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        with self.current:
            return CupyPinned(self, bytes_of(shape, dtype)).array(shape, dtype)

    def _upload(self, source: Array, target: CupyBuffer, repeat: int) -> None:
        """Queue a copy from host memory, which is kept until it was waited for.

        CUDA may read pageable memory after the call: "API synchronization behavior" of its driver's
        manual no longer promises otherwise.
        """
        whole = np.ascontiguousarray(source)
        self._held.append(whole)
        kind = runtime.memcpyHostToDevice
        self._move(target.address, whole.ctypes.data, target.nbytes, kind, repeat)

    def _download(self, source: CupyBuffer, target: Array, repeat: int) -> None:
        """Queue a copy to host memory."""
        check_whole(target)
        self._held.append(target)
        kind = runtime.memcpyDeviceToHost
        self._move(target.ctypes.data, source.address, source.nbytes, kind, repeat)

    def _able(self, there: Any) -> bool:
        from cupy_backends.cuda.api.runtime import CUDARuntimeError

        with self.current:
            if not runtime.deviceCanAccessPeer(self.ordinal, there.ordinal):
                return False
            try:
                runtime.deviceEnablePeerAccess(there.ordinal)
            except CUDARuntimeError as error:
                return bool(error.status == _ALREADY_ENABLED)
        return True

    def _copy(self, source: CupyBuffer, target: CupyBuffer, repeat: int) -> None:
        if target.session.ordinal == self.ordinal:
            kind = runtime.memcpyDeviceToDevice
            self._move(target.address, source.address, source.nbytes, kind, repeat)
        else:
            ends = (target.address, target.session.ordinal, source.address, self.ordinal)
            with self.current:
                for _ in range(repeat):
                    runtime.memcpyPeerAsync(*ends, source.nbytes, self.stream)

    def _multiply(self, product: Product, repeat: int) -> None:
        a, b, out, (rows, columns, inner), transpose, *scale, tf32 = product
        element = _name(out.dtype)
        if element not in ("float32", "float64"):
            require(self, element, f"{element} products")
        kind, compute = _PRODUCTS[element]
        compute = _FAST_TF32 if tf32 else compute
        # cuBLAS counts by columns, where row-major c = a.b reads c' = b'.a'
        left, right = (b.address, kind, b.shape[1]), (a.address, kind, a.shape[1])
        operations = [_TRANSPOSED if t else _NOT_TRANSPOSED for t in reversed(transpose)]
        scales = ((ctypes.c_double if element == "float64" else ctypes.c_float) * 2)(*scale)
        alpha_at = ctypes.addressof(scales)
        beta_at = alpha_at + ctypes.sizeof(scales) // 2
        with self.current:
            cublas, handle = self._cublas
            call = (
                handle, *operations, columns, rows, inner, alpha_at, *left, *right,
                beta_at, out.address, kind, columns, compute, _ALGORITHM,
            )  # fmt: skip
            queue_one = cublas.gemmEx
            for _ in range(repeat):
                queue_one(*call)

    @cached_property
    def _cublas(self) -> tuple[Any, int]:
        """Return cuBLAS and a handle of it, made for the first product; its device is current."""
        # never `import cupy_backends.cuda.libs.cublas`: the package loads the library first
        from cupy_backends.cuda.libs import cublas

        handle = int(cublas.create())
        try:
            cublas.setMathMode(handle, MATH_MODE)
        except BaseException:  # nothing else knows the handle
            cublas.destroy(handle)
            raise
        return cublas, handle

    def prepare(self, kernel: str, *arguments: CupyBuffer | float, size: int) -> Callable[[], None]:
        """Return what queues a kernel as `run` would, with its arguments as CUDA takes them."""
        known, dtype = self._fitting(kernel, arguments, size)
        numbers = {"count": np.uint64, "scalar": dtype.type}
        pairs = zip(known.arguments, arguments, strict=True)
        given = [numbers[kind](given) if kind in numbers else given for kind, given in pairs]
        built = known.constants(arguments, size)
        calls = self._calls(known, given, size)
        return self._kernels.prepared(known, dtype.name, calls, built)

    def mark(self) -> EventMark:
        """Queue an event and return it."""
        with self.current:
            return EventMark(self, self._stream.record(cupy.cuda.Event()))

    def seconds(self, start: EventMark, stop: EventMark) -> float:
        """Return the time between two events by the device's clock."""
        with self.current:
            stop.event.synchronize()
            return float(cupy.cuda.get_elapsed_time(start.event, stop.event)) * 1e-3

    def peak(self, arithmetic: Arithmetic) -> Limit | None:
        """Return what the multiprocessors can do in a clock, times the highest clock."""
        with self.current:
            return peak(self.device, runtime.getDeviceProperties(self.ordinal), arithmetic)

    def synchronize(self) -> None:
        """Wait for everything queued so far."""
        super().synchronize()
        self._held.clear()

    def _close(self) -> None:
        """Give back what this session alone has used."""
        self.synchronize()
        self._kernels.clear()
        with self.current:
            if "_cublas" in vars(self):
                cublas, handle = self._cublas
                cublas.destroy(handle)
            # of this stream: to free what other sessions keep would let them wait in a sample
            cupy.get_default_memory_pool().free_all_blocks(stream=self._stream)

    def _move(self, target: int, source: int, nbytes: int, kind: int, repeat: int) -> None:
        with self.current:
            stream = self._stream.ptr
            copy = runtime.memcpyAsync
            for _ in range(repeat):
                copy(target, source, nbytes, kind, stream)

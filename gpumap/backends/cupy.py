"""CUDA devices, driven by CuPy: cuBLAS products, streams and events.

cuBLAS is called directly, with the arithmetic named in each call: CuPy's own products follow
environment variables (CUPY_TF32), and a figure must not depend on one of them. Copies go by
address, so that any type can be moved and a copy costs the host as little as CUDA allows.

To a copy engine `mapped` memory would be pinned memory under another name. What it is for is that a
kernel uses it where it is, so that is what a copy to or from it is here: the kernel `shift` by
nothing, which reads or writes the host's memory over the link, 128 bytes of each warp at a time.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from gpumap.backends.base import (
    Closing,
    Peak,
    SystemClock,
    bytes_of,
    check_copy,
    check_reshape,
    check_shapes,
    contiguous,
    kernel_named,
    pageable,
    require,
    staged_copy,
)
from gpumap.backends.cupy_devices import INSTALL, NAME, inventory
from gpumap.backends.foreign import foreign
from gpumap.backends.probe import probe_in_child
from gpumap.backends.shared import Shared, behind
from gpumap.dtypes import has_bfloat16, numpy_dtype
from gpumap.kernels.table import GROUP, KERNELS
from gpumap.model import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np

    from gpumap.backends.base import Clock, Feature, Host, HostMemory, Mark, Route
    from gpumap.dtypes import Arithmetic, Dtype
    from gpumap.model import Device, Probe

    Array = np.ndarray[Any, Any]

_AMPERE = 80  # compute capability 8.0: the first with bfloat16 and TF32
_BLOCK = 256  # threads
_NOT_TRANSPOSED, _TRANSPOSED = 0, 1  # cublasOperation_t
_ALGORITHM = -1  # CUBLAS_GEMM_DEFAULT: cuBLAS chooses
# Element -> cudaDataType_t and cublasComputeType_t: never less than the type of a sum says.
_PRODUCTS = {
    "float16": (2, 68),  # CUDA_R_16F, CUBLAS_COMPUTE_32F
    "bfloat16": (14, 68),  # CUDA_R_16BF
    "float32": (0, 68),  # CUDA_R_32F
    "float64": (1, 70),  # CUDA_R_64F, CUBLAS_COMPUTE_64F
}
_FAST_TF32 = 77  # CUBLAS_COMPUTE_32F_FAST_TF32
_ALREADY_ENABLED = 704  # cudaErrorPeerAccessAlreadyEnabled
_PEER_PROOF = 1 << 20 | 1  # bytes that must arrive before peer access is believed; an odd number

# Compute capability -> FLOP of one multiprocessor in one clock, dense, sums in 32 bits for narrow
# types. Sources: NVIDIA's whitepapers of A100 (2020), GA102 (2021), H100 (2022), Ada (2022):
# their peak rates over multiprocessors and boost clock.
_PER_CLOCK: dict[tuple[int, int], dict[str, int]] = {
    (8, 0): {"float32": 128, "float64": 128, "tf32": 1024, "float16": 2048, "bfloat16": 2048},
    (8, 6): {"float32": 256, "float64": 4, "tf32": 256, "float16": 512, "bfloat16": 512},
    (8, 9): {"float32": 256, "float64": 4, "tf32": 256, "float16": 512, "bfloat16": 512},
    (9, 0): {"float32": 256, "float64": 256, "tf32": 2048, "float16": 4096, "bfloat16": 4096},
}
# Element -> its type in CUDA C++, and what the text needs for it.
_TYPES = {
    "float16": ("__half", "-DHALF", "-DREAL=float"),
    "float32": ("float", "-DREAL=float"),
    "float64": ("double", "-DREAL=double"),
    "uint8": ("unsigned char",),
    "uint32": ("unsigned int",),
}
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


class CupyShared(Shared):
    """Pinned memory of the host that also has an address on the device."""

    def __init__(self, session: CupySession, nbytes: int) -> None:
        import cupy

        runtime = cupy.cuda.runtime
        # its own allocation: CuPy's pool of pinned memory does not ask for mapped one
        self._memory = cupy.cuda.PinnedMemory(max(nbytes, 1), runtime.hostAllocMapped)
        super().__init__(session, int(self._memory), max(nbytes, 1))
        self.on_device = int(runtime.pointerGetAttributes(self.address).devicePointer)


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
        self._kernels: dict[tuple[Any, ...], Any] = {}
        self._closed = False
        with foreign(self.device), cupy.cuda.Device(self.ordinal):
            self._stream = cupy.cuda.Stream(non_blocking=True)
            self.features = _features(self.ordinal)
        self._base = self._anchor()

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
        with self._current():
            return CupyBuffer(self, cupy.empty(shape, held), numpy_dtype(dtype))

    def host(self, shape: tuple[int, ...], dtype: Dtype, memory: HostMemory) -> Array:
        """Return host memory; pinned and mapped are never replaced by pageable."""
        import cupyx

        if memory == "pageable":
            return pageable(shape, numpy_dtype(dtype))
        require(self, memory, f"{memory} host memory")
        with self._current():
            if memory == "mapped":
                nbytes = bytes_of(shape, numpy_dtype(dtype))
                return CupyShared(self, nbytes).array(shape, dtype)
            pinned: Array = cupyx.empty_pinned(shape, numpy_dtype(dtype))
            return pinned

    def upload(self, source: Array, target: CupyBuffer, repeat: int = 1) -> None:
        """Queue a copy from host memory; CUDA has read pageable memory when this returns."""
        import cupy
        import numpy as np

        check_copy(source, target)
        if (shared := behind(source, self)) is not None:
            read = shared.on_device + shared.offset(source)
            self._by_kernel(target.address, read, target.nbytes, repeat)
            return
        whole = np.ascontiguousarray(source)
        kind = cupy.cuda.runtime.memcpyHostToDevice
        self._move(target.address, whole.ctypes.data, target.nbytes, kind, repeat)

    def download(self, source: CupyBuffer, target: Array, repeat: int = 1) -> None:
        """Queue a copy to host memory."""
        import cupy

        check_copy(source, target)
        if not target.flags.c_contiguous:
            raise ValueError("a copy to the host needs a contiguous target")
        if (shared := behind(target, self)) is not None:
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
        route = self._route(there)
        if route == "staged":
            return staged_copy(source, target, repeat)
        if there is not self:
            self.wait(there.mark())  # what the target does before it must be done
        if route == "same":
            kind = cupy.cuda.runtime.memcpyDeviceToDevice
            self._move(target.address, source.address, source.nbytes, kind, repeat)
        elif source.nbytes:
            self._peer_copy(source, target, repeat)
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
    ) -> None:
        """Queue out = alpha a.b + beta out with cuBLAS."""
        import numpy as np

        rows, columns, inner = check_shapes(a.shape, b.shape, out.shape, transpose)
        element = out.dtype.name
        if element not in ("float32", "float64"):
            require(self, element, f"{element} products")
        if tf32:
            require(self, "tf32", "TF32 products")
        if not rows * columns:
            return
        kind, compute = _PRODUCTS[element]
        compute = _FAST_TF32 if tf32 else compute
        # cuBLAS counts by columns, where row-major c = a.b reads c' = b'.a'
        left = (b.address, kind, max(b.shape[1], 1))
        right = (a.address, kind, max(a.shape[1], 1))
        operations = [_TRANSPOSED if t else _NOT_TRANSPOSED for t in reversed(transpose)]
        scale = np.array([alpha, beta], "float64" if element == "float64" else "float32")
        alpha_at = scale.ctypes.data
        beta_at = alpha_at + scale.itemsize
        with self._current():
            _cublas().gemmEx(
                _handle(), *operations, columns, rows, inner, alpha_at, *left, *right,
                beta_at, out.address, kind, columns, compute, _ALGORITHM,
            )  # fmt: skip

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
        return partial(self._launch, launches, constants=built)

    def mark(self) -> CupyMark:
        """Queue an event and return it."""
        import cupy

        with self._current():
            return CupyMark(self, self._stream.record(cupy.cuda.Event()))

    def wait(self, mark: Mark) -> None:
        """Let what is queued from now on start only after `mark`, of any session."""
        if not isinstance(mark, CupyMark):
            mark.session.synchronize()
        elif mark.session is not self:
            with self._current():
                self._stream.wait_event(mark.event)

    def seconds(self, start: Mark, stop: Mark) -> float | None:
        """Return the time between two events by the device's clock."""
        import cupy

        assert isinstance(start, CupyMark)
        assert isinstance(stop, CupyMark)
        with self._current():
            stop.event.synchronize()
            return float(cupy.cuda.get_elapsed_time(start.event, stop.event)) * 1e-3

    def at(self, mark: Mark) -> float | None:
        """Return the host time of a mark, counted from a base event."""
        if self._clock.now() - self._base[0] > _REBASE:
            self._base = self._anchor()
        host, base = self._base
        seconds = self.seconds(base, mark)
        return None if seconds is None else host + seconds

    def worked(self, start: Mark, stop: Mark) -> float | None:  # noqa: ARG002 - the contract's
        """Return None: the work is the GPU's."""
        return None

    def peak(self, arithmetic: Arithmetic) -> Peak | None:
        """Return what the multiprocessors can do in a clock, times the highest clock."""
        import cupy

        with self._current():
            properties = cupy.cuda.runtime.getDeviceProperties(self.ordinal)
        megahertz = self.device.facts.get("max_clock")
        capability = (properties["major"], properties["minor"])
        each = _PER_CLOCK.get(capability, {}).get(arithmetic)
        if not isinstance(megahertz, int) or each is None:
            return None
        count = properties["multiProcessorCount"]
        source = f"computed: {count} multiprocessors x {each} FLOP x {megahertz} MHz"
        return Peak(count * each * megahertz * 1e6, source)

    def synchronize(self) -> None:
        """Wait for everything queued so far."""
        with self._current():
            self._stream.synchronize()

    def close(self) -> None:
        """Give the memory pool's free blocks back to the device; a second call does nothing."""
        import cupy

        if self._closed:
            return
        self._closed = True
        self.synchronize()
        self._kernels.clear()
        with self._current():
            cupy.get_default_memory_pool().free_all_blocks()

    def _move(self, target: int, source: int, nbytes: int, kind: int, repeat: int) -> None:
        from cupy.cuda.runtime import memcpyAsync

        if nbytes:
            with self._current():
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
        self._launch(launches, repeat)

    def _launch(
        self,
        launches: Sequence[tuple[str, str, tuple[Any, ...], int]],
        repeat: int = 1,
        constants: Mapping[str, int] | None = None,
    ) -> None:
        """Queue kernels, each with its type, its arguments but the last, and its size."""
        import numpy as np

        with self._current():
            ready = [
                (
                    self._kernel(kernel, dtype, constants or {}),
                    *_grid(kernel, dtype, size),
                    (*given, np.uint64(size)),
                )
                for kernel, dtype, given, size in launches
                if size or KERNELS[kernel].group
            ]
            for _ in range(repeat):
                for kernel, grid, block, arguments in ready:
                    kernel(grid, block, arguments)

    def _route(self, there: CupySession) -> Route:
        """Return how a copy to another session goes; peer access is proved, not believed."""
        if there.ordinal == self.ordinal:
            return "same"
        pair = (self.ordinal, there.ordinal)
        if pair not in _PEERS:
            _PEERS[pair] = self._opened(there) and self._proved(there)
        return "peer" if _PEERS[pair] else "staged"

    def _opened(self, there: CupySession) -> bool:
        """Let this device write the other's memory; False where the hardware cannot."""
        import cupy
        from cupy_backends.cuda.api.runtime import CUDARuntimeError

        runtime = cupy.cuda.runtime
        with self._current():
            if not runtime.deviceCanAccessPeer(self.ordinal, there.ordinal):
                return False
            try:
                runtime.deviceEnablePeerAccess(there.ordinal)
            except CUDARuntimeError as error:
                return bool(error.status == _ALREADY_ENABLED)
        return True

    def _proved(self, there: CupySession) -> bool:
        """Copy random bytes over a wrong target and compare: some peer access moves nothing."""
        import numpy as np

        sent = np.random.default_rng(_PEER_PROOF).integers(0, 256, _PEER_PROOF, dtype=np.uint8)
        landed = np.invert(sent)
        source, target = self.empty(sent.shape, "uint8"), there.empty(sent.shape, "uint8")
        self.upload(sent, source)
        there.upload(landed, target)
        there.synchronize()
        self._peer_copy(source, target)
        self.synchronize()
        there.download(target, landed)
        there.synchronize()
        return bool((landed == sent).all())

    def _peer_copy(self, source: CupyBuffer, target: CupyBuffer, repeat: int = 1) -> None:
        import cupy

        ordinals = (target.session.ordinal, self.ordinal)
        with self._current():
            for _ in range(repeat):
                cupy.cuda.runtime.memcpyPeerAsync(
                    target.address, ordinals[0], source.address, ordinals[1],
                    source.nbytes, self._stream.ptr,
                )  # fmt: skip

    def _kernel(self, name: str, dtype: str, constants: Mapping[str, int]) -> Any:
        """Return a kernel, compiled by NVRTC the first time it is asked for."""
        import cupy

        key = (name, dtype, *constants.items())
        if key not in self._kernels:
            if dtype not in _TYPES:
                require(self, "kernels", f"kernels of {dtype}")
            element, *needs = _TYPES[dtype]
            options = [f"-DELEMENT={element}", f"-DGROUP={GROUP}", *needs]
            options += [f"-D{constant}={value}" for constant, value in constants.items()]
            code = KERNELS[name].text("cuda")
            module = cupy.RawModule(code=code, options=tuple(options))
            self._kernels[key] = module.get_function(name)
        return self._kernels[key]

    def _anchor(self) -> tuple[float, CupyMark]:
        """Return one moment as the host's time and as an event."""
        self.synchronize()
        before = self._clock.now()
        mark = self.mark()
        self.synchronize()
        return (before + self._clock.now()) / 2, mark

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Make device and stream current, and turn CuPy's errors into gpumap's."""
        import cupy

        with foreign(self.device), cupy.cuda.Device(self.ordinal), self._stream:
            yield


_PEERS: dict[tuple[int, int], bool] = {}  # ordinals -> whether peer copies were proved right
_REBASE = 1.0  # seconds: the device's clock and the host's drift apart


def in_words(target: int, source: int, nbytes: int) -> tuple[tuple[Dtype, int, int], ...]:
    """Return type, first byte and count of what a kernel copies: words where both are aligned."""
    words = nbytes // _WORD if (target | source) % _WORD == 0 else 0
    done = words * _WORD
    return ("uint32", 0, words), ("uint8", done, nbytes - done)


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


def _features(ordinal: int) -> frozenset[Feature]:
    """Return what the device, and the other devices beside it, allow."""
    import cupy

    runtime = cupy.cuda.runtime
    ampere = int(cupy.cuda.Device(ordinal).compute_capability) >= _AMPERE
    has: dict[Feature, bool] = {
        "events": True,
        "kernels": True,
        "pinned": True,
        "mapped": bool(runtime.deviceGetAttribute(runtime.cudaDevAttrCanMapHostMemory, ordinal)),
        "float16": True,
        "float64": True,
        "bfloat16": ampere and has_bfloat16(),
        "tf32": ampere,
        "peer": _has_peer(ordinal),
    }
    return frozenset(feature for feature, there in has.items() if there)


def _has_peer(ordinal: int) -> bool:
    import cupy

    runtime = cupy.cuda.runtime
    others = (n for n in range(runtime.getDeviceCount()) if n != ordinal)
    return any(runtime.deviceCanAccessPeer(ordinal, other) for other in others)


@cache
def _cublas() -> Any:
    """Return CuPy's thin layer over cuBLAS; loads the library."""
    from cupy_backends.cuda.libs import cublas

    return cublas


def _handle() -> int:
    """Return this thread's cuBLAS handle on the current device."""
    from cupy.cuda.device import get_cublas_handle

    return int(get_cublas_handle())


def _grid(kernel: str, dtype: Any, size: int) -> tuple[tuple[int], tuple[int]]:
    """Return the blocks of a launch, and the threads of each."""
    known = KERNELS[kernel]
    if known.group is None:
        return (-(-size // _BLOCK),), (_BLOCK,)
    return (known.parts(size, numpy_dtype(dtype)),), (known.group,)

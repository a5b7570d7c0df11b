"""What gpumap, bare CuPy, cuBLAS, a CUDA graph and PyTorch do on the same memory of a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.contest import looped
from benchmarks.gpu.seen import shown
from gpumap.backends.cupy import nccl
from gpumap.dtypes import numpy_dtype, storage
from gpumap.kernels import GROUP, KERNELS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.backends.base import Session

Queue = Callable[[int], object]  # so many calls

# (type, size) -> peer -> how many times as fast as the peer gpumap is to be: there both call the
# same library, and what gpumap adds differs alone.
PRODUCT_TARGETS = {
    **{("float32", size): {"PyTorch": 0.98} for size in (4096, 8192)},
    **{("bfloat16", size): {"PyTorch": 0.97} for size in (4096, 8192)},
}
COPY, LARGE = 0.97, 64 << 20  # of a bare call, for copies from so many bytes on
LAUNCH = 1.0  # of CuPy's own launches
OPENCL_TARGETS = {("float32", 4096): {"cuBLAS": 0.7}}  # where gpumap's kernel meets a library's
_IN_GRAPH = 20  # calls of a graph
_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "tf32": 2.0**-10, "float32": 2.0**-23}
# Kind of element -> (cudaDataType_t, cublasComputeType_t), as in cublas_api.h.
_CUBLAS = {"float16": (2, 68), "bfloat16": (14, 68), "float32": (0, 68), "tf32": (0, 77)}
# A part of a device's name -> dense FLOP/s of its data sheet; the first that fits counts.
_SHEETS: tuple[tuple[str, Mapping[str, float]], ...] = (
    ("H100 PCIe", {"float32": 51e12, "tf32": 378e12, "float16": 756e12, "bfloat16": 756e12}),
    ("H100 NVL", {"float32": 60e12, "tf32": 417.5e12, "float16": 835.5e12, "bfloat16": 835.5e12}),
    ("H100", {"float32": 67e12, "tf32": 494.5e12, "float16": 989.5e12, "bfloat16": 989.5e12}),
    ("H200", {"float32": 67e12, "tf32": 494.5e12, "float16": 989.5e12, "bfloat16": 989.5e12}),
    ("A100", {"float32": 19.5e12, "tf32": 156e12, "float16": 312e12, "bfloat16": 312e12}),
)


@dataclass(frozen=True, slots=True)
class Side:
    """Who does it, and how: `queue(n)` queues n times `each` calls, `finish` waits for them."""

    name: str
    queue: Queue
    finish: Callable[[], object]
    each: int = 1

    def once(self) -> None:
        """Do it once."""
        self.queue(1)
        self.finish()


Right = Callable[[Side], bool]


class Bare:
    """CuPy without gpumap: a stream of its own on a session's device."""

    def __init__(self, session: Session) -> None:
        import cupy

        self.session: Any = session
        self.device = cupy.cuda.Device(self.session.ordinal)
        with self.device:
            self.stream = cupy.cuda.Stream(non_blocking=True)

    def side(self, name: str, call: Callable[[], object], each: int = 1) -> Side:
        """Return the side that makes a call n times, in its stream."""
        many = looped(call)

        def queue(count: int) -> None:
            with self.device, self.stream:
                many(count)

        return Side(name, queue, self.finish, each)

    def graph(self, call: Callable[[], object], lacks: dict[str, str]) -> Iterator[Side]:
        """Yield the side that launches graphs of twenty calls, if CuPy can capture them."""
        with self.device, self.stream:
            call()  # what is made for the first call must not be made while it is captured
            self.stream.synchronize()
            self.stream.begin_capture()
            try:
                for _ in range(_IN_GRAPH):
                    call()
            except NotImplementedError as error:
                lacks["graph"] = f"CuPy cannot capture it: {error}"
                return
            finally:
                made = self.stream.end_capture()
        yield self.side("graph", lambda: made.launch(self.stream), _IN_GRAPH)

    def finish(self) -> None:
        """Wait for it."""
        with self.device:
            self.stream.synchronize()


class Product:
    """Two matrices and room for their product; every side reads and writes these."""

    def __init__(self, session: Session, size: int, dtype: Any) -> None:
        self.session, self.size, self.dtype = session, size, dtype
        self.lacks: dict[str, str] = {}  # which sides are not there, and why
        held = storage(dtype)
        rng = np.random.default_rng(size)
        self._factors = [
            rng.uniform(-1, 1, (size, size)).astype(numpy_dtype(held)) for _ in range(2)
        ]
        self.a, self.b, self.out = (session.empty((size, size), held) for _ in range(3))
        for given, there in zip(self._factors, (self.a, self.b), strict=True):
            session.upload(given, there)
        session.synchronize()

    def sides(self) -> Iterator[Side]:
        """Yield gpumap, cuBLAS alone, the same as a graph and PyTorch where they are."""
        bare = Bare(self.session)
        call = self._call(bare)
        yield self.ours()
        yield bare.side("cuBLAS", call)
        yield from bare.graph(call, self.lacks)
        if has_torch(self.lacks):
            yield self._torch(tf32=self.dtype == "tf32")

    def ours(self) -> Side:
        """Return gpumap's own, by whatever drives its session."""
        session, tf32 = self.session, self.dtype == "tf32"

        def queue(count: int) -> None:
            session.gemm(self.a, self.b, self.out, tf32=tf32, repeat=count)

        return Side("gpumap", queue, session.synchronize)

    def cublas(self) -> Side:
        """Return cuBLAS alone."""
        bare = Bare(self.session)
        return bare.side("cuBLAS", self._call(bare))

    def right(self, side: Side) -> bool:
        """Return whether a side's product is right, by Freivalds' check, over a poisoned target."""
        poison = np.full(self.out.shape, np.nan, self.out.dtype)
        self.session.upload(poison, self.out)
        self.session.synchronize()
        side.once()
        found = _fetched(self.out)
        vector = np.random.default_rng(1).uniform(-1, 1, self.size)
        a, b = (each.astype(float) for each in self._factors)
        off = abs(found.astype(float) @ vector - a @ (b @ vector)).max()
        return bool(off <= self.size * _EPSILON[self.dtype] * self.size)

    def _call(self, bare: Bare) -> Callable[[], object]:
        from cupy_backends.cuda.libs import cublas

        from gpumap.backends.cupy.session import MATH_MODE

        kind, compute = _CUBLAS[self.dtype]
        one, n = np.ones(1, "float32"), self.size
        zero = np.zeros(1, "float32")
        with bare.device:
            handle = cublas.create()
            cublas.setMathMode(handle, MATH_MODE)
        ends = (self.b.address, kind, n, self.a.address, kind, n)
        return lambda: cublas.gemmEx(
            handle, 0, 0, n, n, n, one.ctypes.data, *ends, zero.ctypes.data, self.out.address,
            kind, n, compute, -1,
        )  # fmt: skip

    def _torch(self, *, tf32: bool) -> Side:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        a, b, out = (_tensor(each, self.dtype) for each in (self.a, self.b, self.out))
        return Side("PyTorch", looped(lambda: torch.mm(a, b, out=out)), torch.cuda.synchronize)


class Copies:
    """Host memory of each kind and a buffer of the device, of as many bytes."""

    def __init__(self, session: Session, nbytes: int) -> None:
        self.session, self.nbytes = session, nbytes
        self.buffer = session.empty((nbytes,), "uint8")
        rng = np.random.default_rng(nbytes)
        self.bytes = rng.integers(0, 256, nbytes, dtype=np.uint8)

    def contests(self) -> Iterator[tuple[str, list[Side], Right]]:
        """Yield each direction: pinned memory by the copy engine, bare, and pageable memory."""
        session, bare = self.session, Bare(self.session)
        hosts: dict[str, Any] = {
            name: session.host((self.nbytes,), "uint8", kind)
            for name, kind in (("gpumap", "pinned"), ("pageable", "pageable"))
        }
        hosts["bare"] = hosts["gpumap"]
        for down in (False, True):
            found = [
                Side(name, self._ours(host, down=down), session.synchronize)
                for name, host in hosts.items() if name != "bare"
            ]  # fmt: skip
            found.insert(1, self._bare(bare, hosts["bare"], down=down))
            yield ("d2h" if down else "h2d"), found, partial(self._right, hosts, down=down)

    def _ours(self, host: Any, *, down: bool) -> Queue:
        if down:
            return lambda count: self.session.download(self.buffer, host, count)
        return lambda count: self.session.upload(host, self.buffer, count)

    def _bare(self, bare: Bare, host: Any, *, down: bool) -> Side:
        from cupy.cuda.runtime import memcpyAsync

        there, here, stream = self.buffer.address, host.ctypes.data, bare.stream.ptr
        ends = (here, there) if down else (there, here)
        kind = 2 if down else 1
        return bare.side("bare", lambda: memcpyAsync(*ends, self.nbytes, kind, stream))

    def _right(self, hosts: Mapping[str, Any], side: Side, *, down: bool) -> bool:
        session, host, wrong = self.session, hosts[side.name], np.invert(self.bytes)
        host[...] = wrong if down else self.bytes
        session.upload(self.bytes if down else wrong, self.buffer)
        session.synchronize()
        side.once()
        back = _fetched(self.buffer)
        return bool((host == self.bytes).all() and (back == self.bytes).all())


class Inside:
    """Two buffers of one device."""

    def __init__(self, session: Session, nbytes: int) -> None:
        self.session = session
        self.lacks: dict[str, str] = {}
        free = getattr(session.device, "memory_free", None) or session.device.memory_total
        self.count = min(nbytes, (free or nbytes) // 4) // 4
        self.nbytes = 4 * self.count
        self.here, self.there = (session.empty((self.count,), "float32") for _ in range(2))
        self._part = np.random.default_rng(nbytes).uniform(-1, 1, 1 << 16).astype("float32")

    def sides(self) -> Iterator[Side]:
        """Yield the copy engine, a kernel, and PyTorch where it is."""
        session = self.session
        kernel = session.prepare("scaled", self.here, 1.0, self.there, size=self.count)
        yield Side("gpumap", lambda count: session.copy(self.here, self.there, count),
                   session.synchronize)  # fmt: skip
        yield Side("kernel", looped(kernel), session.synchronize)
        if has_torch(self.lacks):
            import torch

            here, there = (_tensor(each, "float32") for each in (self.here, self.there))
            yield Side("PyTorch", looped(lambda: there.copy_(here)), torch.cuda.synchronize)

    def right(self, side: Side) -> bool:
        """Return whether the first and the last elements arrive; unwritten pages share one."""
        session, few = self.session, min(self._part.size, self.count)
        ends = [slice(at, min(at + few, self.count)) for at in range(0, self.count, few)]
        for end in ends:
            session.upload(self._part[: end.stop - end.start], self.here[end])
        session.run("fill", self.there, float("nan"), size=self.count)
        session.synchronize()
        side.once()
        backs = [_fetched(self.there[end]) for end in (ends[0], ends[-1])]
        return all(bool((back == self._part[: back.size]).all()) for back in backs)


class Launch:
    """A kernel of one element."""

    def __init__(self, session: Session) -> None:
        self.session: Any = session
        self.lacks: dict[str, str] = {}
        self.out = session.empty((1,), "float32")

    def sides(self) -> Iterator[Side]:
        """Yield gpumap prepared and not, CuPy alone, and a graph."""
        import cupy

        session, bare = self.session, Bare(self.session)
        ready = session.prepare("fill", self.out, 3.0, size=1)
        given = (self.out.native, np.uint64(0), np.float32(3.0), np.uint64(1))
        with bare.device:
            options = ("-DELEMENT=float", f"-DGROUP={GROUP}", "-DREAL=float")
            module = cupy.RawModule(code=KERNELS["fill"].text("cuda"), options=options)
            kernel = module.get_function("fill")

        def run() -> None:
            session.run("fill", self.out, 3.0, size=1)

        def call() -> None:
            kernel((1,), (256,), given)

        yield Side("gpumap", looped(ready), session.synchronize)
        yield Side("gpumap, not prepared", looped(run), session.synchronize)
        yield bare.side("CuPy", call)
        yield from bare.graph(call, self.lacks)

    def right(self, side: Side) -> bool:
        """Return whether the element is written."""
        self.session.upload(np.zeros(1, "float32"), self.out)
        self.session.synchronize()
        side.once()
        return bool(_fetched(self.out)[0] == 3.0)  # noqa: PLR2004 - what was written


class Fan:
    """A buffer of the first device for each other one, and one on each of those."""

    def __init__(self, sessions: Sequence[Session], nbytes: int) -> None:
        self.sessions, self.nbytes = sessions, nbytes
        hub, *others = sessions
        self.pairs = [
            (hub.empty((nbytes,), "uint8"), other.empty((nbytes,), "uint8")) for other in others
        ]

    def sides(self, *, inward: bool) -> Iterator[Side]:
        """Yield all copies at once, and one after the other."""
        pairs = [pair[::-1] if inward else pair for pair in self.pairs]

        def at_once() -> None:
            for source, target in pairs:
                source.session.copy(source, target)

        def one_by_one() -> None:
            for source, target in pairs:
                source.session.copy(source, target)
                target.session.synchronize()

        yield Side("gpumap", looped(at_once), self._finish)
        yield Side("one after the other", looped(one_by_one), self._finish)

    def right(self, side: Side, *, inward: bool) -> bool:
        """Return whether every byte arrives."""
        sent = np.random.default_rng(self.nbytes).integers(0, 256, self.nbytes, dtype=np.uint8)
        wrong = np.invert(sent)
        pairs = [pair[::-1] if inward else pair for pair in self.pairs]
        for source, target in pairs:
            source.session.upload(sent, source)
            target.session.upload(wrong, target)
        self._finish()
        side.once()
        return all(bool((_fetched(target) == sent).all()) for _, target in pairs)

    def _finish(self) -> None:
        for session in self.sessions:
            session.synchronize()


class Ring:
    """NCCL on one device: the sum over it is what it has."""

    def __init__(self, session: Session, nbytes: int) -> None:
        self.session = session
        self.buffer = session.empty((nbytes // 4,), "float32")
        self._sent = np.random.default_rng(nbytes).uniform(-1, 1, nbytes // 4).astype("float32")
        self.exchange = nccl([session])([self.buffer])

    def side(self) -> Side:
        """Return gpumap's call of it."""
        return Side("gpumap", self.exchange, self.session.synchronize)

    def right(self, side: Side) -> bool:
        """Return whether the sum over one device is its own buffer."""
        self.session.upload(self._sent, self.buffer)
        side.once()
        return bool((_fetched(self.buffer) == self._sent).all())


def has_torch(lacks: dict[str, str]) -> bool:
    """Return whether PyTorch has a GPU here; note why not."""
    found = shown("torch")
    if found["why"]:
        lacks["PyTorch"] = found["why"]
    return not found["why"]


def peaks(session: Session, dtype: Any) -> dict[str, float]:
    """Return FLOP/s that a product is compared with: by the highest clock, and by the sheet."""
    found = {}
    if (peak := session.peak(dtype)) is not None:
        found["clock"] = peak.value
    for name, rates in _SHEETS:
        if name in session.device.name:
            if dtype in rates:
                found["data sheet"] = rates[dtype]
            break
    return found


def memory_peak(session: Any) -> dict[str, float]:
    """Return B/s of the device's memory, read and written together, by its clock and its width."""
    from cupy.cuda import runtime

    clock, width = (
        runtime.deviceGetAttribute(which, session.ordinal)
        for which in (runtime.cudaDevAttrMemoryClockRate, runtime.cudaDevAttrGlobalMemoryBusWidth)
    )
    return {"clock": 2.0 * clock * 1e3 * width / 8} if clock and width else {}


def _fetched(buffer: Any) -> Any:
    """Return what a buffer holds."""
    found = np.empty(buffer.shape, buffer.dtype)
    buffer.session.download(buffer, found)
    buffer.session.synchronize()
    return found


def _tensor(buffer: Any, dtype: str) -> Any:
    """Return PyTorch's tensor of the same memory; CuPy holds bfloat16 as whole numbers."""
    import torch

    if dtype == "bfloat16":
        return torch.from_dlpack(buffer.native.view("int16")).view(torch.bfloat16)
    return torch.from_dlpack(buffer.native)

"""The contract of a backend, and the few things that every backend shares.

A `Backend` lists devices and opens them. A `Session` is an opened device: one queue, in order.
What a session queues runs later; `synchronize` waits for it. One thread at a time may use a
session, different sessions may be used at the same time. A `Clock` is the host's time, so that
the fake backend can bring its own.
"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from gpumap.dtypes import Array, np, numpy_dtype
from gpumap.errors import Diagnostic, OutOfMemory, Unsupported
from gpumap.machine.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from gpumap.dtypes import Arithmetic, Dtype
    from gpumap.kernels import Kernel
    from gpumap.model import Device, Kind, Limit, Probe

Feature = Literal[
    "pinned", "events", "kernels", "operations", "float16", "float64", "bfloat16", "tf32",
]  # fmt: skip
HostMemory = Literal["pageable", "pinned"]
Route = Literal["peer", "staged", "same"]
if TYPE_CHECKING:
    Exchange = Callable[[int], frozenset[Route]]  # queued so often; returns how its copies go
    Library = Callable[[Sequence[Any]], Exchange]  # of one buffer of each session


@dataclass(frozen=True, slots=True)
class Host:
    """The program's own side: its environment variables and the processors it may run on.

    `patience` is how many seconds a driver has to say what is there. NVIDIA's takes one to three
    for each GPU that no process holds (Driver Persistence, Overview): this is for eight, and two
    drivers that hang, asked one after the other, are within the time that `check` has. `imports` is
    how many a framework's import has before that. `opens` are the devices that a probe opens, too,
    as a map names them; "*" are those of a default map.
    `notes` are what is to be said where OpenCL is used. `root` has the system's files.
    """

    env: Mapping[str, str]
    topology: Topology
    patience: float = 27.0
    imports: float = 27.0
    opens: list[str] = field(default_factory=list)
    notes: tuple[Diagnostic, ...] = ()
    root: Path = Path("/")


_MOST_THREADS = 1024  # started as they are needed: one for each name


class Clock:
    """The host's time in seconds: the machine's own monotonic clock."""

    scripted = False

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    def now(self) -> float:
        """Return the time since some fixed moment: on Linux CLOCK_MONOTONIC."""
        return time.perf_counter()

    def cpu(self) -> float | None:
        """Return the CPU time of this process, all threads; None where that means nothing."""
        return time.process_time()

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def run_concurrently(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Run every job in a host thread of its own, and return when the last one has ended."""
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor

            self._threads = ThreadPoolExecutor(_MOST_THREADS)  # kept: a start is not to be timed
        for done in [self._threads.submit(job) for job in jobs]:
            done.result()

    def compute(self, job: Callable[[], None], operations: float) -> None:  # noqa: ARG002 - for clocks that are scripted
        """Run a job of the host's own, which does so many floating-point operations."""
        job()


class Mark(Protocol):
    """A point in the queue of a `Session`."""

    session: Any


class Buffer(Protocol):
    """Memory on a device, in C order; `native` is the library's own array."""

    session: Any
    native: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    nbytes: int

    def __getitem__(self, rows: slice) -> Buffer:
        """Return a view of contiguous rows (first axis); no copy."""

    def reshape(self, shape: tuple[int, ...]) -> Buffer:
        """Return a view of the same elements in another shape; ValueError where they do not fit."""


class Elements:
    """Elements of a memory in a row, from `start` on; views of it are of the same memory."""

    def __init__(
        self, session: Any, memory: Any, dtype: Any, shape: tuple[int, ...], start: int = 0
    ) -> None:
        self.session, self.memory = session, memory
        self.shape, self.start, self.size = shape, start, int(prod(shape))
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.nbytes: int = self.size * self.dtype.itemsize

    def _view(self, shape: tuple[int, ...], start: int) -> Self:
        return type(self)(self.session, self.memory, self.dtype, shape, start)

    def __getitem__(self, rows: slice) -> Self:
        rows = contiguous(rows, self.shape[0])
        shape = (rows.stop - rows.start, *self.shape[1:])
        return self._view(shape, self.start + rows.start * prod(self.shape[1:]))

    def reshape(self, shape: tuple[int, ...]) -> Self:
        """Return a view of the same elements in another shape."""
        check_reshape(self.shape, shape)
        return self._view(shape, self.start)


class NativeBuffer:
    """A library's own array, which belongs to one session."""

    def __init__(self, session: Any, native: Any, dtype: Any = None) -> None:
        self.session = session
        self.native = native
        self.shape: tuple[int, ...] = tuple(native.shape)
        self.dtype = native.dtype if dtype is None else dtype
        self.nbytes: int = prod(self.shape) * native.dtype.itemsize

    @property
    def memory(self) -> Array:
        """Return NumPy's array of it, where it is the host's."""
        return self.native  # type: ignore[no-any-return]

    def __getitem__(self, rows: slice) -> Self:
        native = self.native[contiguous(rows, self.shape[0])]
        return type(self)(self.session, native, self.dtype)

    def reshape(self, shape: tuple[int, ...]) -> Self:
        """Return a view of the same elements in another shape."""
        check_reshape(self.shape, shape)
        return type(self)(self.session, self.native.reshape(shape), self.dtype)


# a, b, out, (rows, columns, inner length), transpose, alpha, beta, tf32; a named one costs 0.4 us
Product = tuple[
    Any, Any, Any, tuple[int, int, int], tuple[bool, bool], float, float, bool
]  # fmt: skip

Calls = list[tuple[Sequence[Any], int]]  # of a kernel: the arguments of each, and its size


class Session(ABC):
    """An opened device: one queue, in order; a context manager that closes itself.

    What it cannot do raises Unsupported. Attributes: `device` is what is opened, `features` what it
    can do beyond float32 products and copies; `operations`: each kernel is several of its library.
    """

    device: Device
    features: frozenset[Feature]
    _closed = False
    _host_times: Any = None  # a `DeviceClock`, where events have times

    @abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: Dtype) -> Any:
        """Return a `Buffer` that no one has written yet; raises OutOfMemory."""

    def host(self, shape: tuple[int, ...], dtype: Dtype, memory: HostMemory) -> Array:
        """Return an array in host memory of that kind; Unsupported, never another kind.

        `pageable` is a program's usual memory. `pinned` stays in its place, so that a device's copy
        engine moves it. Raises OutOfMemory where there is none left.
        """
        held = numpy_dtype(dtype)
        if memory == "pageable":
            return pageable(shape, held)
        require(self, memory, f"{memory} host memory")
        return self._pinned(shape, held)

    def _pinned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return pinned memory: of a session that has the feature."""
        raise NotImplementedError(shape, dtype)

    def upload(self, source: Any, target: Any, repeat: int = 1) -> None:
        """Queue a copy from a host array to a buffer of this session.

        `repeat` queues it that often: where the loop is tells what one copy more costs.
        """
        check_copy(source, target)
        if target.nbytes:
            self._upload(source, target, repeat)

    @abstractmethod
    def _upload(self, source: Any, target: Any, repeat: int) -> None:
        """Queue copies of some bytes from a host array that fits."""

    def download(self, source: Any, target: Any, repeat: int = 1) -> None:
        """Queue a copy from a buffer of this session to a host array, `repeat` times."""
        check_copy(source, target)
        if source.nbytes:
            self._download(source, target, repeat)

    @abstractmethod
    def _download(self, source: Any, target: Any, repeat: int) -> None:
        """Queue copies of some bytes to a host array that fits."""

    def copy(self, source: Any, target: Any, repeat: int = 1) -> Route:
        """Queue a copy of a buffer of this session to one of any session, `repeat` times.

        Return how it went.
        """
        check_copy(source, target)
        there = target.session
        route = self._route(there)
        if route == "staged":
            return staged_copy(source, target, repeat)
        if there is not self:
            self.wait(there.mark())  # what the target does before it must be done
        if source.nbytes:
            self._copy(source, target, repeat)
        if there is not self:
            there.wait(self.mark())
        return route

    @abstractmethod
    def _route(self, there: Any) -> Route:
        """Return how a copy to another session goes."""

    @abstractmethod
    def _copy(self, source: Any, target: Any, repeat: int) -> None:
        """Queue copies by a route that is not staged."""

    def gemm(
        self,
        a: Any,
        b: Any,
        out: Any,
        *,
        transpose: tuple[bool, bool] = (False, False),
        alpha: float = 1.0,
        beta: float = 0.0,
        tf32: bool = False,
        repeat: int = 1,
    ) -> None:
        """Queue out = alpha op(a).op(b) + beta out, `repeat` times; beta 0 does not read `out`.

        Factors of 16 bits are summed in 32. `tf32` lets a product of float32 read ten bits of
        their fractions, which no session does unasked.
        """
        sizes = check_shapes(a.shape, b.shape, out.shape, transpose)
        if tf32:
            require(self, "tf32", "TF32 products")
        if 0 in sizes:  # which BLAS libraries refuse, or do not document
            self._scale(out, beta**repeat)
            return
        self._multiply((a, b, out, sizes, transpose, alpha, beta, tf32), repeat)

    def _scale(self, out: Any, factor: float) -> None:
        """Multiply a buffer, by way of the host; a factor of 0 does not read it."""
        scaled = np.zeros(out.shape, out.dtype)
        if factor != 0.0:
            self.download(out, scaled)
            self.synchronize()
            scaled *= factor
        self.upload(scaled, out)
        self.synchronize()  # the host's array ends with this function

    @abstractmethod
    def _multiply(self, product: Product, repeat: int) -> None:
        """Queue a product whose shapes fit, and that has terms, `repeat` times."""

    def run(self, kernel: str, *arguments: Any, size: int) -> None:
        """Queue a kernel of `gpumap.kernels` over `size` elements."""
        self.prepare(kernel, *arguments, size=size)()

    def prepare(self, kernel: str, *arguments: Any, size: int) -> Callable[[], None]:
        """Return what queues a kernel as `run` would: all that can be decided before, is.

        For what is queued often, with the same arguments. A session without `kernels` has none.
        """
        self._fitting(kernel, arguments, size)
        raise NotImplementedError(kernel, arguments, size)

    def _fitting(self, kernel: str, arguments: Sequence[Any], size: int) -> tuple[Kernel, Any]:
        """Return a kernel that can be called so, and its type; raises Unsupported, ValueError."""
        from gpumap.kernels import KERNELS

        if (known := KERNELS.get(kernel)) is None:
            raise Unsupported(f'there is no kernel "{kernel}" on {self.device.ref}')
        require(self, "kernels", f"the kernel {kernel}")
        known.constants(arguments, size)
        return known, known.element(arguments, size)

    def _calls(self, kernel: Kernel, arguments: Sequence[Any], size: int) -> Calls:
        """Return the calls of a kernel: one, none without a result, two for a long reduction."""
        if not size and kernel.group is None:
            return []
        if (parts := kernel.parts(size)) == 1:
            return [(arguments, size)]
        source, target = arguments
        results = self.empty((parts,), source.dtype.name)
        return [((source, results), size), ((results, target), parts)]

    @abstractmethod
    def mark(self) -> Any:
        """Queue a `Mark` and return it."""

    def wait(self, mark: Any) -> None:
        """Let what is queued from now on start only after a `Mark`, of any session."""
        if mark.session is not self and not self._queued_wait(mark):
            mark.session.synchronize()

    def _queued_wait(self, mark: Any) -> bool:  # noqa: ARG002 - for those that can
        """Queue a wait for a mark of another session; return False where that cannot be."""
        return False

    def seconds(self, start: Any, stop: Any) -> float | None:  # noqa: ARG002 - for those that know
        """Return the time between two marks by the device's own clock; None if it has none."""
        return None

    def at(self, mark: Any) -> float | None:
        """Return the host time at which the queue came to `mark`; waits for it."""
        return self._host_times.at(mark) if self._host_times else None

    def worked(self, start: Any, stop: Any) -> float | None:  # noqa: ARG002 - as above
        """Return the CPU time that the device's own thread spent between two marks, if it has one.

        Below the time that passed, something else had its core.
        """
        return None

    def peak(self, arithmetic: Arithmetic) -> Limit | None:  # noqa: ARG002 - as above
        """Return the FLOP/s that no product of this arithmetic can exceed here, if it is known.

        By a data sheet and the highest clock that the driver reports; no core has one.
        """
        return None

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for everything queued so far; raises what went wrong in it."""

    def close(self) -> None:
        """Give everything back; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._close()

    @abstractmethod
    def _close(self) -> None:
        """Give everything back."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class EventMark:
    """An event of a session's library, recorded in its queue."""

    __slots__ = ("event", "session")

    def __init__(self, session: Any, event: Any) -> None:
        self.session, self.event = session, event


class PlainMarks(Session):
    """A session whose library has no events: to wait for a mark is to wait for its session."""

    def mark(self) -> EventMark:
        """Return a mark, which has no event: only waiting tells it from another."""
        return EventMark(self, None)


class StreamSession(Session):
    """A session with a stream of its library, and events that its other streams can wait for."""

    current: Any  # makes its device and stream current, and the library's errors gpumap's
    _stream: Any

    def _queued_wait(self, mark: Any) -> bool:
        if type(mark.session) is not type(self):
            return False
        with self.current:
            self._stream.wait_event(mark.event)
        return True

    def synchronize(self) -> None:
        """Wait for everything queued so far."""
        with self.current:
            self._stream.synchronize()


class Backend(ABC):
    """A library that drives devices of some kinds; its sessions are loaded with the first one."""

    name: str
    kinds: frozenset[Kind]

    def __init__(self, host: Host) -> None:
        self._host = host

    @abstractmethod
    def probe(self) -> Probe:
        """Return the devices, or why there are none and what would fix it; never raises."""

    @abstractmethod
    def open(self, device: Device, clock: Clock) -> Session:
        """Open a device that `probe` listed; raises AbsentError or DeviceError."""

    @abstractmethod
    def features(self, device: Device) -> frozenset[Feature]:
        """Return what a session on a device is expected to have; the device is not opened."""

    def clock(self) -> Clock:
        """Return the clock that its sessions are measured with."""
        return Clock()


def staged_copy(source: Buffer, target: Buffer, repeat: int = 1) -> Route:
    """Copy by way of host memory, for two sessions that know no shorter way; blocks."""
    bounce = np.empty(source.shape, source.dtype)
    for _ in range(repeat):
        source.session.download(source, bounce)
        source.session.synchronize()
        target.session.upload(bounce, target)
        target.session.synchronize()  # the bounce buffer ends with this function
    return "staged"


def require(session: Session, feature: Feature, what: str) -> None:
    """Raise `Unsupported` unless `session` has `feature`."""
    if feature not in session.features:
        device = session.device
        raise Unsupported(
            f"{what} is not there on {device.ref} with {device.backend}",
            f"`gpumap devices` shows the features; {feature} is missing",
        )


def bytes_of(shape: tuple[int, ...], dtype: Any) -> int:
    """Return the memory that a shape of NumPy's type takes.

    Raises:
        OutOfMemory: more than an address reaches; libraries would wrap around and take less.
    """
    nbytes = prod(map(int, shape)) * int(np.dtype(dtype).itemsize)
    if nbytes > sys.maxsize:
        raise OutOfMemory(f"there is no room for {shape} {dtype} anywhere", "request less")
    return nbytes


def contiguous(rows: slice, count: int) -> slice:
    """Return `rows` of a buffer with `count` of them, bounds filled in; ValueError for a step."""
    start, stop, step = rows.indices(count)
    if step != 1:
        raise ValueError("rows of a buffer are contiguous: no step")
    return slice(start, max(start, stop))


def check_reshape(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    """Raise ValueError unless both shapes have the same number of elements."""
    if min(after, default=0) < 0 or prod(before) != prod(after):
        raise ValueError(f"{before} cannot be seen as {after}")


def pageable(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return host memory as any program has it, with whatever bytes are there.

    Raises:
        OutOfMemory: the host has no room.
    """
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError) as error:
        raise OutOfMemory(f"the host has no room for {shape} {dtype}", "request less") from error


def has_data(array: Any) -> bool:
    """Return whether an array of the host's or a buffer has data: a scripted one may have none."""
    return not getattr(array, "hollow", False)


def destination(buffer: Buffer) -> Array:
    """Return host memory that a buffer can be copied to; without data where that has none.

    Raises:
        OutOfMemory: the host has no room.
    """
    if has_data(buffer):
        return pageable(buffer.shape, buffer.dtype)
    from gpumap.backends.host_memory import hollow_array

    return hollow_array(buffer.shape, buffer.dtype)


def check_copy(source: Any, target: Any) -> None:
    """Raise ValueError unless both sides of a copy have the same shape and type."""
    if (source.shape, source.dtype) != (target.shape, target.dtype):
        raise ValueError(
            f"a copy does not fit: {source.shape} {source.dtype} -> {target.shape} {target.dtype}"
        )


def check_whole(target: Any) -> None:
    """Raise ValueError unless a host array is in one piece."""
    if not target.flags.c_contiguous:
        raise ValueError("a copy to the host needs a contiguous target")


def check_shapes(
    a: tuple[int, ...], b: tuple[int, ...], out: tuple[int, ...], transpose: tuple[bool, bool]
) -> tuple[int, int, int]:
    """Return (rows, columns, inner) of a product, or raise ValueError when they do not fit."""
    rows, inner = a[::-1] if transpose[0] else a
    inner_b, columns = b[::-1] if transpose[1] else b
    if inner != inner_b or out != (rows, columns):
        raise ValueError(f"shapes do not fit: {a} x {b} -> {out}, transpose {transpose}")
    return rows, columns, inner

"""Cores of the host as devices, driven by NumPy: the embedded default, which needs no driver.

`cpuN` is one core with a pinned worker thread of its own, so that two of them really run side by
side; `cpu` is every core this process may run on, a product or a large copy in blocks over one such
worker per core.
"""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.backends.base import (
    Closing,
    Peak,
    SystemClock,
    check_copy,
    check_reshape,
    check_shapes,
    contiguous,
    kernel_named,
    pageable,
    require,
    staged_copy,
)
from gpumap.backends.numpy_devices import NAME, cores
from gpumap.errors import DeviceError, OutOfMemory
from gpumap.extras import pip
from gpumap.machine import blas
from gpumap.machine.numa import pin
from gpumap.model import Kind, Probe

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from gpumap.backends.base import Clock, Feature, Host, HostMemory, Mark, Route
    from gpumap.dtypes import Arithmetic, Dtype
    from gpumap.model import Device

    Array = np.ndarray[Any, Any]

_BLOCK = 8 << 20  # bytes of a copy that are worth another worker: inside the caches one is best
_JOIN = 10.0  # seconds that a worker has to end its last job when its session closes


class NumpyBuffer:
    """An array in host memory that belongs to one session."""

    def __init__(self, session: NumpySession, native: Array) -> None:
        self.session = session
        self.native = native
        self.shape: tuple[int, ...] = native.shape
        self.dtype = native.dtype
        self.nbytes: int = native.nbytes

    def __getitem__(self, rows: slice) -> NumpyBuffer:
        return NumpyBuffer(self.session, self.native[contiguous(rows, self.shape[0])])

    def reshape(self, shape: tuple[int, ...]) -> NumpyBuffer:
        """Return a view of the same elements in another shape."""
        check_reshape(self.shape, shape)
        return NumpyBuffer(self.session, self.native.reshape(shape))


class _Latch:
    """What a thread waits for until another one sets it, once.

    An interrupt that meets `threading.Event.wait` can leave its lock as no one expects it, one that
    meets the taking of a bare lock cannot.
    """

    __slots__ = ("_lock", "set")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.set = self._lock.release

    def wait(self) -> None:
        with self._lock:
            pass


@dataclass(slots=True)
class NumpyMark:
    """A point in a worker's queue: reached when the worker comes to it."""

    session: NumpySession
    reached: _Latch = field(default_factory=_Latch)
    host_time: float = 0.0
    cpu_time: float = 0.0  # of the worker thread alone


class NumpySession(Closing):
    """One core, or all of them, with a queue that is worked off in order."""

    features: frozenset[Feature] = frozenset({"kernels", "float64"})

    def __init__(self, device: Device, clock: Clock) -> None:
        self.device = device
        self._clock = clock
        self._failure: BaseException | None = None
        self._closed = False
        blas.hold()
        # The first worker takes the queue; the others help it with blocks of a product or a copy.
        self._workers = [_Worker(core) for core in device.cores]

    @property
    def pinned(self) -> bool:
        """Whether every worker really is bound to its core."""
        return all(worker.pinned for worker in self._workers)

    def empty(self, shape: tuple[int, ...], dtype: Dtype) -> NumpyBuffer:
        """Return memory that no one has written yet.

        Raises:
            OutOfMemory: the host has no room.
        """
        return NumpyBuffer(self, _allocated(shape, dtype, self.device))

    def host(self, shape: tuple[int, ...], dtype: Dtype, memory: HostMemory) -> Array:
        """Return host memory; there is only the pageable kind."""
        if memory != "pageable":
            require(self, memory, f"{memory} host memory")
        return pageable(shape, dtype)

    def upload(self, source: Array, target: NumpyBuffer, repeat: int = 1) -> None:
        """Queue a copy from host memory to the device's own."""
        check_copy(source, target)
        self._queue_copy(source, target.native, repeat)

    def download(self, source: NumpyBuffer, target: Array, repeat: int = 1) -> None:
        """Queue a copy from the device's memory to the host."""
        check_copy(source, target)
        self._queue_copy(source.native, target, repeat)

    def copy(self, source: NumpyBuffer, target: Any, repeat: int = 1) -> Route:
        """Queue a copy to a buffer of this or of another session."""
        check_copy(source, target)
        if not isinstance(target, NumpyBuffer):
            return staged_copy(source, target, repeat)
        if target.session is not self:
            self.wait(target.session.mark())  # what the target does before it must be done
        self._queue_copy(source.native, target.native, repeat)
        if target.session is self:
            return "same"
        target.session.wait(self.mark())
        return "peer"  # one address space: the source's core writes the target itself

    def gemm(
        self,
        a: NumpyBuffer,
        b: NumpyBuffer,
        out: NumpyBuffer,
        *,
        transpose: tuple[bool, bool] = (False, False),
        alpha: float = 1.0,
        beta: float = 0.0,
        tf32: bool = False,
        repeat: int = 1,
    ) -> None:
        """Queue out = alpha a.b + beta out, each of a and b transposed if asked."""
        rows, _, _ = check_shapes(a.shape, b.shape, out.shape, transpose)
        if tf32:
            require(self, "tf32", "TF32 products")
        left = a.native.T if transpose[0] else a.native
        right = b.native.T if transpose[1] else b.native
        product = partial(_product, left, right, out.native, alpha, beta)
        for _ in range(repeat):
            self._queue(partial(self._split, product, rows, len(self._workers)))

    def run(self, kernel: str, *arguments: NumpyBuffer | float, size: int) -> None:
        """Queue a kernel of `gpumap.kernels.table` over the first `size` elements."""
        self.prepare(kernel, *arguments, size=size)()

    def prepare(
        self, kernel: str, *arguments: NumpyBuffer | float, size: int
    ) -> Callable[[], None]:
        """Return what queues a kernel as `run` would."""
        known = kernel_named(kernel, self)
        natives = [a.native if isinstance(a, NumpyBuffer) else a for a in arguments]
        known.element(arguments, size)  # they fit
        known.constants(arguments, size)
        return partial(self._queue, partial(known.reference, *known.seen(natives, size)))

    def mark(self) -> NumpyMark:
        """Queue a mark and return it."""
        mark = NumpyMark(self)
        self._put(partial(self._reach, mark))
        return mark

    def wait(self, mark: Mark) -> None:
        """Let what is queued from now on start only after `mark`, of any session."""
        if mark.session is self:
            return
        if isinstance(mark, NumpyMark):
            self._workers[0].put(partial(_await, mark))
        else:
            mark.session.synchronize()

    def seconds(self, start: Mark, stop: Mark) -> float | None:  # noqa: ARG002 - the contract's
        """Return None: a core has no clock of its own beside the host's."""
        return None

    def at(self, mark: Mark) -> float | None:
        """Return the host time at which the queue came to `mark`."""
        assert isinstance(mark, NumpyMark)
        mark.reached.wait()
        return mark.host_time

    def worked(self, start: Mark, stop: Mark) -> float | None:
        """Return the CPU time of the core's thread; None for several cores, that work in turns."""
        if len(self._workers) > 1:
            return None
        assert isinstance(start, NumpyMark)
        assert isinstance(stop, NumpyMark)
        stop.reached.wait()
        return stop.cpu_time - start.cpu_time

    def peak(self, arithmetic: Arithmetic) -> Peak | None:
        """Measure multiply-adds on registers alone, on all its cores at once; takes some 10 ms."""
        itemsize = {"float32": 4, "float64": 8}.get(arithmetic)
        if itemsize is None or not self.pinned:
            return None
        found: list[float | None] = []
        marks = [NumpyMark(self) for _ in self._workers]
        for worker, mark in zip(self._workers, marks, strict=True):
            worker.put(partial(_probe, found, itemsize))
            worker.put(partial(self._reach, mark))
        for mark in marks:
            mark.reached.wait()
        known = [rate for rate in found if rate is not None]
        if len(known) < len(self._workers):
            return None
        return Peak(sum(known), "measured: register-only multiply-add", "measured")

    def synchronize(self) -> None:
        """Wait for everything queued so far; raise what went wrong in it."""
        self.mark().reached.wait()
        failure, self._failure = self._failure, None
        if isinstance(failure, MemoryError):
            raise OutOfMemory(f"{self.device.ref} ran out of memory") from failure
        if failure is not None:
            raise failure

    def close(self) -> None:
        """End the workers and give BLAS its threads back; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        for worker in self._workers:
            worker.end()
        blas.release()

    def _queue_copy(self, source: Array, target: Array, repeat: int) -> None:
        """Queue a copy: by several workers if it is large, and no block reads another's result."""
        import numpy as np

        whole = source.flags.c_contiguous and target.flags.c_contiguous
        workers = min(source.nbytes // _BLOCK, len(self._workers))
        if workers > 1 and whole and not np.may_share_memory(source, target):
            to, from_ = (np.asarray(end).reshape(-1) for end in (target, source))  # no np.matrix
            flat = partial(_copy_rows, to, from_, repeat)
            self._queue(partial(self._split, flat, source.size, workers))
        else:
            self._queue(partial(_copy, target, source, repeat))

    def _queue(self, job: Callable[[], None]) -> None:
        self._put(partial(self._guarded, job))

    def _put(self, job: Callable[[], None]) -> None:
        if self._closed:  # no worker is left: whoever waits would wait for ever
            raise DeviceError(f"the session on {self.device.ref} is closed")
        self._workers[0].put(job)

    def _guarded(self, job: Callable[[], None]) -> None:
        """Keep the first failure for `synchronize`, and skip what was queued behind it."""
        if self._failure is None:
            try:
                job()
            except BaseException as failure:  # noqa: BLE001 - raised by the thread that waits
                self._failure = failure

    def _split(self, work: Callable[[slice], None], rows: int, n: int) -> None:
        """Run `work` in n row blocks, one for each worker; called by the first of them."""
        blocks = [slice(rows * i // n, rows * (i + 1) // n) for i in range(n)]
        done = [NumpyMark(self) for _ in blocks[1:]]
        for worker, block, mark in zip(self._workers[1:n], blocks[1:], done, strict=True):
            worker.put(partial(self._guarded, partial(work, block)))
            worker.put(partial(self._reach, mark))
        try:
            work(blocks[0])
        finally:  # no helper may write on when the job is said to be over
            for mark in done:
                mark.reached.wait()

    def _reach(self, mark: NumpyMark) -> None:
        mark.host_time = self._clock.now()
        mark.cpu_time = time.thread_time()
        mark.reached.set()


class NumpyBackend:
    """NumPy on the cores that this process may run on."""

    name = NAME
    kinds = frozenset({Kind.CPU})

    def __init__(self, host: Host) -> None:
        self._topology = host.topology

    def probe(self) -> Probe:
        """Return NumPy's version and the cores; needs no child process, there is no driver."""
        try:
            import numpy as np

            version = np.__version__
        except (ImportError, AttributeError) as error:  # another file may be called numpy
            reason = f"NumPy cannot be loaded: {error}"
            again = pip("install", "--force-reinstall", "numpy")
            fix = f"{again}; see PYTHONPATH for another numpy.py"
            return Probe(self.name, usable=False, reason=reason, fix=fix)
        return Probe(self.name, usable=True, version=version, devices=cores(self._topology))

    def open(self, device: Device, clock: Clock) -> NumpySession:
        """Open a core, or all of them."""
        import numpy as np  # noqa: F401 - before any thread is pinned: OpenBLAS sizes itself now

        return NumpySession(device, clock)

    def features(self, device: Device) -> frozenset[Feature]:  # noqa: ARG002 - the contract's
        """Return what its sessions have."""
        return NumpySession.features

    def clock(self) -> SystemClock:
        """Return the machine's own clock."""
        return SystemClock()


class _Worker:
    """A thread bound to one core that works off a queue."""

    def __init__(self, core: int) -> None:
        self.pinned = False
        self._core = core
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.put = self._jobs.put
        self._bound = _Latch()
        self._thread = threading.Thread(target=self._work, name=f"cpu{core}", daemon=True)
        self._thread.start()
        self._bound.wait()

    def end(self) -> None:
        self._jobs.put(None)
        self._thread.join(_JOIN)

    def _work(self) -> None:
        self.pinned = pin([self._core])
        self._bound.set()
        import numpy as np  # imported long ago, by whoever opened the session

        with np.errstate(all="ignore"):  # as a device, which warns of nothing
            while (job := self._jobs.get()) is not None:
                job()


def _probe(found: list[float | None], itemsize: int) -> None:
    found.append(blas.peak(itemsize))


def _allocated(shape: tuple[int, ...], dtype: Dtype, device: Device) -> Array:
    import numpy as np

    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError) as error:
        raise OutOfMemory(f"{device.ref} has no room for {shape} {dtype}") from error


def _copy(target: Array, source: Array, repeat: int) -> None:
    import numpy as np

    for _ in range(repeat):
        np.copyto(target, source, casting="no")


def _copy_rows(target: Array, source: Array, repeat: int, rows: slice) -> None:
    _copy(target[rows], source[rows], repeat)


def _await(mark: NumpyMark) -> None:
    mark.reached.wait()


def _product(a: Array, b: Array, out: Array, alpha: float, beta: float, rows: slice) -> None:
    import numpy as np

    if alpha == 1.0 and beta == 0.0:
        np.matmul(a[rows], b, out=out[rows])
        return
    product = np.matmul(a[rows], b)
    product *= alpha
    if beta == 0.0:
        out[rows] = product  # beta 0 must not read `out`: it may hold NaN
    else:
        out[rows] *= beta
        out[rows] += product

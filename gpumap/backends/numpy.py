"""Cores of the host as devices, driven by NumPy: the embedded default, which needs no driver.

`cpuN` is one core with a pinned worker thread of its own, so that two of them really run side by
side; `cpu` is every core this process may run on, a product in blocks over one such worker for
each.
"""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.backends.base import Backend, NativeBuffer, Product, Session, pageable
from gpumap.dtypes import Array, np
from gpumap.errors import DeviceError, OutOfMemory
from gpumap.extras import pip
from gpumap.machine import blas
from gpumap.machine.process_control import pin
from gpumap.model import Device, DeviceRef, Kind, Probe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumap.backends.base import Clock, Feature, Route
    from gpumap.dtypes import Dtype
    from gpumap.machine.topology import Topology

NAME = "numpy"
_JOIN = 10.0  # seconds that a worker has to end its last job when its session closes


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


class NumpySession(Session):
    """One core, or all of them, with a queue that is worked off in order."""

    features: frozenset[Feature] = frozenset({"kernels", "float64"})
    _functions: Mapping[str, Callable[..., None]] = {}  # of kernels, in the place of references

    def __init__(self, device: Device, clock: Clock) -> None:
        self.device = device
        self._clock = clock
        self._failure: BaseException | None = None
        blas.hold()  # before a thread is pinned
        # The first worker takes the queue; the others help it with blocks of a product.
        self._workers = [_Worker(core) for core in device.cores]

    def empty(self, shape: tuple[int, ...], dtype: Dtype) -> NativeBuffer:
        """Return memory that no one has written yet.

        Raises:
            OutOfMemory: the host has no room.
        """
        return NativeBuffer(self, pageable(shape, dtype))

    def _upload(self, source: Array, target: NativeBuffer, repeat: int) -> None:
        """Queue a copy from host memory to the device's own."""
        self._queue(partial(self.transfer, target.memory, source, repeat))

    def _download(self, source: NativeBuffer, target: Array, repeat: int) -> None:
        """Queue a copy from the device's memory to the host."""
        self._queue(partial(self.transfer, target, source.memory, repeat))

    def _route(self, there: Any) -> Route:
        """Return how a copy goes: in one address space the source's core writes the target."""
        if there is self:
            return "same"
        return "peer" if type(there) is type(self) else "staged"

    def _copy(self, source: NativeBuffer, target: NativeBuffer, repeat: int) -> None:
        self._queue(partial(self.transfer, target.memory, source.memory, repeat))

    def _multiply(self, product: Product, repeat: int) -> None:
        a, b, out, (rows, *_), transpose, alpha, beta, _ = product
        left = a.native.T if transpose[0] else a.native
        right = b.native.T if transpose[1] else b.native
        work = partial(self._product, left, right, out.native, alpha, beta)
        self._queue(partial(self._repeated, work, rows, repeat))

    @staticmethod
    def _product(
        a: Any, b: Any, out: Any, alpha: float, beta: float, rows: slice, repeat: int = 1
    ) -> None:
        """Multiply a block of rows `repeat` times, in the thread of a core."""
        left, target = a[rows], out[rows]
        for _ in range(repeat):
            if alpha == 1.0 and beta == 0.0:
                np.matmul(left, b, out=target)
                continue
            product = np.matmul(left, b)
            product *= alpha
            if beta == 0.0:
                target[...] = product  # beta 0 must not read `out`: it may hold NaN
            else:
                target *= beta
                target += product

    def prepare(
        self, kernel: str, *arguments: NativeBuffer | float, size: int
    ) -> Callable[[], None]:
        """Return what queues a kernel as `run` would."""
        known, _ = self._fitting(kernel, arguments, size)
        views = known.reference_views(arguments, size)
        function = self._functions.get(kernel, known.reference)
        return partial(self._queue, partial(function, *views))

    def mark(self) -> NumpyMark:
        """Queue a mark and return it."""
        mark = NumpyMark(self)
        self._put(partial(self._reach, mark))
        return mark

    def _queued_wait(self, mark: Any) -> bool:
        if not isinstance(mark, NumpyMark):
            return False
        self._workers[0].put(mark.reached.wait)
        return True

    def at(self, mark: NumpyMark) -> float | None:
        """Return the host time at which the queue came to `mark`."""
        mark.reached.wait()
        return mark.host_time

    def worked(self, start: NumpyMark, stop: NumpyMark) -> float | None:
        """Return the CPU time of the core's thread; None for several cores, that work in turns."""
        if len(self._workers) > 1:
            return None
        stop.reached.wait()
        return stop.cpu_time - start.cpu_time

    def synchronize(self) -> None:
        """Wait for everything queued so far; raise what went wrong in it."""
        self.mark().reached.wait()
        failure, self._failure = self._failure, None
        if isinstance(failure, MemoryError):
            raise OutOfMemory(f"{self.device.ref} ran out of memory") from failure
        if failure is not None:
            raise failure

    def _close(self) -> None:
        """End the workers and give BLAS its threads back."""
        for worker in self._workers:
            worker.end()
        blas.release()

    @staticmethod
    def transfer(target: Array, source: Array, repeat: int) -> None:
        """Copy, in the thread of a core."""
        for _ in range(repeat):
            np.copyto(target, source, casting="no")

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

    def _repeated(self, work: Callable[..., None], rows: int, repeat: int) -> None:
        """Do a product again and again: one core alone does not come back in between."""
        if len(self._workers) == 1:
            work(slice(0, rows), repeat)
            return
        for _ in range(repeat):
            self._split(work, rows)

    def _split(self, work: Callable[[slice], None], rows: int) -> None:
        """Run `work` in blocks of rows, one for each worker; called by the first of them."""
        n = len(self._workers)
        blocks = [slice(rows * i // n, rows * (i + 1) // n) for i in range(n)]
        done = [NumpyMark(self) for _ in blocks[1:]]
        for worker, block, mark in zip(self._workers[1:], blocks[1:], done, strict=True):
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


class _Worker:
    """A thread bound to one core that works off a queue."""

    def __init__(self, core: int) -> None:
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
        pin([self._core])
        self._bound.set()
        with np.errstate(all="ignore"):  # as a device, which warns of nothing
            while (job := self._jobs.get()) is not None:
                job()


class NumpyBackend(Backend):
    """NumPy on the cores that this process may run on."""

    name = NAME
    kinds = frozenset({Kind.CPU})

    def probe(self) -> Probe:
        """Return NumPy's version and the cores; needs no child process, there is no driver."""
        try:
            version = np.__version__
        except (ImportError, AttributeError) as error:  # another file may be called numpy
            reason = f"NumPy cannot be loaded: {error}"
            again = pip("install", "--force-reinstall", "numpy")
            fix = f"{again}; see PYTHONPATH for another numpy.py"
            return Probe(self.name, usable=False, reason=reason, fix=fix)
        return Probe(self.name, usable=True, version=version, devices=cores(self._host.topology))

    def open(self, device: Device, clock: Clock) -> NumpySession:
        """Open a core, or all of them."""
        return NumpySession(device, clock)

    def features(self, device: Device) -> frozenset[Feature]:  # noqa: ARG002 - the contract's
        """Return what its sessions have."""
        return NumpySession.features


def cores(topology: Topology) -> tuple[Device, ...]:
    """Return every core by its place in the affinity mask, and all of them as one device."""
    every = tuple(range(len(topology.cpus)))
    each = (_device(topology, DeviceRef(Kind.CPU, n), (n,)) for n in every)
    return (*each, _device(topology, DeviceRef(Kind.CPU), every))


def _device(topology: Topology, ref: DeviceRef, places: tuple[int, ...]) -> Device:
    cpus = [topology.cpus[n] for n in places]
    nodes = {cpu.numa_node for cpu in cpus}
    return Device(
        id="cpu" if ref.index is None else f"cpu:{ref.index}",
        kind=Kind.CPU,
        ref=ref,
        name=topology.model,
        backend=NAME,
        memory_total=topology.memory_total,
        memory_free=topology.memory_available,
        units=len({cpu.hardware for cpu in cpus}),
        numa_node=nodes.pop() if len(nodes) == 1 else None,
        cores=tuple(cpu.index for cpu in cpus),
        hardware=frozenset(cpu.hardware for cpu in cpus),
    )

"""An OpenCL device beside NumPy, CLBlast and bare PyOpenCL: products, memory and launches."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from benchmarks.children import ROOT
from benchmarks.contest import Contest, looped, sampled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from benchmarks.contest import Timed
    from gpumap.backends.base import Session

_SAMPLE = 0.1  # seconds

# --- products

# Size -> how many times as fast as NumPy on all cores a product is to be.
TARGETS = {512: 0.7, 1024: 0.9, 2048: 0.9, 4096: 0.85}
HASWELL, CLBLAST = 1.0, 5.0  # as fast as its kernels for AVX2; as CLBlast through pygpu
_SLOW = 2048  # CLBlast takes seconds for more
_EPSILON = 2.0**-23  # of float32


def products(session: Session) -> Iterator[Contest]:
    """Yield a contest for each size and peer."""
    numpy, debian = sys.executable, str(DEBIAN)
    for size, least in TARGETS.items():
        for peer, python, more, target in (
            ("NumPy, all cores", numpy, {}, least),
            ("NumPy, OPENBLAS_CORETYPE=Haswell", numpy, {"OPENBLAS_CORETYPE": "Haswell"}, HASWELL),
            ("NumPy, one core", numpy, {"OPENBLAS_NUM_THREADS": "1"}, None),
            ("CLBlast through pygpu", debian, {}, CLBLAST),
        ):
            if python == debian and (not DEBIAN.exists() or size > _SLOW):
                continue
            name = "pygpu" if python == debian else "numpy"
            with Peer(name, size, python, more) as theirs:
                yield Contest(f"product of {size}", peer, _product(session, size), theirs,
                              least=target, amount=2.0 * size**3, unit="FLOP/s")  # fmt: skip


def _product(session: Session, size: int) -> Timed:
    """Return what times a product on the device, once it was seen to be right."""
    rng = np.random.default_rng(size)
    a, b = (rng.uniform(-1, 1, (size, size)).astype("float32") for _ in range(2))
    left, right, out = (session.empty((size, size), "float32") for _ in range(3))
    session.upload(a, left)
    session.upload(b, right)
    timed = sampled(looped(lambda: session.gemm(left, right, out)), session.synchronize, _SAMPLE)
    found = np.empty_like(a)
    session.download(out, found)
    session.synchronize()
    vector = rng.uniform(-1, 1, size)
    off = abs(found.astype(float) @ vector - a.astype(float) @ (b.astype(float) @ vector)).max()
    if off > size * _EPSILON * size:
        raise SystemExit(f"the product of {size} is off by {off}")
    return timed


# --- peers that need a process of their own: another setting of OpenBLAS, another Python

DEBIAN = ROOT / ".venv-pygpu" / "bin" / "python"  # whose Python has pygpu
LIMIT = 120.0  # seconds that a peer may take to end
# For each line that it reads, a number of calls, it writes the seconds that they took.
_PROGRAM = """
import sys, time
import numpy as np
size = int(sys.argv[1])
rng = np.random.RandomState(size)
a, b = (rng.uniform(-1, 1, (size, size)).astype("float32") for _ in range(2))
{setup}
for line in sys.stdin:
    start = time.perf_counter()
    for _ in range(int(line)):
        multiply()
    finish()
    print(time.perf_counter() - start, flush=True)
"""
_SETUPS = {
    "numpy": """
out = np.empty_like(a)
multiply, finish = lambda: np.matmul(a, b, out=out), lambda: None
""",
    "pygpu": """
import pygpu
from pygpu import blas
context = pygpu.init("opencl0:0")
a, b = (pygpu.array(matrix, context=context) for matrix in (a, b))
out = pygpu.empty((size, size), dtype="float32", context=context)
multiply, finish = lambda: blas.gemm(1.0, a, b, 0.0, out, overwrite_c=True), out.sync
""",
}


class Peer:
    """A process that multiplies two matrices of a size when it is asked to."""

    def __init__(self, name: str, size: int, python: str, more: Mapping[str, str]) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
        self._process = subprocess.Popen(
            [python, "-c", _PROGRAM.format(setup=_SETUPS[name]), str(size)],
            env={**environment, **more},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._calls = 1
        self()  # compiles, and is warm
        self._calls = max(round(_SAMPLE / self()), 1)

    def __call__(self) -> float:
        """Return the seconds of one product."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended, which is told below
            self._process.stdin.write(f"{self._calls}\n")
            self._process.stdin.flush()
        said = self._process.stdout.readline()
        if not said:
            raise RuntimeError(f"the peer ended: {self._end()}")
        return float(said) / self._calls

    def _end(self) -> int:
        """Close its stdin, wait for its end, and return its exit code."""
        self._process.communicate(timeout=LIMIT)
        return int(self._process.returncode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()


# --- memory

NUMBERS = 64 << 20  # float32: 256 MiB of each array, several times any cache
COPYTO = 1.15  # times as fast as NumPy


def memory(session: Session) -> Iterator[Contest]:
    """Yield a contest for each kernel, and one more for `fill`.

    The peer reads and writes together as many bytes as the kernel does.
    """
    a, b, out = (session.empty((NUMBERS,), "float32") for _ in range(3))
    for buffer in (a, b, out):
        session.run("fill", buffer, 1.0, size=NUMBERS)
    run = partial(session.prepare, size=NUMBERS)
    # What is queued, and how many arrays of NUMBERS it reads and writes.
    works: dict[str, tuple[Callable[[], object], int]] = {
        "copy": (lambda: session.copy(a, out), 2),
        "fill": (run("fill", out, 2.0), 1),
        "sum of two": (run("add", a, b, out), 3),
        "relu": (run("relu", a, out), 2),
    }
    with ThreadPoolExecutor(_cores()) as pool:
        for what, (job, arrays) in works.items():
            ours = sampled(looped(job), session.synchronize, _SAMPLE)
            theirs = sampled(looped(_copyto(pool, arrays)), lambda: None, _SAMPLE)
            amount = 4.0 * NUMBERS * arrays
            peer = f"NumPy copyto, {_cores()} threads, as many bytes"
            yield Contest(what, peer, ours, theirs, least=COPYTO, amount=amount, unit="B/s")
            if what == "fill":  # which reads nothing, and is bound by how fast memory is written
                theirs = sampled(looped(_fill(pool)), lambda: None, _SAMPLE)
                peer = f"NumPy copyto of a number, {_cores()} threads"
                yield Contest(what, peer, ours, theirs, amount=amount, unit="B/s")


def _copyto(pool: ThreadPoolExecutor, arrays: int) -> Callable[[], None]:
    """Return a copy of half of `arrays`: read and written, those are as many bytes."""
    count = NUMBERS * arrays // 2
    source, target = np.ones(count, "f4"), np.zeros(count, "f4")
    return _shared(pool, count, lambda part: np.copyto(target[part], source[part]))


def _fill(pool: ThreadPoolExecutor) -> Callable[[], None]:
    """Return what writes one number everywhere."""
    target = np.ones(NUMBERS, "f4")
    return _shared(pool, NUMBERS, lambda part: np.copyto(target[part], np.float32(2.0)))


def _shared(
    pool: ThreadPoolExecutor, count: int, work: Callable[[slice], None]
) -> Callable[[], None]:
    """Return what does `work` with `count` elements, each thread with its share."""
    edges = np.linspace(0, count, _cores() + 1, dtype=int)
    parts = [slice(*edge) for edge in pairwise(edges)]

    def together() -> None:
        list(pool.map(work, parts))

    return together


def _cores() -> int:
    return len(os.sched_getaffinity(0))


# --- launches

QUEUED = 1.2  # of the cost of a bare loop
COUNT = 2000  # commands of a batch
BATCHES = 10  # of a sample, of which the quickest counts
_FEW = 100  # numbers of each array


def launches(session: Any) -> Iterator[Contest]:
    """Yield the cost of a prepared kernel, and of a copy, over a bare loop's.

    The device is held back while commands are queued: PoCL's threads would else take the host's
    core, or its lock, now and then, and the same loop would take once or twice as long.
    """
    a, b = session.empty((_FEW,), "float32"), session.empty((_FEW,), "float32")
    session.run("fill", a, 1.0, size=_FEW)
    prepared = session.prepare("add", a, a, b, size=_FEW)
    source = np.zeros(_FEW, "f4")
    for what, peer, ours, theirs in (
        (
            "a prepared kernel, queued",
            "PyOpenCL, arguments set once",
            lambda: [prepared() for _ in range(COUNT)],
            _bare_kernel(session, a, a, b),
        ),
        (
            f"a copy of {source.nbytes} B to the device, queued",
            "PyOpenCL, events kept",
            lambda: session.upload(source, a, COUNT),
            _bare_copy(a.native, source),
        ),
    ):
        yield Contest(
            what,
            peer,
            _queued(session, session._queue, lambda _, job=ours: job()),  # noqa: SLF001 - it is held back
            _queued(session, _bare_queue(session), theirs),
            most=QUEUED,
        )


def _queued(session: Session, queue: Any, job: Callable[[Any], object]) -> Callable[[], float]:
    """Return what times how long each of COUNT commands takes to be queued, and not to be done."""
    import pyopencl as cl

    def batch() -> float:
        gate = cl.UserEvent(queue.context)
        kept = [cl.enqueue_barrier(queue, wait_for=[gate])]
        start = time.perf_counter()
        kept.append(job(queue))
        took = time.perf_counter() - start
        gate.set_status(cl.command_execution_status.COMPLETE)
        queue.finish()
        session.synchronize()
        return took / COUNT

    return lambda: min(batch() for _ in range(BATCHES))


def _bare_queue(session: Any) -> Any:
    import pyopencl as cl

    profiled = cl.command_queue_properties.PROFILING_ENABLE  # as a session's queue is
    return cl.CommandQueue(session.context, properties=profiled)


def _bare_kernel(session: Any, *given: Any) -> Callable[[Any], object]:
    """Return a loop of PyOpenCL alone over the same kernel with the same arguments."""
    import pyopencl as cl

    (launch,) = session._launches("add", given, _FEW)  # noqa: SLF001 - the same, no less
    program, _ = session._of(launch)  # noqa: SLF001
    kernel = launch.kernel(program)
    kernel.set_args(*launch.arguments)
    items, local = launch.items, launch.local
    return _keeping(lambda queue: cl.enqueue_nd_range_kernel(queue, kernel, items, local))


def _bare_copy(buffer: Any, source: Any) -> Callable[[Any], object]:
    """Return a loop of PyOpenCL alone over the same copy."""
    import pyopencl as cl

    return _keeping(lambda queue: cl.enqueue_copy(queue, buffer, source, is_blocking=False))


def _keeping(call: Callable[[Any], object]) -> Callable[[Any], object]:
    """Return a loop that keeps the events of its calls, as users write it."""

    def loop(queue: Any) -> object:
        events = []
        for _ in range(COUNT):
            events.append(call(queue))  # noqa: PERF401 - as users write it
        return events

    return loop

"""What gpumap costs for each command that it queues, beside bare PyOpenCL.

The device is held back while commands are queued: PoCL's threads would else take the host's core,
or its lock, now and then, and the same loop would take once or twice as long.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.speed.contest import Contest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumap.backends.base import Session

TARGET = 1.2
COUNT = 2000  # commands of a batch
BATCHES = 10  # of a sample, of which the quickest counts
NUMBERS = 100


def contests(session: Any) -> Iterator[Contest]:
    """Yield the cost of a prepared kernel, and of a copy, over a bare loop's."""
    a, b = session.empty((NUMBERS,), "float32"), session.empty((NUMBERS,), "float32")
    session.run("fill", a, 1.0, size=NUMBERS)
    prepared = session.prepare("add", a, a, b, size=NUMBERS)
    source = np.zeros(NUMBERS, "f4")
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
            most=TARGET,
            unit="s",
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

    (launch,) = session._launches("add", given, NUMBERS)  # noqa: SLF001 - the same, no less
    kernel = session._kernels.own(launch)  # noqa: SLF001
    items, local = launch.padded, launch.local

    def loop(queue: Any) -> object:
        events = []
        for _ in range(COUNT):
            events.append(cl.enqueue_nd_range_kernel(queue, kernel, items, local))  # noqa: PERF401 - as users write it
        return events

    return loop


def _bare_copy(buffer: Any, source: Any) -> Callable[[Any], object]:
    """Return a loop of PyOpenCL alone over the same copy."""
    import pyopencl as cl

    def loop(queue: Any) -> object:
        events = []
        for _ in range(COUNT):
            events.append(cl.enqueue_copy(queue, buffer, source, is_blocking=False))  # noqa: PERF401 - as users write it
        return events

    return loop

"""What gpumap costs for each command that it queues, beside bare PyOpenCL."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import spacing
from benchmarks.speed.contest import Contest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumap.backends.base import Session

TARGET = 1.2
COUNT = 2000
BATCHES = 5  # of a sample, of which the quickest counts: a launch is short, and others' turns long
NUMBERS = 16  # so few that the device is not what is waited for


def contests(session: Session) -> Iterator[Contest]:
    """Yield the cost of a prepared kernel, and of a copy, over a bare loop's."""
    a, b = session.empty((NUMBERS,), "float32"), session.empty((NUMBERS,), "float32")
    session.run("fill", a, 1.0, size=NUMBERS)
    prepared = session.prepare("add", a, a, b, size=NUMBERS)
    yield Contest(
        "a prepared kernel, queued",
        "PyOpenCL, arguments set once",
        _queued(lambda: [prepared() for _ in range(COUNT)], session),
        _bare_kernel(session, a, a, b),
        most=TARGET,
        unit="s",
    )
    source = np.zeros(spacing.NBYTES, np.uint8)
    yield Contest(
        f"{spacing.BATCH} copies to the device, to their end",
        "PyOpenCL, events kept",
        spacing.through(session, source),
        spacing.bare(session, source),
        most=spacing.TARGET,
        unit="s",
    )


def _queued(job: Callable[[], object], session: Session) -> Callable[[], float]:
    """Return what times the queueing of COUNT commands, each; the waiting is not counted."""

    def batch() -> float:
        start = time.perf_counter()
        job()
        took = time.perf_counter() - start
        session.synchronize()
        return took / COUNT

    return lambda: min(batch() for _ in range(BATCHES))


def _bare_kernel(session: Any, *given: Any) -> Callable[[], float]:
    """Return what times the same kernel with the same arguments, in a loop of PyOpenCL alone."""
    import pyopencl as cl

    (launch,) = session._launches("add", given, NUMBERS)  # noqa: SLF001 - the same, no less
    kernel = session._kernels.own(launch)  # noqa: SLF001
    items, local = launch.padded, launch.local
    return _bare(session, lambda queue: cl.enqueue_nd_range_kernel(queue, kernel, items, local))


def _bare(session: Any, command: Callable[[Any], Any]) -> Callable[[], float]:
    import pyopencl as cl

    profiled = cl.command_queue_properties.PROFILING_ENABLE  # as a session's queue is
    queue = cl.CommandQueue(session.context, properties=profiled)

    def batch() -> float:
        events = []
        start = time.perf_counter()
        for _ in range(COUNT):
            events.append(command(queue))  # noqa: PERF401 - as users write it
        took = time.perf_counter() - start
        queue.finish()
        return took / COUNT

    return lambda: min(batch() for _ in range(BATCHES))

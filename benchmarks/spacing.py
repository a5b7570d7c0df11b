"""The spacing of queued small copies through a session, beside a bare PyOpenCL loop, in turns.

Both queue BATCH copies of NBYTES from the same host memory to a buffer of PoCL and wait for the
last; the bare loop keeps its events until then, as a session does. Printed is the median ratio of
times, session over loop, with its interval, one number for each pair in alternating order. The
target is TARGET at most.

    python -m benchmarks.issue_interval [PAIRS]
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import asked, turns
from gpumap.backends import load
from gpumap.backends.base import Host
from gpumap.machine.topology import read

if TYPE_CHECKING:
    from collections.abc import Callable

TARGET = 1.1
NBYTES = 400
BATCH = 2000
PAIRS = 40
WARM = 5


def main() -> int:
    """Alternate, print, and return 1 if the ratio is above the target."""
    pairs = asked.number(__doc__, "PAIRS", PAIRS)
    backend = load("pyopencl", Host(dict(os.environ), read()))
    device = next(d for d in backend.probe().devices if d.ref.part is None)
    with backend.open(device, backend.clock()) as session:
        source = session.host((NBYTES,), "uint8", "pageable")
        source[:] = np.arange(NBYTES, dtype=np.uint8)
        ways = through(session, source), bare(session, source)
        for way in ways * WARM:
            way()
        return _print([turns.both(*ways, number) for number in range(pairs)])


def through(session: Any, source: Any) -> Callable[[], float]:
    """Return what times a batch of copies that a session queues."""
    buffer = session.empty((NBYTES,), "uint8")

    def run() -> float:
        start = time.perf_counter()
        session.upload(source, buffer, BATCH)
        session.synchronize()
        return time.perf_counter() - start

    return run


def bare(session: Any, source: Any) -> Callable[[], float]:
    """Return what times a batch of copies in a loop of PyOpenCL alone."""
    import pyopencl as cl

    queue = cl.CommandQueue(session.context)
    buffer = cl.Buffer(session.context, cl.mem_flags.READ_WRITE, NBYTES)

    def run() -> float:
        events = []
        start = time.perf_counter()
        for _ in range(BATCH):
            events.append(cl.enqueue_copy(queue, buffer, source, is_blocking=False))  # noqa: PERF401 - as users write it
        queue.finish()
        events.clear()
        return time.perf_counter() - start

    return run


def _print(pairs: list[tuple[float, float]]) -> int:
    found = turns.ratio(pairs)
    print(f"session over bare loop, {BATCH} copies of {NBYTES} B, {len(pairs)} pairs:")
    print(f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}], target at most {TARGET}")
    return int(found.value > TARGET)


if __name__ == "__main__":
    sys.exit(main())

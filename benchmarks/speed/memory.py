"""What moves many bytes on an OpenCL device, beside NumPy's `copyto` on as many cores."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.speed.contest import Contest, sampled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumap.backends.base import Session

NUMBERS = 64 << 20  # float32: 256 MiB of each array, several times any cache
TARGET = 1.15
_SAMPLE = 0.1  # seconds


def contests(session: Session) -> Iterator[Contest]:
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
            ours = sampled(job, session.synchronize, _SAMPLE)
            theirs = sampled(_copyto(pool, arrays), lambda: None, _SAMPLE)
            amount = 4.0 * NUMBERS * arrays
            peer = f"NumPy copyto, {_cores()} threads, as many bytes"
            yield Contest(what, peer, ours, theirs, least=TARGET, amount=amount, unit="B/s")
            if what == "fill":  # which reads nothing, and is bound by how fast memory is written
                theirs = sampled(_fill(pool), lambda: None, _SAMPLE)
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

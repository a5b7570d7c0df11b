"""What measuring costs: a plain loop of NumPy's products beside gpumap's own measurement of them.

    python -m benchmarks.harness [BLOCKS]

Both run on the same pinned core with BLAS at one thread, in one process, and take turns; the next
block in reverse. The median of plain time over gpumap's time is printed with its interval: 1 is a
measurement that costs nothing. The target is TARGET at least.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np  # before any thread is pinned: OpenBLAS sizes itself now

from benchmarks import asked, turns
from gpumap import stats
from gpumap.backends.base import Clock, Host
from gpumap.backends.numpy import NumpyBackend
from gpumap.bench.dot import DotRound, Pair, Product
from gpumap.bench.sampling import Series, calibrate, sample
from gpumap.machine.numa import pin
from gpumap.machine.topology import read

if TYPE_CHECKING:
    from gpumap.backends.numpy.session import NumpySession

TARGET = 0.97
BLOCKS = 40
SIZE = 1024
_WARM = 5


def main() -> int:
    """Measure, print, and return 1 if the ratio is below the target."""
    blocks = asked.number(__doc__, "BLOCKS", BLOCKS)
    backend, clock = NumpyBackend(Host(os.environ, read())), Clock()
    device = next(d for d in backend.probe().devices if str(d.ref) == "cpu0")
    core = ThreadPoolExecutor(1, initializer=pin, initargs=(device.cores,))
    with core as plain, backend.open(device, clock) as session:
        series = _series(session)
        calibrate(series, clock)
        n = series.iterations_per_sample
        ways = (
            lambda: plain.submit(_plain, n).result(),
            lambda: sample(series, clock).seconds,
        )
        for way in ways * _WARM:
            way()
        return _print([turns.both(*ways, number) for number in range(blocks)], n)


def _series(session: NumpySession) -> Series:
    return Series(DotRound([Product("dev0", session, _pair())], None, fetched=False))


def _pair() -> Pair:
    return Pair((1, 0), SIZE, "float32")


_PAIR = _pair()
_A, _B = (np.concatenate([rows for _, rows in m.blocks()]) for m in (_PAIR.left, _PAIR.right))
_OUT = np.empty(_PAIR.shape, _PAIR.dtype)


def _plain(n: int) -> float:
    """Return the time of one product, as a user would take it."""
    start = time.perf_counter()
    for _ in range(n):
        np.matmul(_A, _B, out=_OUT)
    return (time.perf_counter() - start) / n


def _print(blocks: list[tuple[float, float]], n: int) -> int:
    found = turns.ratio(blocks)
    plain, gpumap = (1e3 * stats.location(t).value for t in zip(*blocks, strict=True))
    print(f"dot {SIZE} float32 on cpu0: plain {plain:.3f} ms, gpumap {gpumap:.3f} ms, {n} a sample")
    print(f"plain / gpumap: {found.value:.4f} [{found.low:.4f}, {found.high:.4f}]  n={len(blocks)}")
    print(f"target: {TARGET} at least; {'met' if found.value >= TARGET else 'missed'}")
    return int(found.value < TARGET)


if __name__ == "__main__":
    sys.exit(main())

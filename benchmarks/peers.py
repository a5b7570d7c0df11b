"""The same NumPy product, timed as gpumap, a bare loop, pyperf and hyperfine do, in one run.

    python -m benchmarks.peers [--rounds 12] [--size 1024] [--seconds 180]

Each round takes every way once, on one core with one BLAS thread, the next round in reverse:

    gpumap     samples of its own session, as `bench dot` takes them
    bare       a loop of np.matmul in a pinned thread
    pyperf     a new process: a warm-up, then three values of LASTING seconds at least
    hyperfine  two commands, of PRODUCTS products and of none: the difference

The others' ways are done here, without the tools: what is asked is what their way of measuring
gives in the same minutes. All is CPU time: of the thread, and of the whole process for hyperfine's.
Printed are the ratios of gpumap's time to each, with intervals, and how long each way measured
until half of the interval of its own median was within PRECISION. It stops after --seconds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy  # noqa: F401 ICN001 - before any thread is pinned: OpenBLAS sizes itself now

from benchmarks import around, turns
from gpumap import stats
from gpumap.backends.base import Clock, Host
from gpumap.backends.numpy import NumpyBackend
from gpumap.bench.base import COMPARABLE
from gpumap.bench.dot import DotRound, Pair, Product
from gpumap.bench.sampling import Series, calibrate, sample
from gpumap.bench.stopping import half_width
from gpumap.machine.numa import pin
from gpumap.machine.topology import read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumap.backends.numpy.session import NumpySession

PRECISION, TARGET = 0.02, 0.03
LASTING = 0.1  # seconds of a value of pyperf's way
PRODUCTS = 20
_OURS = 5  # samples of a round
_SETUP = """
import json, math, sys, time
import numpy as np
g, n = np.random.default_rng(1), {size}
a, b = (g.standard_normal((n, n), dtype=np.float32) for _ in "ab")
o = np.empty((n, n), np.float32)
def value(loops):
    wall, cpu = time.perf_counter(), time.thread_time()
    for _ in range(loops):
        np.matmul(a, b, out=o)
    return time.perf_counter() - wall, (time.thread_time() - cpu) / loops
"""
_PYPERF = """
loops = math.ceil({lasting} / value(1)[0])
value(loops)
print(json.dumps([value(loops)[1] for _ in range(3)]))
"""


class Ways:
    """The four ways; each returns CPU seconds of one product, one number or several."""

    def __init__(self, session: NumpySession, core: ThreadPoolExecutor, size: int) -> None:
        pair = Pair((1, 0), size, "float32")
        self._series = Series(DotRound([Product("dev0", session, pair)], None, fetched=False))
        self._clock, self._core = Clock(), core
        calibrate(self._series, self._clock, COMPARABLE, computes=True)
        self._setup = _SETUP.format(size=size)
        self._bare = {"__name__": "bare"}
        exec(self._setup, self._bare)  # noqa: S102 - the same text as in the other processes

    def gpumap(self) -> list[float]:
        """Return what our samples say."""
        taken = [sample(self._series, self._clock) for _ in range(_OURS)]
        return [one.parts["dev0"].worked or math.nan for one in taken]

    def bare(self) -> list[float]:
        """Return what a plain loop says."""
        value: Any = self._bare["value"]
        return [self._core.submit(value, 1).result()[1] for _ in range(_OURS)]

    def pyperf(self) -> list[float]:
        """Return the values of one process of pyperf's way."""
        script = self._setup + _PYPERF.format(lasting=LASTING)
        done = subprocess.run(
            [sys.executable, "-c", script], env=_env(), stdout=subprocess.PIPE, check=True
        )
        return list(json.loads(done.stdout))

    def hyperfine(self) -> list[float]:
        """Return the difference of two commands."""
        none, some = (self._command(count) for count in (0, PRODUCTS))
        return [(some - none) / PRODUCTS]

    def _command(self, count: int) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        script = f"{self._setup}\nfor _ in range({count}): np.matmul(a, b, out=o)"
        subprocess.run([sys.executable, "-c", script], env=_env(), check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _env() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    return {**kept, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def measured(ways: dict[str, Callable[[], list[float]]], rounds: int, seconds: float) -> Found:
    """Return the medians of each round, and the seconds until each way was known well enough."""
    found: Found = {name: ([], math.inf) for name in ways}
    every: dict[str, list[float]] = {name: [] for name in ways}
    spent, order = dict.fromkeys(ways, 0.0), list(ways)
    end = time.perf_counter() + seconds
    for number in range(rounds):
        if time.perf_counter() > end:
            break
        for name in order:
            start = time.perf_counter()
            values = ways[name]()
            spent[name] += time.perf_counter() - start
            every[name] += values
            place = stats.location(every[name], positive=True)
            known = stats.enough(place.n, 0.95) and half_width(place) <= PRECISION
            medians, until = found[name]
            found[name] = ([*medians, median(values)], min(until, spent[name]) if known else until)
        around.say(f"round {number + 1} of {rounds}")
        order.reverse()
    return found


def main() -> int:
    """Measure, print, and return 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=180.0)
    given = parser.parse_args()
    before, backend = around.state(), NumpyBackend(Host(os.environ, read()))
    device = next(d for d in backend.probe().devices if str(d.ref) == "cpu0")
    os.sched_setaffinity(0, set(device.cores))  # for what is started from here
    core = ThreadPoolExecutor(1, initializer=pin, initargs=(device.cores,))
    with core as plain, backend.open(device, Clock()) as session:
        ways = Ways(session, plain, given.size)
        each = {name: getattr(ways, name) for name in ("gpumap", "bare", "pyperf", "hyperfine")}
        found = measured(each, given.rounds, given.seconds)
    print(f"dot {given.size} float32 on cpu0, CPU time; {around.words(before)}\n")
    return _print(found)


def _print(found: Found) -> int:
    """Print a line for each way; return 1 if gpumap is too far off, or too slow."""
    ours, until = found["gpumap"]
    print(
        f"| way | one product | to ±{PRECISION:.0%} | gpumap over it |\n| --- | --- | --- | --- |"
    )
    off, least = [], math.inf
    for name, (medians, took) in found.items():
        ratio = turns.ratio(zip(ours, medians, strict=True))
        shown = f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"
        time_ = f"{took:.1f} s" if math.isfinite(took) else "not reached"
        print(f"| {name} | {1e3 * median(medians):.2f} ms | {time_} | {shown} |")
        if name in ("pyperf", "hyperfine"):
            off.append(abs(ratio.value - 1.0))
            least = min(least, took)
    good = min(off) <= TARGET and until < least / 2
    print(f"\ntarget: within {TARGET:.0%} of the nearer, in less than half of their time; ", end="")
    print("met" if good else "missed")
    return int(not good)


if TYPE_CHECKING:
    Found = dict[str, tuple[Sequence[float], float]]


if __name__ == "__main__":
    sys.exit(main())

"""What measuring an exchange costs, and what a ring gains over MPI's own, between processes.

    mpirun -n 2 python -m benchmarks.allreduce [--blocks 40] [--bytes 4096,400000]

Three in turns, at each of SIZES: a bare loop of mpi4py's Allreduce, in place; `native` as gpumap
measures it; and its `ring`. Printed are the medians of bare over native, and of native over ring,
with their intervals, and of bare over native also that of rank 0's CPU times, which other programs
change less; every result is verified. Targets: NATIVE at each size, RING at the largest.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import around, contest
from gpumap.backends.base import Clock, Host
from gpumap.backends.numpy import NumpyBackend
from gpumap.bench.exchanges import ITEM, Job
from gpumap.bench.mpi_ranks import ExchangeFactory, Member, MpiRanks
from gpumap.distributed import RankInfo
from gpumap.distributed.transports import load
from gpumap.engine import stats
from gpumap.engine.base import COMPARABLE
from gpumap.engine.sampling import Series, calibrate, sample
from gpumap.machine.process_control import pin, unbind
from gpumap.machine.state import Watch
from gpumap.machine.topology import read

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (4_096, 400_000, 4_000_000, 165_000_000)  # bytes; the last are a network's parameters
NATIVE, RING = 0.97, 2.0
_WARM = 3


@cache
def _ones(length: int) -> Any:
    return np.ones(length, np.float32)


class Bare(Member):
    """A rank that also runs a loop of its own, as a program would."""

    def _bare(self, length: int, iterations: int) -> Any:
        from mpi4py import MPI

        array = _ones(length)
        self.comm.Barrier()
        start = time.perf_counter()
        for _ in range(iterations):
            self.comm.Allreduce(MPI.IN_PLACE, array)
        return self.comm.gather((time.perf_counter() - start) / iterations)


def main() -> int:
    """Lead or follow; rank 0 prints, and returns 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--bytes", type=lambda text: [*map(int, text.split(","))], default=SIZES)
    asked = parser.parse_args()
    comm = load().COMM_WORLD
    unbind()
    backend, clock = NumpyBackend(Host(dict(os.environ), read())), Clock()
    device = backend.probe().devices[1 + comm.Get_rank()]  # the first one is all cores
    member = Bare(comm, lambda: backend.open(device, clock), ExchangeFactory())
    pin(device.cores)
    if comm.Get_rank():
        member.follow()
        return 0
    table = [RankInfo(rank, "core", "here", 0) for rank in range(comm.Get_size())]
    ranks = MpiRanks(member, table, ())
    ranks.open()
    watch = Watch()
    missed = [_measured(ranks, nbytes, asked.blocks, clock) for nbytes in asked.bytes]
    print(around.meanwhile(watch.read()))
    ranks.end()
    return int(any(missed))


def _measured(ranks: MpiRanks, nbytes: int, blocks: int, clock: Clock) -> bool:
    """Measure one size; return whether a target was missed."""
    ranks.begin()
    length = nbytes // ITEM
    series = [_ready(ranks, Job(name, length), clock) for name in ("native", "ring")]
    iterations = series[0].iterations_per_sample

    def bare() -> float:
        return float(max(ranks.call("bare", length, iterations)))

    ways = [bare, *(lambda each=each: sample(each, clock).seconds for each in series)]
    for _ in range(_WARM):
        for way in ways:
            way()
    times, busy = [], []
    for number in range(blocks):
        order = ways if number % 2 else ways[::-1]
        taken = {way: _timed(way) for way in order}
        times.append([taken[way][0] for way in ways])
        busy.append([taken[way][1] for way in ways])
    cpu = contest.ratio((row[0], row[1]) for row in busy)
    native, ring = (
        contest.ratio((row[a], row[b]) for row in times) for a, b in pairwise(range(len(ways)))
    )
    right = all(each.iteration.check().passed for each in series)
    middle = [1e6 * stats.location([row[n] for row in times]).value for n in range(len(ways))]
    verdict = "right" if right else "WRONG"
    print(f"{nbytes} bytes, {blocks} blocks, {iterations} iterations, {verdict}")
    print("  bare {:.1f} us, native {:.1f} us, ring {:.1f} us".format(*middle))
    print(f"  bare / native  {_words(native)}, of CPU time {_words(cpu)}, target {NATIVE}")
    wanted = f", target {RING}" if nbytes == SIZES[-1] else ""
    print(f"  native / ring  {_words(ring)}{wanted}", flush=True)
    few = nbytes == SIZES[-1] and ring.value < RING
    return not right or native.value < NATIVE or few


def _timed(way: Callable[[], float]) -> tuple[float, float]:
    """Return the seconds of an iteration, and this process's CPU time for all of them."""
    start = time.process_time()
    return way(), time.process_time() - start


def _ready(ranks: MpiRanks, job: Job, clock: Clock) -> Series:
    work = ranks.iteration(job)
    work.poison()
    work.queue()
    if not work.check().passed:
        sys.exit(f"{job.algorithm}: a sum is wrong")
    series = Series(work)
    calibrate(series, clock, COMPARABLE)
    return series


def _words(found: Any) -> str:
    return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"


if __name__ == "__main__":
    sys.exit(main())

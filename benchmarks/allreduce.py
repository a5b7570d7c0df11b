"""What measuring an exchange costs, between processes.

    mpirun -n 2 python -m benchmarks.allreduce [--blocks 40] [--bytes 4096,1000000]
    torchrun --nproc-per-node 2 -m benchmarks.allreduce

Two in turns, at each of SIZES: a bare loop of the engine's own allreduce, in place, and `native` as
gpumap measures it, over the engine of the launcher. Printed is the median of native over bare, with
its interval, and that of rank 0's CPU times, which other programs change less; every result is
verified. The target is NATIVE.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import around, contest
from gpumap.app.engines import join
from gpumap.app.program import Program, several
from gpumap.backends.base import Clock, Host
from gpumap.backends.numpy import NumpyBackend
from gpumap.bench.exchanges import ITEM, Exchanging, Job
from gpumap.bench.process_ranks import Member, ProcessRanks, RankExchange
from gpumap.comm.engines import engine_of
from gpumap.engine import stats
from gpumap.engine.sampling import Series, calibrate, sample
from gpumap.machine.process_control import pin
from gpumap.machine.state import Watch
from gpumap.machine.topology import read
from gpumap.model import Rank

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (4_096, 1_000_000, 64_000_000)  # bytes
NATIVE = 1.03
_WARM = 3
_LIMIT = 600.0  # seconds


@cache
def _ones(length: int) -> Any:
    return np.ones(length, np.float32)


class Bare(Member):
    """A rank that also runs a loop of its own, as a program would."""

    def bare(self, length: int, iterations: int) -> float:
        """Return the seconds of an iteration."""
        array = _ones(length)
        loop = _mpi_loop if self.comm.name == "mpi" else _torch_loop
        self.comm.barrier()
        return loop(array, iterations)


def _mpi_loop(array: Any, iterations: int) -> float:
    from mpi4py import MPI

    start = time.perf_counter()
    for _ in range(iterations):
        MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, array)
    return (time.perf_counter() - start) / iterations


def _torch_loop(array: Any, iterations: int) -> float:
    import torch

    tensor = torch.from_numpy(array)
    start = time.perf_counter()
    for _ in range(iterations):
        torch.distributed.all_reduce(tensor)
    return (time.perf_counter() - start) / iterations


def main() -> int:
    """Lead or follow; rank 0 prints, and returns 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--bytes", type=lambda text: [*map(int, text.split(","))], default=SIZES)
    asked = parser.parse_args()
    env, here = dict(os.environ), str(Path.cwd())
    program = Program(("bench", "allreduce"), env, here, sys.stdout, sys.stderr)
    comm = join(program, _LIMIT, engine_of(several(program), program.env))
    backend, clock = NumpyBackend(Host(env, read())), Clock()
    device = backend.probe().devices[1 + comm.rank]  # the first one is all cores
    member = Bare(comm, lambda: backend.open(device, clock), RankExchange)
    pin(device.cores)
    if comm.rank:
        member.follow()
        comm.close()
        return 0
    table = [Rank(rank, rank, "here", 0, None) for rank in range(comm.size)]
    ranks = ProcessRanks(member, table, ())
    ranks.open()
    watch = Watch()
    print(f"{comm.size} ranks, {comm.name}")
    missed = [_measured(ranks, nbytes, asked.blocks, clock) for nbytes in asked.bytes]
    print(around.meanwhile(watch.read()))
    ranks.end()
    comm.close()
    return int(any(missed))


def _measured(ranks: ProcessRanks, nbytes: int, blocks: int, clock: Clock) -> bool:
    """Measure one size; return whether a target was missed."""
    ranks.begin()
    length = nbytes // ITEM
    series = _ready(ranks, Job("native", length), clock)
    iterations = series.iterations_per_sample

    def bare() -> float:
        return float(max(seconds for _, seconds in ranks.call("bare", 0, length, iterations)))

    ways = [lambda: sample(series, clock).seconds, bare]
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
    native = contest.ratio((row[0], row[1]) for row in times)
    right = series.iteration.check().passed
    middle = [1e6 * stats.location([row[n] for row in times]).value for n in range(len(ways))]
    verdict = "right" if right else "WRONG"
    print(f"{nbytes} bytes, {blocks} blocks, {iterations} iterations, {verdict}")
    print("  native {:.1f} us, bare {:.1f} us".format(*middle))
    print(
        f"  native / bare  {_words(native)}, of CPU time {_words(cpu)}, target {NATIVE}", flush=True
    )
    return not right or native.value > NATIVE


def _timed(way: Callable[[], float]) -> tuple[float, float]:
    """Return the seconds of an iteration, and this process's CPU time for all of them."""
    start = time.process_time()
    return way(), time.process_time() - start


def _ready(ranks: ProcessRanks, job: Job, clock: Clock) -> Series:
    work = Exchanging(ranks, job)
    work.poison()
    work.queue()
    if not work.check().passed:
        sys.exit(f"{job.algorithm}: a sum is wrong")
    series = Series(work)
    calibrate(series, clock, ranks.shortest)
    return series


def _words(found: Any) -> str:
    return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"


if __name__ == "__main__":
    sys.exit(main())

"""What each rank does in the tests of MPI: every algorithm, compared with the exact sum."""

import sys
from types import SimpleNamespace

import numpy as np

from gpumap.bench.exchanges import Job
from gpumap.bench.process_ranks import ExchangeFactory
from gpumap.comm.algorithms import ALGORITHMS
from gpumap.comm.base import exchange
from gpumap.comm.mpi import Mpi, load

LENGTHS = (0, 1, 7, 4096, 100_003, 1_000_000)
comm = Mpi(load().COMM_WORLD)
rank, ranks = comm.rank, comm.size
checked = 0


def crafted(of):
    return ((1 << of) * (1 + np.arange(length) % 1000)).astype(np.float32)


def exchanges(array):
    for name in ("native", *ALGORITHMS):
        yield exchange(name, comm, array)


for length in LENGTHS:
    array = np.empty(length, np.float32)
    for each in exchanges(array):
        array[:] = crafted(rank)
        each()
        np.testing.assert_array_equal(array, sum(map(crafted, range(ranks))))
        each()  # scratch and requests are used again
        np.testing.assert_array_equal(array, ranks * sum(map(crafted, range(ranks))))
        checked += 1

for name in ("native", *ALGORITHMS):  # as `bench allreduce` does it, again and again
    core = SimpleNamespace(device=SimpleNamespace(backend="numpy"))
    work = ExchangeFactory().make(Job(name, 100), comm, core)
    work.run(5)
    for _ in range(4):
        work.poison()
        work.run(1)
        assert work.check().passed, name
    work.run(1)
    assert work.check().passed == (ranks == 1), name

sys.stdout.write(f"rank {rank} of {ranks}: {checked} exchanges\n")

"""What each rank does in the tests of MPI: every operation and algorithm, compared with MPI's."""

import sys
from types import SimpleNamespace

import numpy as np

from gpumap.bench import mpi_ranks
from gpumap.bench.exchanges import Job
from gpumap.distributed.algorithms import ALGORITHMS, balanced, schedule, slices
from gpumap.distributed.transports import MpiExchange, NativeExchange, load, mpi_exchange

LENGTHS = (0, 1, 7, 4096, 100_003, 1_000_000)
comm = load().COMM_WORLD
rank, ranks = comm.Get_rank(), comm.Get_size()
checked = 0


def crafted(of):
    return ((1 << of) * (1 + np.arange(length) % 1000)).astype(np.float32)


def exchanges(array):
    yield NativeExchange(comm, array)
    for name in ALGORITHMS:
        for segment in (None, max(1000, len(array) // 16)):
            yield MpiExchange(schedule(name, ranks, len(array), segment), comm, array)


for length in LENGTHS:
    array = np.empty(length, np.float32)
    for each in exchanges(array):
        array[:] = crafted(rank)
        each.run()
        np.testing.assert_array_equal(array, sum(map(crafted, range(ranks))))
        each.run()  # scratch and requests are used again
        np.testing.assert_array_equal(array, ranks * sum(map(crafted, range(ranks))))
        other = crafted(rank + 1)
        each.at(other).run()  # with the scratch of this one
        np.testing.assert_array_equal(other, sum(map(crafted, range(1, ranks + 1))))
        checked += 1

for length in LENGTHS:  # what MPI's own calls give, out of place
    given, counts = crafted(rank), list(balanced(length, ranks))
    own = slice(*slices(length, ranks)[rank])
    part, whole = np.empty(counts[rank], np.float32), np.empty(length, np.float32)
    comm.Reduce_scatter(given, part, counts)
    comm.Allgatherv(given[own], (whole, counts))
    for name in ("native", "host", "ring", "alltoall"):
        array = given.copy()
        mpi_exchange(name, comm, array, operation="reduce-scatter").run()
        np.testing.assert_array_equal(array[: part.size] if name == "native" else array[own], part)
        array = np.full(length, np.nan, np.float32)
        array[own] = given[own]
        mpi_exchange(name, comm, array, operation="all-gather").run()
        np.testing.assert_array_equal(array, whole)
        checked += 2

for length in LENGTHS:  # rounded on the wire, in whatever order: near the sum, the same bits on all
    for name in ALGORITHMS:
        array = np.random.default_rng(rank).standard_normal(length).astype(np.float32)
        exact = comm.allreduce(array.astype(np.float64))
        MpiExchange(schedule(name, ranks, length, 1000), comm, array, "float16").run()
        np.testing.assert_allclose(array, exact, atol=2**-8 * ranks)
        assert len({*comm.allgather(array.tobytes())}) == 1, name

mpi_ranks.pooled = lambda _: 3
for name in ("native", *ALGORITHMS):  # cold buffers, in turn: each as often as any other
    makes, job = mpi_ranks.ExchangeFactory(), Job(name, 100, cold=True)
    work = makes.make(job, comm, SimpleNamespace(device=SimpleNamespace(backend="numpy")))
    work.run(5)
    (pool,) = makes._pools.values()
    assert [{*array} for array in pool] == [{ranks**2}, {ranks**2}, {ranks}], pool
    for _ in range(4):
        work.poison()
        work.run(1)
        assert work.check().passed, name

sys.stdout.write(f"rank {rank} of {ranks}: {checked} exchanges\n")

"""What each rank does in the tests of an engine: every algorithm, compared with the exact sum."""

import hashlib
import os
import sys
import time
from types import SimpleNamespace

import numpy as np

from gpumap.bench.exchanges import Job
from gpumap.bench.process_ranks import ExchangeFactory
from gpumap.comm.algorithms import ALGORITHMS
from gpumap.comm.base import exchange

LENGTHS = (0, 1, 7, 4096, 100_003, 1_000_000)
LIMIT = 60.0  # seconds


def engine(name):
    if name == "mpi":
        from gpumap.comm.mpi import Mpi, load

        return Mpi(load().COMM_WORLD)
    from gpumap.comm.torch import Torch

    return Torch(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), LIMIT)


comm = engine(sys.argv[1])
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

# sums that are rounded, in whatever order: every rank has the same bits
array = np.random.default_rng(rank).standard_normal(10_007).astype(np.float32)
comm.allreduce(array)()
digests = comm.gather(hashlib.sha256(array.tobytes()).hexdigest())
assert digests is None or len(set(digests)) == 1, digests

# objects: one for a rank each, while others are broadcast
comm.send(("to", (rank + 1) % ranks), (rank + 1) % ranks)
for what in ("first", "x" * 5000, "last"):
    assert comm.broadcast(what if rank == 0 else None) == what
while not comm.waiting():
    pass
assert comm.receive() == ("to", rank)
comm.barrier()
assert not comm.waiting()

# heartbeats: of who has sent one since
beats = comm.beats()
if rank:
    beats.beat()
comm.barrier()
if not rank:
    end = time.monotonic() + LIMIT
    left = set(range(1, ranks))
    while left and time.monotonic() < end:
        left = {each for each in left if not beats.heard(each)}
    assert not left
    assert not any(beats.heard(each) for each in range(1, ranks))
comm.barrier()
beats.close()
sums = digests[0] if digests else "-"
sys.stdout.write(f"rank {rank} of {ranks}: {checked} exchanges {sums}\n")
sys.stdout.flush()
comm.close()

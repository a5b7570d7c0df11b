"""What each rank does in the tests of an engine: every algorithm, and what all engines must do."""

import os
import sys

import numpy as np
import rank_checks

from gpumap.backends import load as backend
from gpumap.backends.base import Clock, Host
from gpumap.bench.exchanges import Job
from gpumap.bench.process_ranks import RankExchange
from gpumap.bench.train_workers import TrainingMaker
from gpumap.comm.algorithms import STEPS
from gpumap.comm.base import exchange
from gpumap.machine import topology
from gpumap.training.jobs import Params, Scaling, Spec
from gpumap.training.network import Layer, Network
from gpumap.training.rules import RuleSpec

LENGTHS = (0, 1, 7, 4096, 100_003, 1_000_000)
NET = Network("small", 8, (Layer(16, "tanh"), Layer(1, "sigmoid")))


def engine(name):
    if name == "mpi":
        from gpumap.comm.mpi import Mpi, load

        return Mpi(load().COMM_WORLD)
    from gpumap.comm.torch import Torch

    return Torch(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), 60.0)


def device():
    numpy = backend("numpy", Host(dict(os.environ), topology.read()))
    cores = [device for device in numpy.probe().devices if device.ref.index is not None]
    return numpy.open(cores[rank % len(cores)], numpy.clock())


comm = engine(sys.argv[1])
rank, ranks = comm.rank, comm.size
checked = 0


def crafted(of):
    return ((1 << of) * (1 + np.arange(length) % 1000)).astype(np.float32)


def exchanges(array):
    for name in ("native", *STEPS):
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

with device() as session:
    for name in ("native", *STEPS):  # as `bench allreduce` does it, again and again
        work = RankExchange(Job(name, 100), comm, session)
        work.run(5)
        for _ in range(4):
            work.poison()
            work.run(1)
            assert work.check().passed, name
        work.run(1)
        assert work.check().passed == (ranks == 1), name

with device() as session:
    # as `bench train` lets the first rank, the first two, and so on train by what rank 0 serves;
    # a group is made by all ranks, and these are the first ones
    rules = tuple(RuleSpec(name) for name in ("easgd", "gosgd"))
    params = Params(NET, rules, Scaling("weak", 24), optimizer="sgd", rate=0.1)
    maker = TrainingMaker(params, Clock())
    for count in range(1, ranks + 1):
        for rule in ("easgd", "gosgd"):
            names = tuple("abc"[:count])
            work = maker(Spec(rule, names, whole=True, all=ranks), comm, session)
            comm.barrier()
            assert (work is None) == (rank >= count)
            if work is not None:
                work.poison()
                work.run(12)
                assert work.check()[0].passed
            comm.barrier()

said = []
with device() as session:
    for name in rank_checks.CHECKS:
        if name == "batch" and ranks == 3:
            continue  # a third is no binary fraction
        said.append(rank_checks.check(name, comm, session))
    # the first ranks alone, while the others do nothing
    part = comm.part(min(ranks, 2))
    if rank < 2:
        assert (part.rank, part.size) == (rank, min(ranks, 2))
        for name in ("objects", "sums"):
            rank_checks.check(name, part, session)
digests = comm.gather(said)
sys.stdout.write(f"rank {rank} of {ranks}: {checked} exchanges {rank_checks.digest(digests)}\n")
sys.stdout.flush()
comm.close()

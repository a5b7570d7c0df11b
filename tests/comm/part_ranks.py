"""What each rank of torch.distributed does: trainings of the first rank, of the first two ..."""

import os
import sys

from gpumap.backends import load as backend
from gpumap.backends.base import Clock, Host
from gpumap.bench.train_workers import TrainingMaker
from gpumap.comm.torch import Torch
from gpumap.machine import topology
from gpumap.training.jobs import Params, Scaling, Spec
from gpumap.training.network import Layer, Network
from gpumap.training.rules import RuleSpec

LIMIT = 60.0  # seconds
NET = Network("small", 8, (Layer(16, "tanh"), Layer(1, "sigmoid")))
STEPS = 12  # of all ranks


comm = Torch(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), LIMIT)
numpy = backend("numpy", Host(dict(os.environ), topology.read()))
device = next(one for one in numpy.probe().devices if one.ref.index == 0)
session = numpy.open(device, numpy.clock())
rules = tuple(RuleSpec(name) for name in ("easgd", "gosgd"))
params = Params(NET, rules, Scaling("weak", 24), optimizer="sgd", rate=0.1)
maker, trained = TrainingMaker(params, Clock(), {}), 0
for count in range(1, comm.size + 1):
    for rule in ("easgd", "gosgd"):
        names = tuple("abc"[:count])
        work = maker(Spec(rule, names, whole=True, all=comm.size), comm, session)
        comm.barrier()
        if work is not None:
            work.poison()
            work.run(STEPS)
            trained += work.check()[0].passed
        comm.barrier()
sys.stdout.write(f"rank {comm.rank} of {comm.size}: {trained} trainings\n")
sys.stdout.flush()
comm.close()

"""What each rank does in the tests of asynchronous training: exchange and conserve.

asynchronous_ranks.py conserve RULE   nothing is learned, and ranks begin with other parameters
asynchronous_ranks.py wait RULE S     a rank waits S seconds to be killed, or stopped and continued
"""

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from gpumap.backends import load as backend
from gpumap.backends.base import Host
from gpumap.comm.mpi import load
from gpumap.machine import topology
from gpumap.training.jobs import Params, Scaling, Spec, job_of
from gpumap.training.mpi_workers import RankTraining
from gpumap.training.network import Layer, Network
from gpumap.training.worker_groups import RuleSpec

NET = Network("line", 8, (Layer(1, "sigmoid"),))
EACH = 16
mode, rule, *seconds = sys.argv[1:]
comm = load().COMM_WORLD
rank, ranks = comm.Get_rank(), comm.Get_size()


def training(session):
    chosen = RuleSpec(rule, tau=2, chance=0.25)
    params = Params((NET,), (chosen,), Scaling("weak", EACH), "sgd", 1e-30, linear=True, seed=1)
    job = job_of(params, Spec("line", rule, tuple("abcdefgh"[:ranks]), whole=True))
    job = replace(job, config=replace(job.config, data=NET.data(2048, 1)))
    return RankTraining(job, comm.Dup(), job.worker("a", session))


def conserve(session):
    """The sum of all parameters, by weight, is before and after; ranks take uneven steps.

    However busy the machine is: rank 0 waits until each rank has begun, and then each rank until
    rank 0 has taken three times as many steps, or has no more.
    """
    own = training(session)
    own.poison()
    given = np.random.default_rng(rank).integers(-(2**10), 2**10, NET.parameters)
    own._worker.model.put(given.astype(np.float32))
    own._worker.session.synchronize()
    own._asynchronous.begin()
    taken, take, request = [], own._step_at, own._asynchronous._request_steps
    where = Path(os.environ["TMPDIR"]) / comm.bcast(f"steps-{os.getpid()}")
    if rank == 0:
        where.write_bytes(bytes(8 * ranks))
    comm.Barrier()
    counts = np.memmap(where, np.int64, "r+")

    def slowly(first):
        time.sleep(0.004 * rank)
        taken.append(first)
        counts[rank] = len(taken)
        while not counts.all() if rank == 0 else 0 <= counts[0] < 3 * len(taken):
            time.sleep(0.001)
        take(first)

    def requested(steps):
        found = request(steps)
        if rank == 0:
            counts[0] = len(taken) if found[1] else -1
        return found

    own._step_at, own._asynchronous._request_steps = slowly, requested
    weighted = 1.0 if rule == "easgd" else 1 / ranks
    before = comm.allreduce(given * weighted)
    if rank == 0 and rule == "easgd":
        before = before + given
    before = comm.bcast(before)
    for _ in range(2):
        own.record()
        own.run(100)
        if rank == 0:
            counts[0] = len(taken)  # before any rank begins again
        weights = own._group.weights.read().astype(np.float64)
        now = comm.allreduce(weights * (1.0 if rule == "easgd" else own._asynchronous.weight))
        if rule == "easgd":
            now = now + comm.bcast(own._asynchronous.center)
        assert abs(now - before).max() <= 1e-4 * 2**10, (now, before)
        assert abs(comm.allreduce(own._asynchronous.weight) - 1.0) < 1e-12
    firsts = sorted(each for every in comm.allgather(taken) for each in every)
    assert firsts == list(range(0, 200 * ranks * EACH, EACH))  # every example once
    steps, account = comm.gather(len(taken)), own.phases()[1]
    exchanges, under_way = comm.reduce(account.exchanges), comm.reduce(account.under_way)
    return f"{steps} steps, {exchanges} exchanges, {under_way} under way" if rank == 0 else ""


def wait(session):
    """A rank says who it is in the midst of a training, and waits there."""
    own = training(session)
    own.poison()
    take, continued = own._step_at, []
    signal.signal(signal.SIGCONT, lambda *_: continued.append(True))
    there = Path(os.environ["TMPDIR"]) / comm.bcast(f"there-{os.getpid()}")

    def slowly(first):
        steps = own._asynchronous._steps
        while rank < ranks - 1 and steps == 20 and not there.exists():
            time.sleep(0.01)  # however late it comes to its steps: they would take them all
        if rank == ranks - 1 and steps == 3:
            there.touch()
            sys.stdout.write(f"process {os.getpid()}\n")
            sys.stdout.flush()
            end = time.monotonic() + float(*seconds)
            while not continued and time.monotonic() < end:
                time.sleep(0.01)
        take(first)

    own._step_at = slowly
    began = time.monotonic()
    own.run(50)
    return f"ended after {time.monotonic() - began:.2f} s" if rank == 0 else ""


numpy = backend("numpy", Host(dict(os.environ), topology.read()))
devices = [device for device in numpy.probe().devices if device.ref.index is not None]
with numpy.open(devices[rank % len(devices)], numpy.clock()) as session:
    said = {"conserve": conserve, "wait": wait}[mode](session)
if rank == 0:
    sys.stdout.write(f"{said}\n")

"""What each rank does in the tests of asynchronous training: learn, or exchange and conserve.

asynchronous_ranks.py learn RULE      losses of ten seeds over that of one worker
asynchronous_ranks.py conserve RULE   nothing is learned, and ranks begin with other parameters
asynchronous_ranks.py wait RULE       as `conserve`; a rank waits to be stopped or killed
"""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from gpumap.backends import load as backend
from gpumap.backends.base import Host
from gpumap.distributed.transports import load
from gpumap.machine import topology
from gpumap.training.jobs import Params, Scaling, Spec, job_of
from gpumap.training.mpi_workers import RankTraining
from gpumap.training.network import Layer, Network
from gpumap.training.steps import held_out
from gpumap.training.workers import RuleSpec

NET = Network("line", 8, (Layer(1, "sigmoid"),))
COUNT, EPOCHS, EACH, RATE = 2048, 4, 16, 0.05
mode, rule = sys.argv[1:3]
comm = load().COMM_WORLD
rank, ranks = comm.Get_rank(), comm.Get_size()


def training(session, workers, seed, rate):
    names = tuple("abcdefgh"[:workers])
    chosen = RuleSpec(rule, tau=2, chance=0.02 if mode == "learn" else 0.25)
    params = Params((NET,), (chosen,), Scaling("weak", EACH), "sgd", rate, linear=True, seed=seed)
    job = job_of(params, Spec("line", rule, names, whole=True))
    job = replace(job, config=replace(job.config, data=NET.data(COUNT, seed)))
    part = comm.Split(0 if rank < workers else 1, rank)
    return RankTraining(job, part, job.worker("a", session) if rank < workers else None), job


def paced(own, seconds, taken=None):
    take = own._step_at

    def slowly(first):
        time.sleep(seconds)
        if taken is not None:
            taken.append(first)
        take(first)

    own._step_at = slowly


def learned(session, workers, seed, rate):
    own, job = training(session, workers, seed, rate)
    if workers > 1:
        paced(own, 0.006)  # on two cores four ranks are not alike
    own.poison()
    own.run(EPOCHS * COUNT // (EACH * workers))
    found = own.parameters()
    return None if found is None else held_out(job.config, found)


def learn(session):
    """A center takes as much part as a worker: the rate is that of one worker more."""
    more = (ranks + 1) / ranks if rule == "easgd" and ranks > 1 else 1.0
    ratios = []
    for seed in range(10):
        several, one = (learned(session, n, seed, r) for n, r in ((ranks, RATE * more), (1, RATE)))
        ratios.append((several or 1.0) / (one or 1.0))
    return f"ratio {median(ratios):.5f}"


def conserve(session):
    """The sum of all parameters, by weight, is before and after; ranks take uneven steps."""
    own, _ = training(session, ranks, 1, 1e-30)
    own.poison()
    given = np.random.default_rng(rank).integers(-(2**10), 2**10, NET.parameters)
    own._worker.model.put(given.astype(np.float32))
    own._worker.session.synchronize()
    own._asynchronous.begin()
    taken = []
    paced(own, 0.004 * rank, taken)
    weighted = 1.0 if rule == "easgd" else 1 / ranks
    before = comm.allreduce(given * weighted)
    if rank == 0 and rule == "easgd":
        before = before + given
    before = comm.bcast(before)
    for _ in range(2):
        own.record()
        own.run(100)
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
    """A rank says who it is in the midst of a training, and sleeps there."""
    own, _ = training(session, ranks, 1, 1e-30)
    own.poison()
    take = own._step_at
    there = Path(os.environ["TMPDIR"]) / comm.bcast(f"there-{os.getpid()}")

    def slowly(first):
        steps, last = own._asynchronous._steps, time.monotonic() + 20.0
        while rank < ranks - 1 and steps == 20 and not there.exists() and time.monotonic() < last:
            time.sleep(0.01)  # four ranks on two cores: it may come to its steps late
        if rank == ranks - 1 and steps == 3:
            there.touch()
            sys.stdout.write(f"process {os.getpid()}\n")
            sys.stdout.flush()
            time.sleep(1.0)
        take(first)

    own._step_at = slowly
    began = time.monotonic()
    own.run(50)
    return f"ended after {time.monotonic() - began:.2f} s" if rank == 0 else ""


numpy = backend("numpy", Host(dict(os.environ), topology.read()))
devices = [device for device in numpy.probe().devices if device.ref.index is not None]
with numpy.open(devices[rank % len(devices)], numpy.clock()) as session:
    said = {"learn": learn, "conserve": conserve, "wait": wait}[mode](session)
if rank == 0:
    sys.stdout.write(f"{said}\n")

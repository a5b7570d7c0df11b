"""What ranks must do, whatever carries between them: threads, MPI or torch.distributed.

Each check is called by every rank at once, with all ranks as one of them sees them. Ranks of
processes are started by `engine_ranks.py`.
"""

import hashlib
import time
from dataclasses import replace

import numpy as np

from gpumap.backends.base import Clock
from gpumap.errors import QuestionError
from gpumap.training.jobs import Params, Scaling, Spec, job_of
from gpumap.training.network import Layer, Network
from gpumap.training.ranks import RankTraining
from gpumap.training.rules import RuleSpec
from gpumap.training.steps import Worker
from gpumap.training.tasks import UserNetwork

NET = Network("line", 8, (Layer(1, "sigmoid"),))
EACH, STEPS, LIMIT = 16, 40, 60.0
CHECKS = ("objects", "sums", "served", "easgd", "gosgd", "batch", "failing")


class Exact:
    """Parameters that go to the mean of the examples, by numbers that need no rounding."""

    def __init__(self):
        self.parameters = [np.zeros((2, 3), np.float32), np.zeros(5, np.float32)]

    def batch(self, numbers):
        if getattr(self, "fails", False):
            raise ValueError("no such file")
        x = np.random.default_rng(5).integers(-8, 8, (1 << 12, 11)).astype(np.float32)
        return x[numbers % len(x)], numbers

    def gradients(self, x, y, share):  # noqa: ARG002 - a network's
        flat = np.concatenate([each.reshape(-1) for each in self.parameters])
        gradient = np.float32(share) * (flat - x).sum(axis=0)
        return [gradient[:6].reshape(2, 3), gradient[6:]]


EXACT = "rank_checks:Exact"


def training(comm, session, rule, network=NET, rate=1e-30, each=EACH):
    """Return this rank's part of a training, in which nothing is learned."""
    params = Params(network, (rule,), Scaling("weak", each), "sgd", rate, seed=1)
    job = job_of(params, Spec(rule.name, tuple("abcdefgh"[: comm.size]), whole=True))
    job = replace(job, data=network.data(2048, 1))
    return RankTraining(job, comm, Worker("a", session, job), Clock(), "a")


def total(comm, array):
    return sum(np.asarray(each, np.float64) for each in comm.gather(array))


def objects(comm, session):
    """Objects come in the order in which they were sent, each with its array; others meet aside."""
    del session
    to = (comm.rank + 1) % comm.size
    if comm.size > 1:
        array = np.arange(1000, dtype=np.float32) + comm.rank
        comm.send(("first", comm.rank), to)
        comm.send(("second", comm.rank), to, array)
    for what in ("one", "x" * 5000, np.arange(3)):
        assert np.array_equal(comm.broadcast(what if comm.rank == 0 else None), what)
    every = comm.gather(comm.rank)
    assert every == [*range(comm.size)]
    if comm.size > 1:
        end = time.monotonic() + LIMIT
        while not comm.waiting():
            assert time.monotonic() < end
        before = (comm.rank - 1) % comm.size
        assert comm.receive() == (("first", before), None)
        what, given = comm.receive()
        assert what == ("second", before)
        assert np.array_equal(given, np.arange(1000) + before)
        comm.barrier()
        while comm.sending():
            assert time.monotonic() < end
    assert not comm.waiting()
    return "ok"


def sums(comm, session):
    """Every rank has the same bits, in whatever order was rounded; of buffers, too."""
    array = np.random.default_rng(comm.rank).standard_normal(10_007).astype(np.float32)
    buffer = session.empty(array.shape, "float32")
    session.upload(array, buffer)
    comm.meet(session, session.mark, comm.summing("ring", buffer))
    summed = np.empty_like(array)
    session.download(buffer, summed)
    session.synchronize()
    comm.allreduce(array)()
    assert abs(summed - array).max() <= 1e-5
    assert len({each.tobytes() for each in comm.gather(summed)}) == 1
    assert len({each.tobytes() for each in comm.gather(array)}) == 1
    return hashlib.sha256(array.tobytes()).hexdigest()


class Counter:
    """What rank 0 serves: it adds up what ranks send, and adds 1 to arrays."""

    def __init__(self):
        self.sums, self.inside = {}, False

    def answer(self, rank, number, array):
        if array is not None:
            return self.change(array)
        self.sums[rank] = self.sums.get(rank, 0) + number
        return self.sums[rank], 30 if self.sums[rank] < 60 else 0

    def change(self, array):
        assert not self.inside
        self.inside = True
        array += 1
        time.sleep(0.001)
        self.inside = False
        return 0, 0


def served(comm, session):
    """Each is answered for itself, and arrays come back changed; one rank is served at a time."""
    del session
    counter, array = Counter(), np.zeros(5000, np.float32)
    with comm.serve(counter.answer) as ask:
        for times in range(1, 20):
            assert ask(3) == (3 * times, 30)
            ask(0, array)
            assert (array == times).all()
        assert ask(3) == (60, 0)
    comm.barrier()
    if comm.rank == 0:
        assert counter.sums == dict.fromkeys(range(comm.size), 60)
    return "ok"


def conserved(comm, session, name):
    """A rule loses nothing of parameters that it moves, and no step, where ranks are uneven."""
    rule = RuleSpec(name, tau=2, chance=0.5)
    own = training(comm, session, rule)
    own.poison()
    given = np.random.default_rng(comm.rank).integers(-1024, 1024, NET.parameters)
    own._worker.model.put(given.astype(np.float32))
    session.synchronize()
    own._rule.begin()
    taken, take = [], own._compute

    def slowly(first):
        taken.append(first)
        time.sleep(0.0005 * comm.rank)
        take(first)

    own._compute = slowly
    weight = 1.0 if name == "easgd" else 1.0 / comm.size
    before = total(comm, given * weight)
    if own._rule.server.center is not None:
        before = before + given
    before = comm.broadcast(before)
    for _ in range(2):
        own.run(STEPS, anew=True)
        mine = np.float64(getattr(own._rule, "weight", 1.0))  # one rank has none
        now = own.read() * mine
        now = total(comm, now)
        if own._rule.server.center is not None:
            now = now + own._rule.server.center
        assert abs(comm.broadcast(now) - before).max() <= 1e-4 * 1024 * comm.size
        if name == "gosgd":
            assert abs(total(comm, mine) - 1.0) < 1e-12
    firsts = sorted(each for every in comm.gather(taken) for each in every)
    assert firsts == [*range(0, 2 * STEPS * comm.size * EACH, EACH)]
    assert comm.size == 1 or own.read().tobytes() != given.astype(np.float32).tobytes()
    return "ok"


def batch(comm, session):
    """By bsp ranks have the bits of one worker with as many times the batch."""
    network = UserNetwork(EXACT)
    own = training(comm, session, RuleSpec("bsp"), network, rate=0.25, each=4)
    own.poison()
    own.run(4)
    found = own.read().copy()
    assert len({np.asarray(each).tobytes() for each in comm.gather(found)}) == 1
    check, digest = own.check()
    assert check.passed
    assert len({*comm.gather(digest)}) == 1
    parameters = np.zeros(11, np.float32)
    data = network.data(2048, 1)
    for step in range(4):
        size = 4 * comm.size
        x, _ = data.batch(data.numbers(step * size, (step + 1) * size))
        parameters -= np.float32(0.25) * (parameters - x).mean(axis=0)
    assert found.tobytes() == parameters.tobytes()
    return "ok"


def failing(comm, session):
    """What fails in a user's code on one rank is raised there, when no other one waits for it."""
    network, last = UserNetwork(EXACT), comm.size - 1
    for rule in ("bsp", "easgd", "gosgd"):
        own = training(comm, session, RuleSpec(rule), network, each=4)
        own.poison()
        network._first.fails = comm.rank == last
        own.run(3)
        network._first.fails &= rule != "bsp"  # by which each takes a step: what failed is kept
        try:
            said = own.check() and ""
        except QuestionError as error:
            said = str(error)
        every = comm.gather(said)
        assert every == [*[""] * last, f"{EXACT} batch failed: ValueError: no such file"]
    return "ok"


def check(name, comm, session):
    if name in ("easgd", "gosgd"):
        return conserved(comm, session, name)
    return globals()[name](comm, session)


def digest(said):
    """Return a digest of what all ranks have said: the same whatever carries between them."""
    return hashlib.sha256(repr(said).encode()).hexdigest()

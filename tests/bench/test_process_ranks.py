"""What rank 0 tells the others, as far as it shows without MPI: a scripted communicator."""

import pytest
from worlds import gpu, world

from gpumap.bench import process_ranks
from gpumap.bench.exchanges import Exchanging, Job
from gpumap.bench.process_ranks import Member, ProcessRanks, RankExchange
from gpumap.comm.base import ProcessComm
from gpumap.errors import AbsentError, DeviceError, DeviceLost
from gpumap.model import Rank


class _Alone(ProcessComm):
    def __init__(self):
        self.sent = []
        self.rank, self.size, self.failures = 0, 1, (RuntimeError,)
        self.name, self.in_place, self.barrier = "mpi", lambda _: False, lambda: None
        self.gather = lambda answer: [answer]

    def broadcast(self, command):
        self.sent.append(command)
        return command


def lead(opener=None):
    comm, session = _Alone(), world(gpu(0)).sessions["a"]
    member = Member(comm, opener or (lambda: session), RankExchange)
    return ProcessRanks(member, [Rank(0, 0, "x", 100, None)], ["a"]), comm, session


def test_an_engine_that_fails_ends_the_run(monkeypatch):
    """In words, not in a traceback of the engine's; the watchdog has had time to name the rank."""
    ranks, comm, _ = lead()
    ranks.open()
    waited = []
    monkeypatch.setattr(process_ranks.time, "sleep", waited.append)

    def closed(_):
        raise RuntimeError("Connection closed by peer [127.0.0.1]:1234\nat gloo/pair.cc:1")

    comm.gather = closed
    with pytest.raises(AbsentError) as failed:
        ranks.call("make", 0, 1, Job("ring", 10))
    said = "an exchange with the other ranks failed: Connection closed by peer [127.0.0.1]:1234"
    assert (str(failed.value), waited, ranks.busy) == (said, [1.0], True)


def lost(*_):
    raise DeviceLost("gone")


def test_a_device_that_cannot_be_opened_is_named_by_its_rank():
    """So is one without room for its buffers."""
    with pytest.raises(DeviceError) as opened:
        lead(lost)[0].open()
    ranks, _, session = lead()
    ranks.open()
    session.empty = lost
    with pytest.raises(DeviceError) as made:
        Exchanging(ranks, Job("ring", 10))
    assert [str(e.value) for e in (opened, made)] == ["x/? (rank 0, process 100): gone"] * 2


def test_no_command_follows_one_that_was_broken_off():
    """The other ranks are still in it: they would take the next one for a part of it."""
    ranks, comm, session = lead()
    ranks.open()
    work = Exchanging(ranks, Job("ring", 10))
    work.poison()
    session.download = lost
    with pytest.raises(DeviceLost):
        work.queue()
    sent = len(comm.sent)
    with pytest.raises(AbsentError):
        work.queue()
    assert (ranks.busy, len(comm.sent)) == (True, sent)

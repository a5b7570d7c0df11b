"""What rank 0 tells the others, as far as it shows without MPI: a scripted communicator."""

import pytest
from worlds import gpu, world

from gpumap.bench.exchanges import Job
from gpumap.bench.process_ranks import ExchangeFactory, Member, ProcessRanks
from gpumap.comm.base import RankInfo
from gpumap.errors import AbsentError, DeviceError, DeviceLost, OutOfMemory


class _Alone:
    """A communicator of one rank, which writes down what is sent."""

    def __init__(self):
        self.sent = []
        self.rank, self.size, self.failures = 0, 1, ()
        self.gather = lambda answer: [answer]

    def broadcast(self, command):
        self.sent.append(command)
        return command


def lead(opener=None):
    comm, session = _Alone(), world(gpu(0)).sessions["a"]
    member = Member(comm, opener or (lambda: session), ExchangeFactory())
    return ProcessRanks(member, [RankInfo(0, "a", "x", 100)], ["a"]), comm, session


def lost(*_):
    raise DeviceLost("gone")


def test_a_device_that_cannot_be_opened_is_named_by_its_rank():
    """So is one without room for its buffers."""
    with pytest.raises(DeviceError) as opened:
        lead(lost)[0].open()
    ranks, _, session = lead()
    ranks.open()
    session.empty = lost
    with pytest.raises(OutOfMemory) as made:
        ranks.iteration(Job("ring", 10))
    assert [str(e.value) for e in (opened, made)] == ["x/a (rank 0, process 100): gone"] * 2


def test_no_command_follows_one_that_was_broken_off():
    """The other ranks are still in it: they would take the next one for a part of it."""
    ranks, comm, session = lead()
    ranks.open()
    work = ranks.iteration(Job("ring", 10))
    work.poison()
    session.download = lost
    with pytest.raises(DeviceLost):
        work.queue()
    sent = len(comm.sent)
    with pytest.raises(AbsentError):
        work.queue()
    assert (ranks.busy, len(comm.sent)) == (True, sent)

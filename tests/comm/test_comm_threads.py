"""Threads as ranks: what all engines must do, errors, and the order of scripted ranks."""

import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import rank_checks
from sessions import opened

from gpumap.backends.fake.script import FakeClock
from gpumap.comm.threads import Ranks


def checked(ranks, name, sessions):
    return ranks.run(lambda comm: rank_checks.check(name, comm, sessions[comm.rank]))


def assert_said_by_threads(lines, ranks):
    """Check what ranks of `engine_ranks.py` have said; two have the bits of two threads."""
    assert [line.rpartition(" ")[0] for line in lines] == [
        f"rank {rank} of {ranks}: 18 exchanges" for rank in range(ranks)
    ]
    if ranks == 2:
        with opened("numpy", "numpy") as sessions:
            every = [checked(Ranks(2), name, sessions) for name in rank_checks.CHECKS]
        said = [list(each) for each in zip(*every, strict=True)]
        assert lines[0].endswith(f" {rank_checks.digest(said)}")


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("name", rank_checks.CHECKS)
def test_threads_do_what_ranks_must_do(name, size):
    if name == "batch" and size == 3:
        pytest.skip("a third is no binary fraction")
    with opened(*["numpy"] * size) as sessions:
        ranks = Ranks(size)
        first, again = (checked(ranks, name, sessions) for _ in range(2))
    assert first == again  # bits, where the order is known


@pytest.mark.parametrize("wait", ["barrier", "receive", "broadcast"])
@pytest.mark.parametrize("clock", [None, FakeClock()])
def test_a_rank_that_raises_ends_the_others(clock, wait):
    """Wherever they wait; what it raised is raised, and the ranks can work again."""
    ranks, ended = Ranks(3, clock=clock), []

    def work(comm):
        if comm.rank == 1:
            raise ValueError("rank 1")
        try:
            getattr(comm, wait)()
        finally:
            ended.append(comm.rank)

    with pytest.raises(ValueError, match="rank 1"):
        ranks.run(work)
    assert sorted(ended) == [0, 2]
    assert ranks.run(lambda comm: comm.broadcast(comm.rank)) == [0, 0, 0]


def test_an_interrupt_ends_all_ranks_before_it_is_raised():
    """What they use is closed behind it: none may work on."""
    ranks, ended, end = Ranks(3), [], time.monotonic() + 60.0
    main = threading.main_thread()

    def waits():  # a signal on the way into a wait would be seen behind it
        stat = Path(f"/proc/self/task/{main.native_id}/stat").read_text()
        name = sys._current_frames()[main.ident].f_code.co_name
        return (name, stat.rpartition(")")[2].split()[0]) == ("wait", "S")

    def work(comm):
        comm.barrier()
        while comm.rank == 1 and not waits():
            time.sleep(0.01)
        if comm.rank == 1:
            signal.pthread_kill(main.ident, signal.SIGINT)
        try:
            while time.monotonic() < end:
                comm.barrier() if comm.rank else time.sleep(0.01) or comm.waiting()
        finally:
            time.sleep(0.05)
            ended.append(comm.rank)

    with pytest.raises(KeyboardInterrupt):
        ranks.run(work)
    assert (sorted(ended), time.monotonic() < end) == ([0, 1, 2], True)


def test_scripted_ranks_run_in_the_order_of_their_clocks():
    """One at a time; each sees what those that were earlier have done, and none that is later."""
    clock, order, running = FakeClock(), [], []
    ranks = Ranks(3, clock=clock)

    def work(comm):
        for step in range(4):
            running.append(comm.rank)
            clock.sleep((comm.rank + 1) * 0.5)
            assert running.pop() == comm.rank  # no other one came between
            comm.send((comm.rank, step, clock.now()), (comm.rank + 1) % 3)
            order.append(clock.now())
            while comm.waiting():
                assert comm.receive()[0][2] <= clock.now()
        comm.barrier()
        return clock.now()

    assert ranks.run(work) == [6.0, 6.0, 6.0]
    assert order == sorted(order)
    assert clock.now() == 6.0
    before, order[:] = list(order), []
    clock.go_to(0.0)
    ranks.run(work)
    assert order == before

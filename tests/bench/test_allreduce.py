"""The exchange between devices: its data, its plan, its figures, and what a wrong sum is."""

from types import SimpleNamespace

import numpy as np
import pytest
from buffers import verified
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from worlds import SETTINGS, counting, gpu, rows_on, world

from gpumap.backends.base import Clock
from gpumap.bench.allreduce import AllReduce, Params, plan
from gpumap.bench.exchanges import ITEM, Exchanging, Job, LocalRanks, crafted, exact, exact_sum
from gpumap.engine.needs import check_any
from gpumap.engine.sampling import Series, sample
from gpumap.errors import QuestionError
from gpumap.model import replace


@given(st.integers(1, 64), st.integers(0, 3000))
def test_no_order_of_adding_has_a_rounding(ranks, length):
    """Every partial sum is a whole number that float32 has exactly."""
    every = [crafted(rank, length) for rank in range(ranks)]
    for order in (every, reversed(every)):
        total = sum(order, start=np.zeros(length, np.float32))
        np.testing.assert_array_equal(total, exact_sum(ranks, length))


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_each_rank_gives_something_else(ranks):
    """A part that is missing, twice or one place off changes the sum; the first is named."""
    expected = exact_sum(ranks, 4099)
    every = [crafted(rank, 4099) for rank in range(ranks)]
    for rank in range(ranks):
        assert not exact(expected - every[rank], expected).passed
        assert not exact(expected - every[rank] + every[rank - 1], expected).passed
    assert not exact(np.roll(expected, 1), expected).passed
    found = expected.copy()
    found[[7, 9]] = np.nan, 0.0
    check = exact(found, expected)
    assert (check.passed, check.first_bad_offset, check.nbytes) == (False, 7 * ITEM, 4 * 4099)


@pytest.mark.parametrize("name", LocalRanks.algorithms)
@pytest.mark.parametrize("length", [1, 2, 3, 100])
def test_an_exchange_is_verified(monkeypatch, name, length):
    """Also where a rank's slice is empty; one that was not exchanged is found.

    Sums of sums tell nothing: a check after many iterations exchanges anew.
    """
    sessions = list(world(gpu(0), gpu(1), gpu(2)).sessions.values())
    work = Exchanging(LocalRanks(sessions), Job(name, length))
    work.queue(iterations=300)
    assert verified(work).passed
    work.queue(iterations=300)
    work.finish()
    assert work.check().passed
    work.poison()
    command = work._command
    monkeypatch.setattr(work, "_command", lambda name, *_: [] if name == "run" else command(name))
    work.queue()
    assert not work.check().passed


def test_the_plan_takes_at_least_what_is_allocated():
    kind, highest = counting()
    here = world(gpu(0), gpu(1), gpu(2), kind=kind)
    ranks = LocalRanks(list(here.sessions.values()))
    benchmark = AllReduce(here.bindings, ranks, Params((40_000, 400)))
    rows_on(here, benchmark, replace(SETTINGS, blocks=2))
    for device, most in highest.items():
        assert most <= benchmark.plan.memory[device]


def test_a_plan_of_skipped_rows_is_refused():
    """Nothing measured is no pass: each reason is said once, and with one row it is none."""
    bindings, sizes = world(gpu(0), gpu(1)).bindings, (400, 4000)
    here = LocalRanks(())
    alone = plan(bindings, here, Params(sizes, ("native",)))
    said = "native is there with --comm mpi, torch, nccl or psum only"
    found = refusal(QuestionError, check_any, alone, "map more")
    assert (found.message, found.hint) == (f"nothing can be measured: {said}", "map more")
    beside = plan(bindings, here, Params(sizes, ("native", "ring")))
    check_any(beside, "map more")
    assert [bool(case.skip) for case in beside.cases] == [True, False] * 2


def test_a_sample_is_one_command_to_the_ranks():
    """Each is a message to all of them, and takes as long as a small exchange; one warms up."""
    commands = []

    def noted(*command):
        commands.append(command)
        return []

    ranks = SimpleNamespace(command=lambda _: noted, sessions=tuple)
    work = Exchanging(ranks, ())
    sample(Series(work, iterations_per_sample=5), Clock())
    assert commands == [("run", 1), ("run", 5)]

"""Every algorithm gives every rank the exact sum, in whatever order transfers happen to end."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpumap
from gpumap.comm.algorithms import ALGORITHMS, balanced, schedule

EVERY = st.sampled_from(list(ALGORITHMS))
RANKS = st.integers(1, 8)
LENGTHS = st.integers(0, 40)


def execute(plan, ranks):
    for step in plan.steps:
        moved = [(t, ranks[t.sender][t.start : t.stop]) for t in step]
        for transfer, values in moved:
            put(ranks[transfer.receiver], transfer, values)
    return ranks


def put(target, transfer, values):
    here = target[transfer.start : transfer.stop]
    both = zip(here, values, strict=True)
    target[transfer.start : transfer.stop] = [a + b for a, b in both] if transfer.add else values


class Racing:
    """Ranks whose steps begin, and whose transfers end, in a drawn order."""

    def __init__(self, plan, ranks, draw):
        self.plan, self.ranks, self.draw = plan, ranks, draw
        self.posted = [0] * plan.ranks
        self.over = [0] * plan.ranks
        self.moved = set()
        self.scratch = {}

    def run(self):
        """Return what the ranks hold once nothing is left to do; a deadlock would leave some."""
        while actions := [*self.posts(), *self.moves(), *self.ends()]:
            action, *what = actions[self.draw(st.integers(0, len(actions) - 1))]
            action(*what)
        assert self.over == [len(self.plan.steps)] * self.plan.ranks
        return self.ranks

    def posts(self):
        """Yield each rank whose next step may begin."""
        for rank, number in enumerate(self.posted):
            if number < len(self.plan.steps) and number == self.over[rank]:
                yield self.post, rank

    def moves(self):
        """Yield each transfer that both ends have posted: it may happen now, or later."""
        for number, step in enumerate(self.plan.steps):
            for transfer in step:
                ends = transfer.sender, transfer.receiver
                begun = all(self.posted[end] > number for end in ends)
                if begun and (number, transfer) not in self.moved:
                    yield self.move, number, transfer

    def ends(self):
        for rank, number in enumerate(self.over):
            if number < self.posted[rank]:
                own = [t for t in self.plan.steps[number] if rank in (t.sender, t.receiver)]
                if all((number, transfer) in self.moved for transfer in own):
                    yield self.end, rank

    def post(self, rank):
        self.posted[rank] += 1

    def move(self, number, transfer):
        """Read what the sender has now; what is added waits in scratch."""
        values = self.ranks[transfer.sender][transfer.start : transfer.stop]
        self.moved.add((number, transfer))
        if transfer.add:
            self.scratch[number, transfer] = values
        else:
            put(self.ranks[transfer.receiver], transfer, values)

    def end(self, rank):
        number = self.over[rank]
        for transfer in self.plan.steps[number]:
            if transfer.receiver == rank and transfer.add:
                put(self.ranks[rank], transfer, self.scratch.pop((number, transfer)))
        self.over[rank] += 1


def crafted(ranks, length):
    return [[(1 << rank) * (1000 + n) for n in range(length)] for rank in range(ranks)]


def summed(ranks):
    return [[sum(column) for column in zip(*ranks, strict=True)] for _ in ranks]


@given(EVERY, RANKS, LENGTHS)
def test_every_rank_has_the_exact_sum(name, ranks, length):
    values = crafted(ranks, length)
    expected = summed(values)
    assert execute(schedule(name, ranks, length), values) == expected


@settings(max_examples=60)
@given(EVERY, st.integers(2, 5), st.integers(0, 9), st.data())
def test_no_order_of_events_changes_the_sum(name, ranks, length, data):
    """What is under way at once does no harm, and nothing waits for ever."""
    values = crafted(ranks, length)
    expected = summed(values)
    assert Racing(schedule(name, ranks, length), values, data.draw).run() == expected


@given(EVERY, st.integers(2, 8), st.data())
def test_rounding_is_the_same_on_every_rank(name, ranks, data):
    """Floats of any size: each slice is summed at one place."""
    floats = st.floats(-1e6, 1e6)
    row = st.lists(floats, min_size=11, max_size=11)
    values = [data.draw(row) for _ in range(ranks)]
    first, *others = execute(schedule(name, ranks, 11), values)
    assert all(other == first for other in others)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_rank_adds_one_slice_a_step_at_most(name):
    """So scratch has room for one."""
    plan = schedule(name, 5, 23)
    adding = [[t.receiver for t in step if t.add] for step in plan.steps]
    assert all(len(ranks) == len({*ranks}) for ranks in adding)


def test_a_ring_takes_room_for_one_slice():
    """By `host` rank 0 alone takes any, for all that one rank sends."""
    assert [schedule("ring", 4, 64).scratch(rank) for rank in range(4)] == [16] * 4
    assert [schedule("host", 4, 64).scratch(rank) for rank in range(4)] == [64, 0, 0, 0]


@given(st.integers(0, 10**6), st.integers(1, 1000))
def test_balanced_parts_differ_by_one_at_most(total, parts):
    counts = balanced(total, parts)
    assert (sum(counts), len(counts)) == (total, parts)
    assert max(counts) - min(counts) <= 1
    assert list(counts) == sorted(counts, reverse=True)


@given(st.integers(0, 12), st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_a_weighted_split_ends_as_soon_as_any(total, rates):
    """Compared with every split there is."""
    parts = len(rates)
    found = gpumap.split(total, parts, "weighted", rates)
    every = (each for each in product(range(total + 1), repeat=parts) if sum(each) == total)
    best = min(max(n / rate for n, rate in zip(each, rates, strict=True)) for each in every)
    assert sum(found) == total
    assert max(n / rate for n, rate in zip(found, rates, strict=True)) == pytest.approx(best)


@pytest.mark.parametrize("given_", [
    (10, 0), (-1, 2), (10.5, 3), ("10", 3), (10, 2.0), (10, 2, "fair"),
    (10, 2, "weighted"), (10, 2, "weighted", [1.0]),
    (10, 2, "weighted", [1.0, 0.0]), (10, 2, "weighted", [1.0, float("nan")]),
])  # fmt: skip
def test_a_split_that_makes_no_sense_is_refused(given_):
    with pytest.raises(gpumap.GpumapError):
        gpumap.split(*given_)

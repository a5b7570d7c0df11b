"""Exchanges end in one sum in whatever order transfers end; what they cost; how work is split."""

from collections import deque
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import table

import gpumap
from gpumap.comm.algorithms import STEPS, bus_factor
from gpumap.model import Line
from gpumap.predict import MODELS, seconds


class Racing:
    """Ranks whose steps begin, and whose transfers end, in a drawn order."""

    def __init__(self, name, arrays, draw):
        steps, size = STEPS[name], len(arrays)
        self.left = [deque(steps(rank, size, each, np.empty)) for rank, each in enumerate(arrays)]
        self.sends, self.receives, self.added = ([None for _ in arrays] for _ in range(3))
        self.draw = draw

    def run(self):
        """Do what can be done until nothing is left; a deadlock would leave some."""
        while actions := [*self.posts(), *self.moves(), *self.ends()]:
            action, *what = actions[self.draw(st.integers(0, len(actions) - 1))]
            action(*what)
        assert not any(self.left)
        assert self.added == [None] * len(self.left)

    def posts(self):
        return ((self.post, n) for n, left in enumerate(self.left) if left and not self.added[n])

    def moves(self):
        """Yield each transfer that both ends have posted: it may happen now, or later."""
        for sender, sends in enumerate(self.sends):
            for array, receiver in sends or ():
                for target, source in self.receives[receiver] or ():
                    if source == sender:
                        yield self.move, sender, array, receiver, target

    def ends(self):
        for rank, added in enumerate(self.added):
            if added and not self.sends[rank] and not self.receives[rank]:
                yield self.end, rank

    def post(self, rank):
        sends, receives, place = self.left[rank].popleft()
        self.added[rank] = (place, receives[0][0]) if place is not None else (None, None)
        self.sends[rank], self.receives[rank] = list(sends), list(receives)

    def move(self, sender, array, receiver, target):
        target[:] = array
        self.sends[sender] = [end for end in self.sends[sender] if end[1] != receiver]
        self.receives[receiver] = [end for end in self.receives[receiver] if end[1] != sender]

    def end(self, rank):
        place, arrived = self.added[rank]
        if place is not None:
            place += arrived
        self.added[rank] = None


@settings(max_examples=100)
@given(st.sampled_from([*STEPS]), st.integers(1, 6), st.integers(1, 20), st.data())
def test_no_order_of_events_changes_the_sum(name, ranks, length, data):
    """Of random floats, to the bit the same on each rank; nothing waits for ever."""
    arrays = list(np.random.default_rng(length).standard_normal((ranks, length)))
    wanted = sum(arrays)
    Racing(name, arrays, data.draw).run()
    np.testing.assert_allclose(arrays[0], wanted, atol=1e-12)
    assert len({array.tobytes() for array in arrays}) == 1


LINK = (Line(2.0**-10, 2.0**-20),)  # seconds, bytes per second


@pytest.mark.parametrize("name", MODELS)
def test_one_device_exchanges_for_nothing(name):
    assert seconds(name, 1, 2**30, LINK) == 0.0
    assert seconds("ring", 8, 2**20, LINK) == 14 * 2.0**-10 + 14 / 8
    assert seconds("host", 8, 2**20, LINK) == 8 * 2.0**-10 + 14
    # of two lines small messages go another way: the ring's are smaller than the host's
    link = (Line(1.0, 0.0), Line(0.0, 1.0, 100.0))
    assert (seconds("ring", 4, 200, link), seconds("host", 4, 200, link)) == (6.0, 1200.0)


@pytest.mark.parametrize(("ranks", "nbytes", "latencies", "share"), [
    (2, 2**20, 1, 1.0), (8, 1, 3, 3.0), (8, 2**20, 6, 1.75), (6, 2**20, 6, 10 / 6),
])  # fmt: skip
def test_a_library_takes_the_better_of_two(ranks, nbytes, latencies, share):
    expected = latencies * 2.0**-10 + share * nbytes / 2.0**20
    assert seconds("native", ranks, nbytes, LINK) == pytest.approx(expected)
    assert bus_factor(8) == 1.75  # as nccl-tests' PERFORMANCE.md has it


@given(st.integers(0, 12), st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_a_weighted_split_ends_as_soon_as_any(total, rates):
    parts = len(rates)
    found = gpumap.split(total, parts, "weighted", rates)
    every = (each for each in product(range(total + 1), repeat=parts) if sum(each) == total)
    best = min(max(n / rate for n, rate in zip(each, rates, strict=True)) for each in every)
    assert sum(found) == total
    assert max(n / rate for n, rate in zip(found, rates, strict=True)) == pytest.approx(best)


@pytest.mark.parametrize("given_", table(__file__)["refused"])
def test_a_split_that_makes_no_sense_is_refused(given_):
    with pytest.raises(gpumap.GpumapError):
        gpumap.split(*given_)

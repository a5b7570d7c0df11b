"""What the time of a worker goes into: phases that add up to it, whoever is early or late."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from gpumap.training.steps import EXCHANGE, PHASES, phases

SECONDS = st.integers(0, 1 << 20).map(lambda ticks: ticks / 64)  # exact in binary
BEGAN = 8.0
OWN = ("input", "transfer", "compute")


@st.composite
def trainings(draw):
    """Return the parts of some steps of some workers, and their number."""
    workers = draw(st.integers(1, 4))
    every = list(range(workers))
    clock, parts = dict.fromkeys(every, BEGAN), []

    def part(phase, who):
        for worker in who:
            clock[worker] += draw(SECONDS)
        parts.append((phase, {worker: clock[worker] for worker in who}))

    def exchanges():
        for _ in range(draw(st.integers(0, 2))):
            part(EXCHANGE, draw(st.lists(st.sampled_from(every), min_size=1, unique=True)))

    for _ in range(draw(st.integers(1, 3))):
        for phase in OWN:
            part(phase, every)
        exchanges()
        part("update", every)
        exchanges()
    return parts, workers


@given(trainings())
def test_phases_add_up_to_the_time_from_the_beginning_to_the_last_end(training):
    """Nothing is left over and nothing counted twice, whatever order the workers' marks come in."""
    parts, workers = training
    found = phases(parts, BEGAN, workers)
    assert tuple(found) == PHASES
    last = max(end for _, ends in parts for end in ends.values())
    assert sum(found.values()) == pytest.approx(last - BEGAN)
    assert min(found.values()) >= 0.0


def steps(*workers):
    """Return a step's parts: of each worker input, copy, compute, exchange, update and exchange."""
    names = (*OWN, EXCHANGE, "update", EXCHANGE)
    return [(name, dict(enumerate(ends))) for name, ends in
            zip(names, zip(*workers, strict=True), strict=True)]  # fmt: skip


@pytest.mark.parametrize(("early", "late", "expected"), table(__file__)["steps"])
def test_the_early_wait_for_the_late_and_then_all_exchange(early, late, expected):
    """Two workers, a step; without steps there is nothing."""
    found = phases(steps(early, late), 0.0, 2)
    assert expected.items() <= found.items()
    assert phases([], BEGAN, 2) == dict.fromkeys(PHASES, 0.0)


def test_two_that_meet_wait_for_each_other_and_for_no_one_else():
    """The first has the centre: the second comes at 5, a third at 1 waits until 6 for its turn."""
    parts = [
        ("compute", {0: 1.0, 1: 5.0, 2: 1.0}),
        (EXCHANGE, {0: 6.0, 1: 6.0}),
        (EXCHANGE, {0: 7.0, 2: 7.0}),
    ]
    found = phases(parts, 0.0, 3)
    assert found["comm"] == pytest.approx(4 / 3)
    assert found["sync"] == pytest.approx((4 + 5 + 1) / 3)
    assert sum(found.values()) == pytest.approx(7.0)

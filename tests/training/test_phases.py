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
def trainings(draw, exchanging=None):
    """Return the parts of some steps of some workers, and their number.

    Who takes part in an exchange is drawn: all of them, two, or one; `exchanging` says who instead.
    """
    workers = draw(st.integers(1, 4))
    every = list(range(workers))
    clock, parts = dict.fromkeys(every, BEGAN), []

    def part(phase, who):
        for worker in who:
            clock[worker] += draw(SECONDS)
        parts.append((phase, {worker: clock[worker] for worker in who}))

    def exchanges():
        for _ in range(draw(st.integers(0, 2))):
            some = st.lists(st.sampled_from(every), min_size=1, unique=True)
            part(EXCHANGE, every if exchanging == "all" else draw(some))

    for _ in range(draw(st.integers(1, 3))):
        for phase in OWN:
            part(phase, every)
        if exchanging != "none":
            exchanges()
            part("update", every)
            exchanges()
    return parts, workers


def last(parts):
    return max(end for _, ends in parts for end in ends.values())


@given(trainings())
def test_phases_add_up_to_the_time_from_the_beginning_to_the_last_end(training):
    """Nothing is left over and nothing counted twice, whatever order the workers' marks come in."""
    parts, workers = training
    found = phases(parts, BEGAN, workers)
    assert tuple(found) == PHASES
    assert sum(found.values()) == pytest.approx(last(parts) - BEGAN)
    assert min(found.values()) >= 0.0


@given(trainings(), st.randoms())
def test_who_is_called_first_makes_no_difference(training, random):
    parts, workers = training
    order = random.sample(range(workers), workers)
    other = [(phase, {order[worker]: end for worker, end in ends.items()}) for phase, ends in parts]
    found, again = (phases(each, BEGAN, workers) for each in (parts, other))
    assert again == pytest.approx(found)


@given(trainings("all"))
def test_waiting_and_exchanging_share_the_time_of_the_exchange(training):
    """`sync` takes from `comm` alone: what is computed, copied and updated stays as it is."""
    parts, workers = training
    apart = [
        (phase, {worker: end})
        for phase, ends in parts
        for worker, end in ends.items()
    ]  # fmt: skip
    alone, together = (phases(each, BEGAN, workers) for each in (apart, parts))
    rest = set(PHASES) - {"sync", "comm"}
    assert {name: alone[name] for name in rest} == {name: together[name] for name in rest}
    assert together["sync"] >= alone["sync"]
    both = [found["sync"] + found["comm"] for found in (alone, together)]
    assert both[0] == pytest.approx(both[1])


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

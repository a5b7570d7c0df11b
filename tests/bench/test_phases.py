"""What the time of a worker goes into: phases that add up to it, whoever is early or late."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap.bench.phases import PHASES, phases

SECONDS = st.integers(0, 1 << 20).map(lambda ticks: ticks / 64)  # exact in binary
BEGAN = 8.0
LENGTHS = st.sampled_from((3, 6))  # of a gradient alone, of a whole step


@st.composite
def trainings(draw, lengths=LENGTHS):
    """Return the marks of some steps of some workers, each worker on its own timeline."""
    length, steps = draw(lengths), draw(st.integers(1, 4))
    workers = draw(st.integers(1, 4))
    count = length * steps
    each = [draw(st.lists(SECONDS, min_size=count, max_size=count)) for _ in range(workers)]
    lines = [list(accumulate(lasting, initial=BEGAN))[1:] for lasting in each]
    return steps_of(lines, length)


def steps_of(lines, length):
    """Return of each step, of each worker, the ends of its phases."""
    starts = range(0, len(lines[0]), length)
    return [[line[start : start + length] for line in lines] for start in starts]


def last(times):
    """Return when the last worker was done."""
    return max(ends[-1] for ends in times[-1])


@given(trainings(), st.booleans())
def test_phases_add_up_to_the_time_from_the_beginning_to_the_last_end(times, together):
    """Nothing is left over and nothing counted twice, whatever order the workers' marks come in."""
    found = phases(times, BEGAN, together=together)

    assert tuple(found) == PHASES
    assert sum(found.values()) == pytest.approx(last(times) - BEGAN)
    assert min(found.values()) >= 0.0


@given(trainings(), st.booleans(), st.randoms())
def test_who_is_called_first_makes_no_difference(times, together, random):
    """A mean over the workers knows no order of them."""
    order = random.sample(range(len(times[0])), len(times[0]))
    other = [[step[worker] for worker in order] for step in times]

    found, again = (phases(each, BEGAN, together=together) for each in (times, other))

    assert again == pytest.approx(found)


@given(trainings(), st.booleans(), SECONDS)
def test_to_begin_later_is_to_have_less_input(times, together, earlier):
    """What passes before the first batch is there is told of its making, and of nothing else."""
    found = phases(times, BEGAN, together=together)

    more = phases(times, BEGAN - earlier, together=together)

    assert more == pytest.approx(found | {"input": found["input"] + earlier})


@given(trainings())
def test_a_worker_alone_waits_for_nobody(times):
    """With one worker the last one is ready at once."""
    alone = [step[:1] for step in times]

    assert phases(alone, BEGAN, together=True)["sync"] == 0.0


@given(trainings(), st.integers(1, 4), st.booleans())
def test_workers_that_are_alike_have_the_phases_of_one(times, workers, together):
    """They are ready at once, and a mean of equal times is that time."""
    one = [step[:1] for step in times]
    many = [step[:1] * workers for step in times]

    found, wanted = (phases(each, BEGAN, together=together) for each in (many, one))

    assert found == pytest.approx(wanted)


@given(trainings(), SECONDS)
def test_who_ends_first_waits_for_the_last_at_the_end(times, later):
    """A round ends with its last worker: where one more takes longer, all others wait for it."""
    workers = len(times[0])
    found = phases(times, BEGAN, together=False)
    slow = [list(step) for step in times]
    *before, end = slow[-1][0]
    was, now = last(times), max(last(times), end + later)
    slow[-1][0] = [*before, end + later]

    more = phases(slow, BEGAN, together=False)

    assert more["sync"] - found["sync"] == pytest.approx((now - was) - later / workers, abs=1e-6)


@given(trainings(st.just(6)))
def test_workers_that_exchange_apart_wait_at_the_end_alone(times):
    """Where an exchange is not one of all workers, nobody is waited for before it."""
    found = phases(times, BEGAN, together=False)

    ends = [step[-1] for step in times[-1]]
    assert found["sync"] == pytest.approx(sum(max(ends) - end for end in ends) / len(ends))


@given(trainings(st.just(6)))
def test_waiting_and_exchanging_share_the_time_of_the_exchange(times):
    """`sync` takes from `comm` alone: what is computed, copied and updated stays as it is."""
    apart, together = (phases(times, BEGAN, together=how) for how in (False, True))

    rest = set(PHASES) - {"sync", "comm"}
    assert {name: apart[name] for name in rest} == {name: together[name] for name in rest}
    assert together["sync"] >= apart["sync"]
    both = [found["sync"] + found["comm"] for found in (apart, together)]
    assert both[0] == pytest.approx(both[1])


def test_the_early_wait_for_the_late_and_then_all_exchange():
    """Two workers, a step: input 1, copy 1, compute 2 and 5; exchange 1, update 1, none behind."""
    early = (1.0, 2.0, 4.0, 8.0, 9.0, 9.0)
    late = (1.0, 2.0, 7.0, 8.0, 9.0, 9.0)

    found = phases([[early, late]], 0.0, together=True)

    assert found == {
        "input": 1.0,
        "transfer": 1.0,
        "compute": 3.5,
        "sync": 1.5,
        "comm": 1.0,
        "update": 1.0,
    }


def test_an_exchange_behind_the_update_is_waited_for_as_well():
    """Parameters are averaged there; one worker updates for longer than the other."""
    early = (0.0, 0.0, 1.0, 1.0, 2.0, 5.0)
    late = (0.0, 0.0, 1.0, 1.0, 4.0, 5.0)

    found = phases([[early, late]], 0.0, together=True)

    assert (found["update"], found["sync"], found["comm"]) == (2.0, 1.0, 1.0)


def test_a_worker_that_is_done_before_the_last_is_ready_only_waits():
    """An algorithm may be done with one while another is still to come: that is no exchange."""
    first = (0.0, 0.0, 1.0, 2.0, 2.0, 2.0)
    second = (0.0, 0.0, 3.0, 4.0, 4.0, 4.0)

    found = phases([[first, second]], 0.0, together=True)

    assert (found["sync"], found["comm"]) == (1.5, 0.5)


@pytest.mark.parametrize("together", [True, False])
def test_of_no_step_there_is_nothing_to_tell(together):
    """Every phase is there, and is zero."""
    assert phases([], BEGAN, together=together) == dict.fromkeys(PHASES, 0.0)

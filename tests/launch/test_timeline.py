"""Where a program's time goes, of looks that are given: each cause, and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap.launch.timeline import phases

IDLE, ALONE, BOTH = 0.0, 1.0, 2.0


def looks(*stretches, each=0.05):
    """Return looks of 0.05 s, of stretches of so many seconds at which so many work."""
    return [(each, working) for seconds, working in stretches for _ in range(round(seconds / each))]


@pytest.mark.parametrize(("seen", "start", "serial", "uneven", "idle"), [
    ([(2.0, BOTH)], 0, 0, 0, 0),
    ([(1.0, IDLE), (1.0, BOTH)], 1, 0, 0, 0),
    ([(0.5, IDLE), (0.5, ALONE), (1.0, BOTH)], 1, 0, 0, 0),  # reads, then compiles
    ([(0.15, BOTH), (1.0, ALONE), (1.0, BOTH)], 1, 0, 0, 0),  # all load a library first
    ([(1.0, BOTH), (1.0, ALONE), (0.2, BOTH)], 0, 1, 0, 0),
    ([(0.1, ALONE), (0.1, BOTH)] * 10, 0.2, 0.8, 0, 0),  # of each step a half
    ([(1.0, BOTH), (1.0, ALONE)], 0, 0, 1, 0),
    ([(0.1, BOTH), (0.1, ALONE)] * 10, 0.1, 0, 0.9, 0),  # uneven in each step
    ([(1.0, BOTH), (1.0, ALONE), (0.1, IDLE)], 0, 0, 1, 0.1),  # and ends slowly
    ([(1.0, BOTH), (1.0, ALONE), (1.0, BOTH), (0.05, ALONE)], 0, 1.05, 0, 0),  # ends unlike
    ([(0.2, BOTH), (0.2, IDLE)] * 10, 0.2, 0, 0, 1.8),
    ([(2.0, ALONE)], 0, 2, 0, 0),  # never several: the start has no end, and is none
    ([], 0, 0, 0, 0),
])  # fmt: skip
def test_each_second_in_which_not_several_work_has_one_reason(seen, start, serial, uneven, idle):
    found = phases(looks(*seen))
    assert found == pytest.approx((start, serial, uneven, idle), abs=1e-9)


@given(st.lists(st.tuples(st.floats(0.001, 1.0), st.floats(0.0, 4.0))))
def test_no_second_counts_twice(seen):
    assert sum(phases(seen)) <= sum(seconds for seconds, _ in seen) * (1 + 1e-9)


def test_a_short_look_is_joined_to_the_next():
    """In 5 ms one tick of the kernel's would be two cores."""
    assert phases([(0.005, 4.0), (0.045, 0.0)] * 20)[3] == pytest.approx(1.0)

"""Where a program's time goes, of looks that are given: each cause, and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from gpumap.launch.timeline import phases

TABLE = table(__file__)


def looks(*stretches, each=0.05):
    """Return looks of 0.05 s, of stretches of so many seconds at which so many work."""
    return [(each, working) for seconds, working in stretches for _ in range(round(seconds / each))]


@pytest.mark.parametrize(("seen", "start", "serial", "uneven", "idle"), [
    *TABLE["phases"], *([stretches * 10, *expected] for stretches, *expected in TABLE["steps"]),
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

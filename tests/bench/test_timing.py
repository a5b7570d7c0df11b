"""Samples that are long enough, and warm: on a clock that stands still unless it is told."""

import pytest

from gpumap.backends.fake import FakeClock
from gpumap.bench.timing import SHORTEST, Series, calibrate, sample, warm_up


class Work:
    """A round that takes the times it is given, in turn, and then the last one for ever."""

    def __init__(self, clock, *times, idle=0.0):
        self.tracked = {}
        self.clock = clock
        self.times = list(times)
        self.idle = idle
        self.queued = 0

    def queue(self):
        """Let the next time pass."""
        self.queued += 1
        self.clock.sleep(self.times.pop(0) if len(self.times) > 1 else self.times[0])

    def finish(self):
        """Wait as long as idling costs."""
        self.clock.sleep(self.idle)


@pytest.fixture
def clock():
    """Return a scripted clock."""
    return FakeClock()


@pytest.mark.parametrize(
    ("seconds", "idle", "rounds"),
    [
        (SHORTEST, 0.0, 1),
        (1.0, 0.0, 1),
        (2.0**-11, 0.0, 3),
        (2.0**-20, 0.0, 1153),
        (2.0**-10, 2.0**-10, 108),
    ],
)
def test_a_sample_is_as_many_rounds_as_it_takes(clock, seconds, idle, rounds):
    """At least a millisecond, and a hundred times what waiting costs."""
    series = Series(Work(clock, seconds, idle=idle))

    calibrate(series, clock)

    taken = series.rounds_per_sample * seconds + idle
    assert rounds == series.rounds_per_sample
    assert taken >= max(SHORTEST, 100 * idle)


def test_work_that_takes_no_time_ends_somewhere(clock):
    """The clock may be too coarse to see it; a million rounds are enough."""
    series = Series(Work(clock, 0.0))

    calibrate(series, clock)

    assert series.rounds_per_sample == 1 << 20


def test_a_sample_is_the_time_of_one_round(clock):
    """The whole time over the rounds; finish is waited for once."""
    series = Series(Work(clock, 0.25, idle=0.5), rounds_per_sample=4)

    assert sample(series, clock) == (0.375, {})
    assert series.round.queued == 4


@pytest.mark.parametrize(
    ("times", "warmup"),
    [
        ([1.0], 10),
        ([1.0] * 4 + [0.5], 12),
        ([1.0, 0.99, 0.99, 0.99, 0.985, 0.98, 0.98], 10),
        ([8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0], 15),
    ],
)
def test_it_is_warm_when_it_gets_no_faster(clock, times, warmup):
    """The last five samples against the five before; two percent are no news."""
    series = Series(Work(clock, *times))

    warm_up(series, clock, cap=1e6)

    assert (warmup, False) == (series.warmup, series.capped)


def test_a_warm_up_that_takes_too_long_is_said(clock):
    """The cap ends it, after three samples at least, and nothing of it is kept."""
    series = Series(Work(clock, 1.0))

    warm_up(series, clock, cap=2.0)

    assert (series.warmup, series.capped, series.seconds) == (3, True, [])


def test_the_cap_counts_from_now_on(clock):
    """What the clock showed before is not its business."""
    clock.sleep(100.0)
    series = Series(Work(clock, 1.0))

    warm_up(series, clock, cap=5.0)

    assert (series.warmup, series.capped) == (5, True)

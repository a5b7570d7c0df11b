"""Samples that are long enough, and warm, on a scripted clock; and marks around their parts."""

from typing import NamedTuple

import pytest
from tables import table
from worlds import gpu, hooked, world

from gpumap.backends.fake.script import FakeClock
from gpumap.engine.base import DeviceInterval, Events, Iteration, Sample
from gpumap.engine.products import Pair, Product, Products
from gpumap.engine.sampling import Series, calibrate, sample, warm_up
from gpumap.model import SHORTEST

TABLES = table(__file__)


class _Work(Iteration):
    """An iteration that takes the times it is given, in turn, and then the last one for ever.

    So does each wait for it.
    """

    def __init__(self, clock, *times, idle=(0.0,)):
        self.clock, self.times, self.idle = clock, list(times), list(idle)
        self.spanned = []

    def queue(self, events=None, iterations=1):
        for _ in range(iterations):
            self.spanned.append(events is not None)
            self._take(self.times)

    def finish(self):
        self._take(self.idle)

    def _take(self, times):
        self.clock.sleep(times.pop(0) if len(times) > 1 else times[0])


class _BusyClock(FakeClock):
    def cpu(self):
        return 0.75 * self.now()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.mark.parametrize(("times", "idle", "most", "iterations"), TABLES["long_enough"])
def test_a_sample_is_as_many_iterations_as_it_takes(clock, times, idle, most, iterations):
    """At least a millisecond, and a hundred times what waiting costs; which is kept to be told.

    So is how long a sample lasts: all of its iterations, and the one that does not count.
    """
    series = Series(_Work(clock, *times, idle=idle))
    calibrate(series, clock, most=most)
    seconds, wait, runs = times[-1], idle[-1], 1 if iterations == 1 else 2
    assert (iterations, wait) == (series.iterations_per_sample, series.empty_sync)
    if iterations < most:
        assert iterations * seconds + wait >= max(SHORTEST, 100 * wait)
        lasts = (iterations + runs - 1) * seconds + runs * wait
        assert series.sample_seconds == pytest.approx(lasts)


@pytest.mark.parametrize("kind", [FakeClock, _BusyClock])
def test_a_sample_is_the_time_of_one_iteration(kind):
    """The whole time over the iterations, what queueing took, and the CPU time if it is known."""
    clock = kind()
    clock.sleep(3.0)
    series = Series(_Work(clock, 0.25, idle=[0.5]), iterations_per_sample=4)
    cpu = None if kind is FakeClock else 0.75 * 0.375
    assert sample(series, clock) == Sample(0.375, 0.25, cpu, {})


def test_a_call_that_waits_is_timed_alone(clock):
    """One of five that was delayed is no longer than the others: their median is the sample."""
    work = _Work(clock, 0.25, 0.5, 0.25, 8.0, 0.25, 0.25, 0.5, idle=[1.0])
    work.waits = True
    assert sample(Series(work, iterations_per_sample=5), clock) == Sample(0.25, 0.25, None, {})


def test_only_the_first_iteration_of_a_sample_is_marked(clock):
    """It pays for what was measured before; later ones begin on devices that are not idle."""
    series = Series(_Work(clock, 0.25), iterations_per_sample=4)
    sample(series, clock)
    assert series.iteration.spanned == [False, True, False, False, False]
    for iterations, seconds in ((2, 0.25), (1, 0.5)):
        cold = Series(_Work(clock, 0.5, 0.25), iterations_per_sample=iterations)
        assert sample(cold, clock).seconds == seconds


def test_the_parts_of_the_devices_are_those_of_the_first_iteration():
    here = world(gpu(0), gpu(1, rate=2.0**30))
    pair = Pair((1, 0), 64, "float32")
    products = [Product(name, session, pair) for name, session in here.sessions.items()]
    series = Series(Products(products, None, fetched=False), iterations_per_sample=3)
    first, second = 2.0**-12, 2.0**-11
    start = here.clock.now() + second  # the iteration that does not count
    taken = sample(series, here.clock)
    assert taken.intervals == {
        "a": DeviceInterval(start, start + first, None),
        "b": DeviceInterval(start, start + second, None),
    }
    assert taken.seconds == second


class _Slowing(_Work):
    """Work that takes less from iteration to iteration, as in a warm-up that does not end."""

    def queue(self, events=None, iterations=1):
        super().queue(events, iterations)
        self.times[0] *= 0.9


@pytest.mark.parametrize(("work", "times", "cap", "warmup", "capped"), TABLES["warm_up"])
def test_it_is_warm_when_it_gets_no_faster_or_its_time_is_over(
    clock, work, times, cap, warmup, capped
):
    """From now on; it is flagged where every later sample of long enough windows is faster."""
    clock.sleep(100.0)
    kind = {"work": _Work, "slowing": _Slowing}[work]
    series = Series(kind(clock, *times))
    warm_up(series, clock, cap)
    assert (series.warmup, series.capped, series.taken) == (warmup, capped, {})


class _Traced(_Work):
    """Work whose thread says that it ran all the time, or says nothing."""

    def __init__(self, clock, *times, spent=1.0):
        super().__init__(clock, *times, idle=[2.0**-14])
        self.spent = spent

    def queue(self, events=None, iterations=1):
        if events is not None:
            session = _Session([0.0, 1.0], self.spent)
            events.begin("a", session)
            events.end("a", session)
        super().queue(events, iterations)


@pytest.mark.parametrize(("seconds", "spent", "computes", "iterations", "led"), TABLES["traced"])
def test_one_iteration_is_a_sample_where_its_thread_tells_that_it_ran(
    seconds, spent, computes, iterations, led
):
    """Of a millisecond and more; as warm as several iterations are, which follow one."""
    clock = _BusyClock()
    series = Series(_Traced(clock, seconds, spent=spent))
    calibrate(series, clock, 1e-2, computes=computes)
    assert (series.iterations_per_sample, series.warmed) == (iterations, led)
    before = len(series.iteration.spanned)
    start = clock.now()
    sample(series, clock)
    assert len(series.iteration.spanned) - before == iterations + (led or iterations > 1)
    assert clock.now() - start == pytest.approx(series.sample_seconds, rel=0.1)


def test_to_begin_anew_is_no_part_of_a_sample(clock):
    """Which takes a while, each time."""
    renewed = []
    work = hooked(_Work(clock, 0.25), "renew", lambda: renewed.append(clock.sleep(8.0)))
    assert [sample(Series(work), clock).seconds for _ in range(3)] == [0.25] * 3
    assert len(renewed) == 3


class Mark(NamedTuple):
    session: object
    number: int


class _Session:
    """A device that comes to its n-th mark at the n-th of these times."""

    def __init__(self, times, spent=None):
        self.times, self.spent, self.marks = times, spent, []

    def mark(self):
        self.marks.append(Mark(self, len(self.marks)))
        return self.marks[-1]

    def at(self, mark):
        return self.times[mark.number]

    def worked(self, start, stop):
        assert start.session is stop.session is self
        return self.spent


def test_a_part_begins_with_the_first_and_ends_with_the_last():
    one, two = _Session([1.0, 2.0, 4.0]), _Session([1.5, 3.0], spent=1.25)
    events = Events()
    events.begin("a", one)
    events.end("a", one)
    events.begin("b", two)
    events.begin("a", one)
    events.end("b", two)
    events.end("a", one)
    assert events.intervals() == {
        "a": DeviceInterval(1.0, 4.0, None),
        "b": DeviceInterval(1.5, 3.0, 1.25),
    }
    assert len(one.marks) == 3  # the second beginning is no command of its own


@pytest.mark.parametrize(("times", "part"), [
    ([None, 1.0], {}), ([1.0, None], {}), ([None, None], {}),
    ([0.0, 1.0], {"a": DeviceInterval(0.0, 1.0, None)}),
    # clocks of a device and of the host are fitted: a short part may seem to run backwards
    ([2.0, -1.5], {"a": DeviceInterval(2.0, 2.0, None)}),
])  # fmt: skip
def test_a_device_without_a_clock_has_no_part_and_none_ends_before_it_begins(times, part):
    events = Events()
    for name, each in (("a", times), ("b", [1.0, 2.0])):
        session = _Session(each)
        events.begin(name, session)
        events.end(name, session)
    assert events.intervals() == part | {"b": DeviceInterval(1.0, 2.0, None)}

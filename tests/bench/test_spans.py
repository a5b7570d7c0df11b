"""Marks around each device's part of a round, and what is read from them."""

from threading import Barrier
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap.backends.base import SystemClock
from gpumap.bench.base import Part, Spans


class Mark(NamedTuple):
    """A place in a queue."""

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


def marked(**times):
    spans = Spans()
    assert spans.parts() == {}
    for name, each in times.items():
        session = _Session(each)
        spans.begin(name, session)
        spans.end(name, session)
    return spans.parts()


def test_a_part_begins_with_the_first_and_ends_with_the_last():
    one, two = _Session([1.0, 2.0, 4.0]), _Session([1.5, 3.0], spent=1.25)
    spans = Spans()
    spans.begin("a", one)
    spans.end("a", one)
    spans.begin("b", two)
    spans.begin("a", one)
    spans.end("b", two)
    spans.end("a", one)
    assert spans.parts() == {"a": Part(1.0, 4.0, None), "b": Part(1.5, 3.0, 1.25)}
    assert len(one.marks) == 3  # the second beginning is no command of its own


@pytest.mark.parametrize("times", [[None, 1.0], [1.0, None], [None, None]])
def test_a_device_without_a_clock_has_no_part(times):
    assert marked(a=times, b=[1.0, 2.0]) == {"b": Part(1.0, 2.0, None)}


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_no_part_ends_before_it_begins(start, stop):
    """Clocks of a device and of the host are fitted: a short part may seem to run backwards."""
    assert marked(a=[start, stop]) == {"a": Part(start, max(start, stop), None)}


def test_threads_mark_side_by_side():
    """One host thread for each device: all at the same moment, each its own name."""
    names = [f"name{n}" for n in range(8)]
    barrier, spans = Barrier(len(names)), Spans()

    def mark(number, name):
        session = _Session([float(number), number + 0.5])
        barrier.wait()
        spans.begin(name, session)
        spans.end(name, session)

    SystemClock().together([lambda n=n, name=name: mark(n, name) for n, name in enumerate(names)])
    assert spans.parts() == {name: Part(n, n + 0.5, None) for n, name in enumerate(names)}

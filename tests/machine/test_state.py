from __future__ import annotations

import time

import pytest
from trees import CPU

from gpumap.machine.state import Watch
from gpumap.model import State

START = "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 100 0 100 800 0 0 0 0 0 0"


def test_shares_are_of_the_time_since_the_last_look(desktop):
    """Busy is neither idle nor waiting nor stolen; "guest" is in "user" and not counted twice."""
    desktop.status("0-1").file("proc/loadavg", "1.25 0.9 0.4 3/89 3248")
    watch = Watch(desktop.file("proc/stat", START).root)
    desktop.file("proc/stat", "cpu  120 0 110 840 10 0 0 20 20 0")
    first = watch.read()
    desktop.file("proc/stat", "cpu  130 0 110 840 0 0 0 20 20 0")
    second = watch.read()

    clocks = {"cpu:0": 2.6e9, "cpu:1": 2.6e9}
    assert first == State(load1=1.25, steal=0.2, busy=0.3, clocks_hz=clocks)
    assert second == State(load1=1.25, steal=0.0, busy=1.0, clocks_hz=clocks)


def test_no_tick_no_share(desktop):
    """While no time has passed there is no share."""
    state = Watch(desktop.file("proc/stat", START).root).read()

    assert (state.steal, state.busy) == (None, None)


def test_governor_clocks_come_first(desktop):
    """The governor's clocks are preferred, and only those of processors that are ours."""
    desktop.status("1-2").file(f"{CPU}/cpu1/cpufreq/scaling_cur_freq", "3100000")
    desktop.file(f"{CPU}/cpu5/cpufreq/scaling_cur_freq", "800000")

    assert Watch(desktop.root).read().clocks_hz == {"cpu:1": 3.1e9}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "cpu",
        "cpu 1 2 3",
        "cpu a b c d e f g h",
        "intr 1 2 3 4 5 6 7 8",
        "nan",
        "\x00\xff",
        "-1",
    ],
)
def test_garbage(sketch, content):
    """What does not parse is unknown."""
    sketch.status("0").file("proc/stat", content).file("proc/loadavg", content)
    sketch.file(f"{CPU}/cpu0/cpufreq/scaling_cur_freq", content)
    watch = Watch(sketch.root)

    assert watch.read() == State(load1=None, steal=None, busy=None, clocks_hz={})


def test_this_machine():
    """On the real machine shares are shares, and every look starts a new span."""
    watch = Watch()
    deadline = time.monotonic() + 5
    while (state := watch.read()).busy is None and time.monotonic() < deadline:
        time.sleep(0.05)

    if state.busy is not None:
        assert 0 <= state.busy <= 1
        assert 0 <= state.steal <= 1
    assert all(rate > 0 for rate in state.clocks_hz.values())

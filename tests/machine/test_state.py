"""How busy the machine is and who else uses it; what holds its devices back."""

import os
from itertools import count
from types import SimpleNamespace

import psutil
import pytest
from tables import table

from gpumap.machine import state
from gpumap.machine.state import Neighbours, Watch, others
from gpumap.model import Around, Others, Process, State

TABLE = table(__file__)
START = "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 100 0 100 800 0 0 0 0 0 0"


def test_shares_are_of_the_time_since_the_last_look(desktop, monkeypatch):
    """Busy is neither idle nor waiting nor stolen; "guest" is in "user" and not counted twice."""
    monkeypatch.setattr(os, "getloadavg", lambda: (1.25, 0.9, 0.4))
    desktop.status("0-1")
    watch = Watch(desktop.file("proc/stat", START).root)
    none = watch.read()  # no time has passed
    desktop.file("proc/stat", "cpu  120 0 110 840 10 0 0 20 20 0")
    first = watch.read()
    desktop.file("proc/stat", "cpu  130 0 110 840 0 0 0 20 20 0")
    second = watch.read()
    assert (none.steal, none.busy) == (None, None)
    assert first == State(load1=1.25, steal=0.2, busy=0.3)
    assert second == State(load1=1.25, steal=0.0, busy=1.0)


CORES = 4


def seen(foreign, steal, before=None):
    return Around(foreign, steal, before, CORES)


@pytest.fixture
def neighbours(desktop, monkeypatch):
    """Return what is seen after so many seconds, own CPU seconds, and ticks of 10 ms."""
    moment, own = 1000.0, 50.0
    clock = SimpleNamespace(monotonic=lambda: moment, process_time=lambda: own)
    monkeypatch.setattr(state, "time", clock)
    monkeypatch.setattr(state.os, "cpu_count", lambda: CORES)
    monkeypatch.setattr(state.os, "times", lambda: (0.0,) * 5)  # children of other tests end
    watched = Neighbours(desktop.file("proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0").root)
    ticks = [100, 800, 0]  # busy, idle, stolen

    def look(seconds, spent, busy, idle, stolen=0):
        nonlocal moment, own
        moment, own = moment + seconds, own + spent
        for n, more in enumerate((busy, idle, stolen)):
            ticks[n] += more
        line = f"cpu  {ticks[0]} 0 100 {ticks[1]} 0 0 0 {ticks[2]} 0 0"
        desktop.file("proc/stat", line)
        return watched.read()

    return look


@pytest.mark.parametrize(("look", "expected"), TABLE["looks"])
def test_what_this_process_spends_is_not_its_neighbours(neighbours, look, expected):
    """The cores that are busy, less what this process had of them; what is stolen stands apart."""
    assert neighbours(*look) == seen(*(expected or (None, None)))


def test_each_look_is_for_the_time_since_the_last(neighbours):
    assert neighbours(1.0, 0.0, 400, 0) == seen(4.0, 0.0)
    assert neighbours(2.0, 2.0, 200, 600) == seen(0.0, 0.0)
    neighbours(0.1, 0.0, 40, 0)
    assert neighbours(1.0, 0.0, 0, 400) == seen(0.0, 0.0)


@pytest.mark.parametrize(("others", "before"), [(Others(1.5, 4, ()), 1.5), (None, None)])
def test_what_is_not_counted_is_not_known(sketch, monkeypatch, others, before):
    """Null, and not nothing; what others took before is: gpumap's own start is not theirs."""
    clock = SimpleNamespace(monotonic=count(0, 1).__next__, process_time=lambda: 0.0)
    monkeypatch.setattr(state, "time", clock)
    monkeypatch.setattr(state.os, "cpu_count", lambda: CORES)
    found = Neighbours(sketch.status("0").root, before=others)
    assert found.read() == seen(None, None, before)


@pytest.fixture
def looked(monkeypatch):
    """Return who is seen of processes that there are, and of what the kernel counts of others."""

    def look(*looks, foreign=None, parents=None, **lines):
        left = iter(looks)

        def process_iter(_):
            for (pid, start), seconds in next(left).items():
                times = None if seconds is None else SimpleNamespace(user=seconds, system=0.0)
                info = {"pid": pid, "create_time": start, "cpu_times": times}
                yield SimpleNamespace(info=info | {"ppid": (parents or {}).get(pid, 1)})

        def process(pid):
            if f"p{pid}" not in lines:
                raise psutil.NoSuchProcess(pid)
            line = lines[f"p{pid}"]
            name = (line or ("kworker",))[0]
            return SimpleNamespace(name=lambda: name, cmdline=lambda: list(line))

        monkeypatch.setattr(psutil, "process_iter", process_iter)
        monkeypatch.setattr(psutil, "Process", process)
        monkeypatch.setattr(Neighbours, "read", lambda _: Around(foreign))
        ticks = SimpleNamespace(monotonic=count(0, 0.5).__next__, sleep=lambda _: None,
                                process_time=lambda: 0.0)  # fmt: skip
        monkeypatch.setattr(state, "time", ticks)
        return others()

    return look


def test_who_took_how_much(looked):
    before = {(n, 1.0): 10.0 for n in range(1, 6)}
    after = {(1, 1.0): 10.0, (2, 1.0): 10.05, (3, 1.0): 10.2, (4, 1.0): 10.1, (5, 1.0): 10.15}
    found = looked(before, after, p3=("python", "train.py"), p4=("b",), p5=("c",))
    assert found.cores == pytest.approx(min(1.0, os.cpu_count()))
    named = [(process.pid, process.name) for process in found.processes]
    assert named == [(3, "python train.py"), (5, "c"), (4, "b")]
    assert [p.cores for p in found.processes] == [pytest.approx(c) for c in (0.4, 0.3, 0.2)]


def test_no_other_process_is_none(looked):
    """Processes that rest, that may not be asked, and this one with those that it has started."""
    look = {(1, 1.0): 10.0, (2, 1.0): None, (os.getpid(), 1.0): 0.0}
    assert looked(look, look | {(os.getpid(), 1.0): 9.0}) == Others(0.0, os.cpu_count(), ())
    started = {(70, 1.0): 0.5, (71, 1.0): 0.5}
    own = looked({}, started, parents={70: os.getpid(), 71: 70})
    assert own == Others(0.0, os.cpu_count(), ())
    # the kernel's counters know of other containers: no name, but no idleness either
    assert looked({}, {}, foreign=0.75) == Others(0.75, os.cpu_count(), ())


def test_only_what_a_user_can_end_is_named(looked):
    """Not what has ended; an id that comes again is another process, new since the first look."""
    found = looked({(7, 1.0): 500.0, (8, 1.0): 3.0}, {(7, 2.0): 0.05}, p7=("new",))
    assert found.processes == (Process(7, "new", pytest.approx(0.1)),)
    after = {(2, 1.0): 0.2, (3, 1.0): 0.15, (4, 1.0): 0.1}
    found = looked(dict.fromkeys(after, 0.0), after, p2=(), p4=("a",))
    assert [process.name for process in found.processes] == ["a"]
    assert found.cores == pytest.approx(min(0.9, os.cpu_count()))


@pytest.mark.parametrize(("line", "name"), TABLE["names"])
def test_a_name_without_secrets(looked, line, name):
    """The program, and a script that it runs; other arguments are private."""
    found = looked({(1, 1.0): 0.0}, {(1, 1.0): 0.5}, p1=line)
    assert [process.name for process in found.processes] == [name] * bool(name)

"""Who else uses the cores: by name, without secrets, and also where they cannot be seen."""

import os
from types import SimpleNamespace

import pytest

from gpumap.machine.state import name_of, others
from gpumap.model import Around, Others, Process


class System:
    class Error(Exception):
        """Stands in for psutil.Error."""

    def __init__(self, *looks, parents=None, **lines):
        self.looks = list(looks)
        self.parents = parents or {}
        self.lines = lines

    def process_iter(self, _):
        for (pid, start), seconds in self.looks.pop(0).items():
            times = None if seconds is None else SimpleNamespace(user=seconds, system=0.0)
            info = {"pid": pid, "create_time": start, "cpu_times": times}
            info["ppid"] = self.parents.get(pid, 1)
            yield SimpleNamespace(info=info)

    def Process(self, pid):  # noqa: N802  psutil's own name
        if f"p{pid}" not in self.lines:
            raise self.Error
        line = self.lines[f"p{pid}"]
        return SimpleNamespace(name=lambda: (line or ("kworker",))[0], cmdline=lambda: list(line))


def seen(*looks, foreign=None, **lines):
    return others(lambda _: None, System(*looks, **lines), lambda: Around(foreign))


def test_who_took_how_much():
    before = {(n, 1.0): 10.0 for n in range(1, 6)}
    after = {(1, 1.0): 10.0, (2, 1.0): 10.05, (3, 1.0): 10.2, (4, 1.0): 10.1, (5, 1.0): 10.15}
    found = seen(before, after, p3=("python", "train.py"), p4=("b",), p5=("c",))
    assert found.cores == pytest.approx(min(1.0, os.cpu_count()))
    named = [(process.pid, process.name) for process in found.processes]
    assert named == [(3, "python train.py"), (5, "c"), (4, "b")]
    assert [p.cores for p in found.processes] == [pytest.approx(c) for c in (0.4, 0.3, 0.2)]


def test_nobody_is_nobody():
    """Processes that rest, that may not be asked, and this one with those that it has started."""
    look = {(1, 1.0): 10.0, (2, 1.0): None, (os.getpid(), 1.0): 0.0}
    assert seen(look, look | {(os.getpid(), 1.0): 9.0}) == Others(0.0, os.cpu_count(), ())
    started = {(70, 1.0): 0.5, (71, 1.0): 0.5}
    own = seen({}, started, parents={70: os.getpid(), 71: 70})
    assert own == Others(0.0, os.cpu_count(), ())
    # the kernel's counters know of other containers: no name, but no idleness either
    assert seen({}, {}, foreign=0.75) == Others(0.75, os.cpu_count(), ())


def test_only_what_a_user_can_end_is_named():
    """Not what has ended; an id that comes again is another process, new since the first look."""
    found = seen({(7, 1.0): 500.0, (8, 1.0): 3.0}, {(7, 2.0): 0.05}, p7=("new",))
    assert found.processes == (Process(7, "new", pytest.approx(0.1)),)
    after = {(2, 1.0): 0.2, (3, 1.0): 0.15, (4, 1.0): 0.1}
    found = seen(dict.fromkeys(after, 0.0), after, p2=(), p4=("a",))
    assert [process.name for process in found.processes] == ["a"]
    assert found.cores == pytest.approx(min(0.9, os.cpu_count()))


@pytest.mark.parametrize(("line", "name"), [
    (("python", "train.py"), "python train.py"),
    (("python3.11", "/home/me/work/train.py"), "python3.11 train.py"),
    (("python", "-c", "secret"), "python"), (("mysql", "-psecret"), "mysql"),
    (("curl", "https://me:secret@example.org/x"), "curl"),
    (("java", "secret token.py"), "java"), (("x" * 200, "y" * 200 + ".py"), "x" * 40),
    (("kthreadd",), "kthreadd"), (("", ""), ""), ((), ""),
])  # fmt: skip
def test_a_name_without_secrets(line, name):
    """The program, and a script that it runs; other arguments are nobody's business.

    One that has ended, or may not be asked, has none.
    """
    assert name_of(1, System(p1=line)) == name
    assert name_of(2, System(p1=line)) == ""

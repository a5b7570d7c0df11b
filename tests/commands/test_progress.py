"""What a watcher of a run sees on a terminal, block by block."""

import io
import threading

import pytest
from shell import on_a_terminal
from tables import table

from gpumap.app.output import Output, Progress
from gpumap.app.program import Program
from gpumap.engine.base import Settings
from gpumap.model import Case, Group, Plan, Work, replace

TABLE = table(__file__)
SETTINGS = Settings(budget=60.0, timeout=600.0)
GROUP, LATER = (Group((Case("dot", "one", {"size": n}, (), Work()),)) for n in (64, 128))
QUIET = Output(quiet=True)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_tells_what_is_measured(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    program = Program((), {}, ".", io.StringIO(), terminal)
    progress = Progress(program, Output(), SETTINGS)
    with progress, progress.bar():
        progress.planned(Plan((GROUP,)))
        progress.block(GROUP, 0.5)
    assert "dot 64" in terminal.getvalue()
    assert "50 %" in terminal.getvalue()


class Clock:
    def __init__(self, end):
        self.time, self.end, self.asked = 0.0, end, threading.Event()

    def now(self):
        return self.time

    def wait(self, seconds):
        self.asked.set()
        self.time = min(self.time + seconds, self.end)
        return self.time == self.end


def watched(clock, stderr, output=QUIET, settings=SETTINGS, argv=("bench", "dot", "--size", "64")):
    program = Program(argv, {}, ".", io.StringIO(), stderr)
    return Progress(program, output, settings, clock.now, clock.wait)


@pytest.mark.parametrize(("end", "ended", "doing", "seconds"), TABLE["logs"])
def test_a_log_hears_every_30_seconds_what_is_done(end, ended, doing, seconds):
    """Nothing before; by the clock, also where no block ends in the meantime."""
    log = io.StringIO()
    progress = watched(Clock(end), log)
    if ended is not None:
        progress.planned(Plan((GROUP, LATER)))
        for _ in range(ended):
            progress.ended(())
    progress.beat()
    lines = [f"gpumap: {doing}, {second} s of 60 s" for second in seconds]
    assert log.getvalue().splitlines() == lines


@pytest.mark.parametrize(("argv", "command"), [
    (("transfer-cost", "a->cpu0"), "transfer-cost"),
    (("selftest",), "selftest"), (("bench", "train", "--quiet"), "bench train"),
])  # fmt: skip
def test_a_terminal_hears_at_once_what_is_done(argv, command):
    """In a line of its own; later a bar tells it there."""
    terminal, clock = Terminal(), Clock(1000)
    with watched(clock, terminal, Output(), argv=argv):
        said = terminal.getvalue()
    assert said == f"gpumap: {command}: looking for devices, 0 s of 60 s\n"
    assert not clock.asked.is_set()


@pytest.mark.parametrize("stderr", [io.StringIO, Terminal])
@pytest.mark.parametrize(
    ("output", "settings"), [(QUIET, SETTINGS), (Output(), replace(SETTINGS, dry_run=True))]
)
def test_progress_is_shown_only_where_it_is_wanted(stderr, output, settings):
    stream, clock = stderr(), Clock(1000)
    with watched(clock, stream, output, settings) as progress, progress.bar():
        progress.planned(Plan((GROUP,)))
    assert (stream.getvalue(), clock.asked.is_set()) == ("", False)


def test_a_terminal_gets_no_signs_that_it_cannot_show(gpumap):
    """No line of hundreds of escapes: tables are of plain signs."""
    run = gpumap.fake('[[device]]\nref = "cuda0"\n\n[[device]]\nref = "cuda1"\n')
    options = ("--map", "a->cuda0;b->cuda1", "--size", "64", "--budget", "5s", "--quiet")
    code, shown = on_a_terminal(run, "bench", "dot", *options, columns=100,
                                PYTHONIOENCODING="ascii")  # fmt: skip
    assert code == 0
    assert r"\u" not in shown

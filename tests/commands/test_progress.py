"""What a watcher of a run sees on a terminal and in a log."""

import io
import re
import threading

import pytest
from shell import on_a_terminal
from tables import table

from gpumap.app.output import Output, Progress
from gpumap.app.program import Program
from gpumap.engine.base import Settings
from gpumap.model import replace

TABLE = table(__file__)
SETTINGS = Settings(budget=60.0, timeout=600.0)
QUIET = Output(quiet=True)


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    def __init__(self, end):
        self.time, self.end, self.asked = 0.0, end, threading.Event()

    def now(self):
        return self.time

    def wait(self, seconds):
        self.asked.set()
        self.time = min(self.time + seconds, self.end)
        return self.time == self.end

    def set(self):
        self.end = self.time


@pytest.fixture
def watched(monkeypatch):
    def made(clock, stderr, output=QUIET, settings=SETTINGS, argv=("bench", "dot", "--size", "64")):
        monkeypatch.setattr("gpumap.app.output.monotonic", clock.now)
        progress = Progress(Program(argv, {}, ".", io.StringIO(), stderr), output, settings)
        progress.over = clock
        return progress

    return made


@pytest.mark.parametrize(("end", "seconds"), TABLE["log"])
def test_a_log_hears_every_30_seconds_what_is_done(watched, end, seconds):
    """Nothing before; by the clock, whatever is done in the meantime."""
    log = io.StringIO()
    progress = watched(Clock(end), log)
    progress.doing = "measuring"
    progress.beat()
    lines = [f"gpumap: measuring, {second} s of 60 s" for second in seconds]
    assert log.getvalue().splitlines() == lines


@pytest.mark.parametrize(("argv", "command"), TABLE["called"])
def test_a_terminal_has_one_line_that_is_written_again(watched, argv, command):
    terminal = Terminal()
    watched(Clock(1.0), terminal, Output(), argv=tuple(argv)).beat()
    line = f"gpumap: {command}: looking for devices, 0 s of 60 s"
    assert terminal.getvalue() == f"\r{line:79}\r"


def test_a_time_limit_finds_the_line_empty(gpumap):
    """What is printed then is not behind the rest of a longer line."""
    run = gpumap.fake('[[device]]\nref = "cuda0"\nfault = "hang"\n')
    options = ("--map", "a->cuda0", "--size", "64", "--timeout", "2s", "--format", "plain")
    code, shown = on_a_terminal(run, "bench", "dot", *options, columns=100, both=True)
    assert code == 124
    last = shown[: shown.index("Stopped by the time limit")].rpartition("gpumap: ")[2]
    assert re.search(r"\r +\r", last)


@pytest.mark.parametrize("stderr", [io.StringIO, Terminal])
@pytest.mark.parametrize(
    ("output", "settings"), [(QUIET, SETTINGS), (Output(), replace(SETTINGS, dry_run=True))]
)
def test_progress_is_shown_only_where_it_is_wanted(watched, stderr, output, settings):
    stream, clock = stderr(), Clock(1000)
    with watched(clock, stream, output, settings):
        pass
    assert (stream.getvalue(), clock.asked.is_set()) == ("", False)

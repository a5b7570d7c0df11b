"""What a real terminal shows, of 80 columns, of 40, and a dumb one: tmux has its screen."""

import os
import shlex
import shutil
import subprocess
import time
from itertools import count

import pytest
from scripts import script
from shell import BIN

pytestmark = pytest.mark.skipif(
    not shutil.which("tmux"), reason="no terminal to look at: apt-get install tmux"
)
PAIR = "a->cuda0;b->cuda1"
COMMANDS = [
    ("check", PAIR), ("devices",), ("bench", "dot", "--map", PAIR, "--size", "64"),
    ("bench", "allreduce", "--map", PAIR, "--sizes", "4KiB"), ("bench", "train", "--map", PAIR),
    ("transfer-cost", "--map", PAIR, "--sizes", "small"), ("predict", "--from", "theano-mpi"),
    ("doctor", "a->cuda0"), ("explain", "speedup"),
]  # fmt: skip
END = "-- the end --"
PATIENCE = 60.0  # seconds
LINES = 400


@pytest.fixture
def screen(gpumap):
    """Return what runs a line in a terminal of so many columns, and what is on its screen then."""
    gpumap.fake(script())
    sockets = (str(gpumap.folder / f"tmux{number}") for number in count())  # none in use

    def shown(line, columns, *, joined=False, term="screen"):
        server = ["tmux", "-S", next(sockets), "-f", os.devnull]
        variables = {**gpumap.env, "TERM": term, "PATH": f"{BIN}:{gpumap.env['PATH']}"}
        words = [f"{key}={value}" for key, value in variables.items()]
        whole = f"{shlex.join(['env', '-i', *words])} {line}; echo '{END}'; sleep {PATIENCE:g}"
        size = ("-x", str(columns), "-y", str(LINES))
        command = [*server, "new-session", "-d", "-s", "it", *size, whole]
        subprocess.run(command, check=True, env=gpumap.env, timeout=PATIENCE)
        try:
            return _captured([*server, "capture-pane", "-p", "-t", "it"], joined=joined)
        finally:
            subprocess.run([*server, "kill-server"], check=True, timeout=PATIENCE)

    return shown


def _captured(command, *, joined):
    """Return the lines of the screen as they stand, and as they were before they were broken."""
    until = time.monotonic() + PATIENCE
    while True:
        seen = [
            subprocess.run([*command, *more], capture_output=True, check=True, text=True).stdout
            for more in ((), ("-J",))
        ]
        if END in seen[0] or time.monotonic() > until:
            break
        time.sleep(0.05)
    stand, whole = ([line.rstrip() for line in text.split("\n")] for text in seen)
    assert END in stand, seen[0]
    stand, whole = stand[: stand.index(END)], whole[: whole.index(END)]
    return whole if joined else (stand, whole)


def test_a_terminal_that_is_asked_too_little_is_seen_to_break_lines(screen):
    """The test's own eye: a line that is too long does not stand as it was."""
    stand, whole = screen(f"echo {'x' * 100}", 80)
    assert (len(stand), len(whole)) == (2, 1)


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_no_line_is_broken_by_the_terminal(screen, command, columns):
    """Lines are broken between words, tables are laid out anew: what stands is what was written.

    But for what is there to be pasted, which stays one line.
    """
    quiet = () if command[0] in ("explain", "predict") else ("--quiet",)
    stand, whole = screen(f"gpumap {shlex.join((*command, *quiet))}", columns)
    pasted = [line for line in whole if line.startswith("gpumap check ")]
    assert [line for line in whole if line not in pasted and line not in stand] == []
    assert len(whole) > 1


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("line", [
    "gpumap check 'a->cuda0;b->cuda0'",
    "gpumap check --strict 'a->cuda0;b->cuda0'",
    "gpumap bench dot --map a->cuda0 --cases many --budget nonsense",
    "gpumap explain there_is_no_topic_of_such_a_name",
])  # fmt: skip
def test_what_is_said_beside_a_result_is_broken_between_words(screen, line, columns):
    """On stderr too: notes, warnings, errors and their fixes."""
    stand, whole = screen(line.replace("a->cuda0 ", "'a->cuda0' "), columns)
    assert [line for line in whole if line not in stand] == []
    assert any(line.startswith(("note: ", "warning: ", "error: ")) for line in whole)

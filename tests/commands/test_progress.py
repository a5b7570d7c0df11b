"""What a watcher of a run sees on a terminal, block by block."""

from __future__ import annotations

import io

import pytest
from shell import on_a_terminal

from gpumap.app.output import Output
from gpumap.app.program import Program
from gpumap.app.progress import Progress
from gpumap.bench.seen import Seen
from gpumap.model import Case, Group, Plan, Work

GROUP = Group((Case("dot", "one", {"size": 64}, (), Work()),))


class Terminal(io.StringIO):
    """What keeps all that a terminal is told."""

    def isatty(self):
        """Say that it is one."""
        return True


@pytest.mark.parametrize(
    ("blocks", "look", "width", "told"),
    [(1, 20, None, "dot 64: 1 block, interval at 20"),
     (19, 20, None, "dot 64: 19 blocks, interval at 20"),
     (20, 40, 0.0123, "dot 64: 20 blocks, ±1.2% of ±2%")],
)  # fmt: skip
def test_the_first_interval_is_announced(monkeypatch, blocks, look, width, told):
    """Of fewer blocks there is none to trust: who watches is told when it comes."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    program = Program((), {}, ".", io.StringIO(), terminal)

    with Progress(program, Output(), 0.02) as progress:
        progress.planned(Plan((GROUP,)))
        progress.block(Seen(GROUP, 0.5, blocks, look, width, {}))

    assert told in terminal.getvalue()


@pytest.mark.parametrize(("encoding", "drawn"), [("utf-8", True), ("ascii", False)])
def test_a_terminal_gets_no_signs_that_it_cannot_show(gpumap, encoding, drawn):
    """No line of hundreds of escapes: there are no bars, and tables are of plain signs."""
    run = gpumap.fake('[[device]]\nref = "cuda0"\n\n[[device]]\nref = "cuda1"\n')
    options = ("--map", "a->cuda0;b->cuda1", "--size", "64", "--budget", "5s", "--quiet")

    code, shown = on_a_terminal(run, "bench", "dot", *options, columns=100,
                                PYTHONIOENCODING=encoding)  # fmt: skip

    assert code == 0
    assert ("speed-up: " in shown, "─" in shown) == (drawn, drawn)
    assert r"\u" not in shown

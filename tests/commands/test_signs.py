"""A terminal whose encoding has few signs."""

from __future__ import annotations

import pytest
from shell import on_a_terminal


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

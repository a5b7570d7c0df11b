"""What a terminal of 80 columns, or of 40, gets: no line that it would have to break."""

import pytest
from rich.cells import cell_len
from scripts import script
from shell import COLOURS, on_a_terminal

PAIR = "a->cuda0;b->cuda1"
COMMANDS = [
    ("check", PAIR), ("devices",), ("bench", "dot", "--map", PAIR, "--size", "64"),
    ("bench", "allreduce", "--map", PAIR, "--sizes", "4KiB"), ("bench", "train", "--map", PAIR),
    ("transfer-cost", "--map", PAIR, "--sizes", "small"), ("doctor", "a->cuda0"),
]  # fmt: skip
SAID = [  # on stderr too: notes, warnings, errors and their fixes
    ("check", "a->cuda0;b->cuda0"), ("check", "--strict", "a->cuda0;b->cuda0"),
    ("bench", "dot", "--map", "a->cuda0", "--cases", "many", "--budget", "nonsense"),
    ("explain", "there_is_no_topic_of_such_a_name"),
    ("predict", "--from", "theano-mpi"), ("explain", "speedup"),
]  # fmt: skip


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize(
    "command", [*((*words, "--quiet") for words in COMMANDS), *SAID], ids=lambda words: words[:2]
)
def test_no_line_is_broken_by_the_terminal(gpumap, command, columns):
    """Lines are broken between words, tables are laid out anew; what is to be pasted stays one."""
    _, shown = on_a_terminal(gpumap.fake(script()), *command, columns=columns, both=True)
    lines = COLOURS.sub("", shown).splitlines()
    broken = [line for line in lines if cell_len(line) > columns]
    assert [line for line in broken if not line.startswith("gpumap check ")] == []
    assert len(lines) > 1

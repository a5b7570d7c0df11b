"""The programs of examples/ run as their first lines say, with whatever map they are given."""

import re
import sys

import pytest
from written import ROOT

FOLDER = ROOT / "examples"
PROGRAMS = sorted(FOLDER.glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_a_program_runs_as_it_is_and_says_how(gpumap, program):
    """Without gpumap trace, and without a map: on the default one. README names it too."""
    answer, text = gpumap.run([sys.executable, str(program), "64"]), program.read_text()
    assert (answer.code, answer.err) == (0, "")
    assert answer.out
    assert re.search("gpumap (trace --map|bench train|scale|run --cfg)", text)
    assert set(re.findall(r"examples/[a-z_]+\.py", text)) == {f"examples/{program.name}"}
    assert program.name in (FOLDER / "README.md").read_text()

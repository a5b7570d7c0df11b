"""The programs of examples/ run as their first lines say, with whatever map they are given."""

import re
import sys

import pytest
from flat_report import loads
from written import ROOT

FOLDER = ROOT / "examples"
PROGRAMS = sorted(FOLDER.glob("*.py"))
TWO_DOTS = FOLDER / "two_dots.py"


def traced(gpumap, text, size="64"):
    answer = gpumap("trace", "--map", text, "--output", "report.json", str(TWO_DOTS), size)
    assert (answer.code, answer.err) == (0, "")
    (trace,) = loads((gpumap.folder / "report.json").read_text())["traces"]
    return answer.out, trace


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_a_program_runs_as_it_is_and_says_how(gpumap, program):
    """Without gpumap trace, and without a map: on the default one. README names it too."""
    answer, text = gpumap.run([sys.executable, str(program), "64"]), program.read_text()
    assert (answer.code, answer.err) == (0, "")
    assert answer.out
    assert re.search("gpumap (trace --map|bench train|scale|run --cfg)", text)
    assert set(re.findall(r"examples/[a-z_]+\.py", text)) == {f"examples/{program.name}"}
    assert program.name in (FOLDER / "README.md").read_text()


@pytest.mark.parametrize(("text", "where"), [
    ("dev0->cpu0;dev1->cpu0", ["dev0", "dev1"]), ("only->cpu0", ["only", "only"]),
    ("x->cpu0;y->cpu;z->cpu0", ["x", "z"]),
])  # fmt: skip
def test_the_products_go_where_the_names_are(gpumap, text, where):
    """By the names of the map alone: not a line changes, and nothing is moved unasked."""
    out, trace = traced(gpumap, text)
    assert [e["device"] for e in trace["events"] if e["name"] == "dot"] == where
    assert [event for event in trace["events"] if event["implicit"]] == []
    assert all(f"{name} on {device}: " in out for name, device in zip("ab", where, strict=True))

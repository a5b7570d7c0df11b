"""`gpumap report`: saved reports shown again, side by side; the schema."""

import re

import jsonschema
import pytest
from flat_report import loads
from report_schema import SCHEMA, validate
from saved_reports import COMMANDS, signed, written


@pytest.mark.parametrize("name", COMMANDS)
def test_a_report_is_shown_as_its_run_showed_it(gpumap, name):
    """On stdout as the run did, and on stderr what the run said; the exit code is not the run's."""
    run = written(name)
    plain, json_ = (gpumap("report", str(run.path), "--format", f) for f in ("plain", "json"))
    assert (plain.out, json_.out) == (run.others["plain"], run.text)
    validate(run.tree)
    assert plain.err == re.sub(r"^gpumap: .*\n", "", run.err, flags=re.MULTILINE)
    assert (plain.code, json_.code) == (0, 0)


def test_the_schema_is_the_published_one(gpumap):
    answer = gpumap("report", "--schema")
    assert (answer.code, answer.err, loads(answer.out)) == (0, "", SCHEMA)
    jsonschema.validate(written("copies").tree, loads(answer.out))


def test_flags_and_how_a_run_ended_are_not_lost(gpumap):
    """A figure that is not to be trusted is marked here too, and so is a run cut short."""
    tree = written("dot").tree
    for row in tree["result"]["measurements"]:
        row["flags"] = ["unstable"] if row["case"]["name"] == "one" else []
    (gpumap.folder / "first.json").write_text(signed(tree))
    (gpumap.folder / "second.json").write_text(written("time limit").text)
    out = gpumap("report", "first.json", "second.json", "-v").out
    assert re.search(r" second\.json \(simulated, (another machine, )?timeout\)", out)
    assert out.count("] unstable") == 1


def test_the_same_name_twice_is_told_apart_by_the_path(gpumap):
    (gpumap.folder / "a").mkdir()
    for name in ("first.json", "a/first.json"):
        (gpumap.folder / name).write_text(written("dot").text)
    out = gpumap("report", "first.json", "a/first.json").out
    assert "  first.json (simulated)" in out
    assert "  a/first.json (simulated)" in out


def test_quiet_leaves_out_notes_and_nothing_else(gpumap):
    run = written("absent")
    answer = gpumap("report", str(run.path), "--quiet")
    assert "note:" in run.err
    assert "note:" not in answer.err
    assert "error in entry 2: b: cuda9 is not there" in answer.err

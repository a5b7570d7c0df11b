"""`gpumap report`: saved reports shown again, side by side; the schema."""

import json
import re

import jsonschema
import pytest
from flat_report import loads
from report_schema import SCHEMA, validate
from saved_reports import COMMANDS, signed, written


@pytest.fixture
def reports(gpumap):
    for number, (name, factor) in enumerate([("first", 1.0), ("second", 0.5)]):
        tree = written("dot").tree | {"started": f"2026-11-2{9 - number}T20:12:03.123Z"}
        for row in tree["result"]["measurements"]:
            samples = row["samples"]
            samples["seconds"] = [factor * seconds for seconds in samples["seconds"]]
            for metric, change in (("time", factor), ("rate", 1 / factor)):
                figure = row["metrics"][metric]
                figure |= {key: change * figure[key] for key in ("value", "low", "high")}
        (gpumap.folder / f"{name}.json").write_text(signed(tree))
    return gpumap


@pytest.mark.parametrize("name", COMMANDS)
def test_a_report_is_shown_as_its_run_showed_it(gpumap, name):
    """On stdout as the run did, and on stderr what the run said; the exit code is not the run's."""
    of_the_run = r"^note: (?:the map leaves unused|no map is given): .*\n  hint: .*\n"
    run = written(name)
    plain, json_ = (gpumap("report", str(run.path), "--format", f) for f in ("plain", "json"))
    assert (plain.out, json_.out) == (run.others["plain"], run.text)
    validate(run.tree)
    assert plain.err == re.sub(of_the_run, "", run.err, flags=re.MULTILINE)
    assert (plain.code, json_.code) == (0, 0)


def test_the_schema_is_the_published_one(gpumap):
    answer = gpumap("report", "--schema")
    assert (answer.code, answer.err, loads(answer.out)) == (0, "", SCHEMA)
    jsonschema.validate(written("copies").tree, loads(answer.out))


def test_flags_and_how_a_run_ended_are_not_lost(reports):
    """A figure that is not to be trusted is marked here too, and so is a run cut short."""
    diagnostic = dict.fromkeys(("name", "entry", "span", "hint"))
    diagnostic |= {"code": "interrupted", "message": "x", "severity": "error"}
    problem = {"diagnostic": diagnostic, "exit": 130}
    cut = {"status": "interrupted", "exit_code": 130, "errors": [problem]}
    for name, flags, more in (("first", [], {}), ("second", ["unstable"], cut)):
        path = reports.folder / f"{name}.json"
        tree = json.loads(path.read_text()) | more
        for row in tree["result"]["measurements"]:
            row["flags"] = flags if row["case"]["name"] == "one" else []
        path.write_text(signed(tree))
    out = reports("report", "first.json", "second.json", "-v").out
    assert "second.json (simulated, interrupted)" in out
    assert out.count("] unstable") == 1


def test_the_same_name_twice_is_told_apart_by_the_path(reports):
    (reports.folder / "a").mkdir()
    (reports.folder / "a" / "first.json").write_text((reports.folder / "first.json").read_text())
    out = reports("report", "first.json", "a/first.json").out
    assert "  first.json (simulated)" in out
    assert "  a/first.json (simulated)" in out


def test_quiet_leaves_out_notes_and_nothing_else(gpumap):
    run = written("absent")
    answer = gpumap("report", str(run.path), "--quiet")
    assert "note:" in run.err
    assert "note:" not in answer.err
    assert "error in entry 2: b: cuda9 is not there" in answer.err

"""`gpumap report`: saved reports shown again, side by side; lists of nodes; the schema."""

import json
import re

import jsonschema
import pytest
from flat_report import loads
from report_schema import SCHEMA, validate
from saved_reports import COMMANDS, signed, written
from scripts import script


@pytest.mark.parametrize("name", COMMANDS)
def test_a_report_is_shown_as_its_run_showed_it(gpumap, name):
    """On stdout as the run did, and on stderr what the run said; the exit code is not the run's."""
    run = written(name)
    plain, json_ = (gpumap("report", str(run.path), "--format", f) for f in ("plain", "json"))
    assert (plain.out, json_.out) == (run.out, run.text)
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


def test_a_folder_of_reports_becomes_two_lists(gpumap):
    """A node without a device, one whose report is cut off, and one that another command wrote."""
    folder = gpumap.folder / "checks"
    folder.mkdir()
    sound = gpumap.fake(script({}, latency=5e-6))
    within = ("--within", "50s", "--output")
    assert sound("preflight", "a->cuda0", *within, "checks/node1.json").code == 0
    assert sound("preflight", "a->cuda9", *within, "checks/node2.json").code == 3
    (folder / "node5.json").write_text((folder / "node1.json").read_text())
    for path in (folder / "node1.json", folder / "node2.json"):  # as if of a machine
        path.write_text(signed(json.loads(path.read_text()) | {"simulated": False}))
    (folder / "node3.json").write_text((folder / "node1.json").read_text()[:2000])
    assert sound("check", "a->cuda0", "--output", "checks/node4.json").code == 0
    answer = gpumap("report", "--nodes", "checks")
    assert answer.code == 0, answer.err
    found = dict(re.findall(r"^ *(node\d) +(\S+)", answer.out, re.MULTILINE))
    unknown = dict.fromkeys(("node3", "node4", "node5"), "cannot-tell")  # node5 is simulated
    assert found == {"node1": "fit", "node2": "missing"} | unknown
    assert (folder / "passing.txt").read_text() == "node1\n"
    assert (folder / "failing.txt").read_text() == "node2\nnode3\nnode4\nnode5\n"
    assert answer.out.startswith("1 of 5 nodes are fit\n")

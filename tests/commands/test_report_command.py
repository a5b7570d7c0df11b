"""`gpumap report`: saved reports shown again, side by side, over time; the schema."""

from __future__ import annotations

import json
import re
import subprocess
from importlib import resources

import jsonschema
import pytest
from saved_reports import COMMANDS, written
from shell import COLOURS, Answer, on_a_terminal

SCHEMA = (resources.files("gpumap.report") / "schema-1.json").read_text()
USAGE = "error: name a saved report or ask for the schema: one of the two\n"
DOT = "dot.many[backend=fake,dtype=float32,names=a+b,size=64]"


@pytest.fixture
def reports(gpumap):
    """Return a shell with three reports: the second is faster, the third of another machine."""
    for number, (name, factor, machine) in enumerate(
        [("first", 1.0, None), ("second", 0.5, None), ("third", 2.0, "sha256:" + "0" * 64)]
    ):
        tree = written("dot").tree | {"started": f"2026-11-2{9 - number}T20:12:03.123Z"}
        for row in tree["measurements"]:
            row["samples"] = [factor * seconds for seconds in row["samples"]]
            for metric, change in (("time", factor), ("rate", 1 / factor)):
                figure = row["metrics"][metric]
                figure |= {key: change * figure[key] for key in ("value", "low", "high")}
        tree["fingerprint"]["hash"] = machine or tree["fingerprint"]["hash"]
        (gpumap.folder / f"{name}.json").write_text(json.dumps(tree))
    return gpumap


# --- one report


@pytest.mark.parametrize("name", COMMANDS)
def test_a_report_is_shown_as_its_run_showed_it(gpumap, name):
    """On stdout as the run did, and on stderr what the run said; the exit code is not the run's."""
    run = written(name)

    plain, json_ = (gpumap("report", str(run.path), "--format", f) for f in ("plain", "json"))

    assert (plain.out, json_.out) == (run.others["plain"], run.text)
    assert plain.err == run.err
    assert (plain.code, json_.code) == (0, 0)


def test_a_comparison_is_shown_again(reports):
    """It is a report as any other: verdicts, errors and exit code come back."""
    outputs = ("--output", "json=c.json", "--output", "plain=c.txt")
    judged = reports("compare", "first.json", "second.json", *outputs)

    plain, json_ = (reports("report", "c.json", "--format", f) for f in ("plain", "json"))

    assert judged.code in (0, 5)
    assert (plain.out, json_.out) == tuple(
        (reports.folder / name).read_text() for name in ("c.txt", "c.json")
    )
    assert (plain.err, plain.code) == (judged.err, 0)


def test_a_base_that_was_accepted_is_shown_again(reports):
    """With the entry that says why it is one."""
    reports("compare", "first.json", "second.json", "--accept", "a new library")

    answer = reports("report", "first.json", "--format", "json")

    assert answer.out == (reports.folder / "first.json").read_text()
    assert [entry["reason"] for entry in json.loads(answer.out)["accepted"]] == ["a new library"]


def test_quiet_leaves_out_notes_and_nothing_else(gpumap):
    """What went wrong in the run is said all the same."""
    run = written("absent")

    answer = gpumap("report", str(run.path), "--quiet")

    assert "note:" in run.err
    assert "note:" not in answer.err
    assert "error in entry 2: b: cuda9 is not there" in answer.err


def test_a_report_is_written_in_any_format(gpumap):
    """To files too, each in its own."""
    answer = gpumap(
        "report", str(written("dot").path), "--output", "a.md", "--output", "csv=b", "--format",
        "junit",
    )  # fmt: skip

    assert (answer.code, answer.out.startswith("<?xml")) == (0, True)
    assert (gpumap.folder / "a.md").read_text().startswith("#")
    assert (gpumap.folder / "b").read_text().startswith("record,id,")


def test_on_a_terminal_a_report_has_colours(gpumap):
    """As the run itself would have had."""
    code, seen = on_a_terminal(gpumap, "report", str(written("dot").path), columns=120)

    assert (code, bool(COLOURS.search(seen))) == (0, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "it is JSON, but no report of gpumap"),
        ('{"tool": {"name": "gpumap"}, "schema_version": 2}', "$.schema_version: it is not one"),
        ("[1, NaN]", "$[1]: NaN is no JSON"),
        ("\x1b[2J", "it is no JSON"),
    ],
)
def test_what_is_no_report_is_exit_2(gpumap, text, said):
    """With what is wrong, where, and the fix; never a traceback, never a half table."""
    (gpumap.folder / "x.json").write_text(text)

    answer = gpumap("report", "x.json")

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: cannot read the report x.json: {said}")
    assert "\n  fix: " in answer.err
    assert answer.err.replace("\n", "").isprintable()


def test_every_file_that_cannot_be_read_is_named(reports):
    """At once, not one after the other."""
    (reports.folder / "empty.json").touch()

    answer = reports("report", "none.json", "first.json", "empty.json")

    assert (answer.code, answer.out) == (2, "")
    assert re.findall("the report (.*?):", answer.err) == ["none.json", "empty.json"]


@pytest.mark.parametrize("arguments", [(), ("--schema", "first.json")])
def test_one_thing_is_asked_for(reports, arguments):
    """Reports, or the schema."""
    answer = reports("report", *arguments)

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(USAGE)


def test_the_schema_is_the_published_one(gpumap):
    """To the letter; reports are valid by it."""
    answer = gpumap("report", "--schema")

    assert Answer(0, SCHEMA, "") == answer
    jsonschema.validate(written("copies").tree, json.loads(answer.out))


def test_a_closed_pipe_is_141(gpumap):
    """As everywhere."""
    command = f"{gpumap.command} report --schema | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], env=gpumap.env, cwd=gpumap.folder, check=False, capture_output=True
    )

    assert (done.returncode, done.stderr) == (141, b"")


# --- several


def test_several_reports_stand_side_by_side(reports):
    """A column for each file; times and gains with their intervals, the ratio to the first."""
    answer = reports("report", "first.json", "second.json")

    title, heading, *lines = answer.out.splitlines()
    assert title == "2 reports side by side"
    assert re.split(" {2,}", heading.strip()) == [
        "row", "metric", "first.json (simulated)", "second.json (simulated)",
    ]  # fmt: skip
    (many,) = (line for line in lines if line.startswith(f"  {DOT}"))
    cells = re.fullmatch(rf"  {re.escape(DOT)} +time +(.*\]) +(.*\])  x0\.500", many).groups()
    assert all(re.fullmatch(r"[\d.]+ [mµn]?s \[[\d.]+, [\d.]+\]", cell) for cell in cells)
    assert [line.split()[0] for line in lines].count("speedup") == 3
    assert "anchor" not in answer.out
    assert lines[-1] == (
        "  x1.05: as many times the figure of first.json; no verdict: `gpumap compare` judges"
    )
    assert (answer.code, answer.err) == (0, "")


@pytest.mark.parametrize("over_time", [(), ("--over-time", "dot.one.time")])
def test_flags_and_how_a_run_ended_are_not_lost(reports, over_time):
    """A figure that is not to be trusted is marked here too, and so is a run cut short."""
    first = json.loads((reports.folder / "first.json").read_text())
    for row in first["measurements"]:
        row["flags"] = []
    (reports.folder / "first.json").write_text(json.dumps(first))
    tree = json.loads((reports.folder / "second.json").read_text()) | {
        "status": "interrupted",
        "exit_code": 130,
        "errors": [
            dict.fromkeys(("name", "entry", "span", "hint"))
            | {"code": "interrupted", "message": "x", "exit": 130, "severity": "error"}
        ],
    }
    for row in tree["measurements"]:
        row["flags"] = ["unstable"] if row["case"] == "one" else []
    (reports.folder / "second.json").write_text(json.dumps(tree))

    out = reports("report", "first.json", "second.json", *over_time).out
    cells = json.loads(
        reports("report", "first.json", "second.json", *over_time, "--format", "json").out
    )["rows"]

    assert "second.json (simulated, interrupted)" in out
    assert "] unstable" in out
    times = [line["cells"] for line in cells if line["metric"] == "time"]
    flagged = [[cell["flags"] for cell in two] for two in times if any(c["flags"] for c in two)]
    assert flagged in ([[[], ["unstable"]]], [[["unstable"], []]])


def test_another_machine_is_noted(reports):
    """Its figures are shown all the same: who judges is another command."""
    answer = reports("report", "first.json", "second.json", "third.json")

    notes = [line for line in answer.out.splitlines() if "machine" in line]
    assert notes == [
        "  third.json is of another machine than first.json: `gpumap compare` says what differs"
    ]
    assert answer.code == 0


def test_a_script_beside_hardware_is_noted(reports):
    """A scripted figure is no figure of a device."""
    answer = reports("report", str(written("real").path), "first.json")

    assert "  first.json is simulated: its figures are a script's\n" in answer.out


def test_the_same_name_twice_is_told_apart(reports):
    """By the path; the same file twice by a number; and no name is that of another column."""
    (reports.folder / "a").mkdir()
    text = (reports.folder / "first.json").read_text()
    for name in ("a/first.json", "row", "metric"):
        (reports.folder / name).write_text(text)

    found = json.loads(
        reports("report", "first.json", "a/first.json", "first.json", "row", "metric", "--format",
                "json").out
    )  # fmt: skip

    assert [each["label"] for each in found["reports"]] == [
        "first.json", "a/first.json", "first.json (2)", "row (2)", "metric (2)",
    ]  # fmt: skip


def test_a_hostile_file_name_does_no_harm(reports):
    """In none of the forms."""
    name = "\x1b[31m[bold]\n|\u202e.json"
    (reports.folder / name).write_text((reports.folder / "first.json").read_text())

    for format_ in ("plain", "rich", "json"):
        answer = reports("report", "first.json", name, "--format", format_, COLUMNS="200")
        assert answer.code == 0
        assert answer.out.replace("\n", "").isprintable()
        assert r"\u001b" in answer.out or r"\x1b[31m[bold]\n|\u202e.json" in answer.out


def test_side_by_side_in_json_has_every_figure(reports):
    """Rows with a cell for each report, in the order of the reports."""
    answer = reports("report", "first.json", "third.json", "--format", "json")

    found = json.loads(answer.out, parse_constant=pytest.fail)
    (rate,) = (r for r in found["rows"] if (r["id"], r["metric"]) == (DOT, "rate"))
    (time,) = (r for r in found["rows"] if (r["id"], r["metric"]) == (DOT, "time"))
    assert list(found) == ["reports", "rows", "notes"]
    assert [r["other_machine"] for r in found["reports"]] == [False, True]
    assert [cell["ratio"] for cell in rate["cells"]] == [1.0, 0.5]
    assert [cell["ratio"] for cell in time["cells"]] == [1.0, 2.0]
    assert time["cells"][0] == {
        "status": "ok", "figure": _time(written("dot").tree), "ratio": 1.0, "flags": [],
    }  # fmt: skip
    assert [row for row in found["rows"] if row["id"].startswith("anchor.")]


def _time(tree):
    return next(row["metrics"]["time"] for row in tree["measurements"] if row["id"] == DOT)


def test_a_failed_row_says_so_in_its_cell(gpumap):
    """And what a report does not have is a dash."""
    paths = (str(written(name).path) for name in ("copies", "wrong data"))

    answer = gpumap("report", *paths)

    assert re.search(r"names=a>wrong,.* +- +-$", answer.out, re.MULTILINE) is None
    assert re.search(r"bytes=4096,.*names=a,.* time .*\]  x1\.00$", answer.out, re.MULTILINE)
    assert (answer.code, answer.err) == (0, "")


@pytest.mark.parametrize("form", [("--format", "csv"), ("--output", "a.md")])
def test_formats_of_one_report_are_refused_for_several(reports, form):
    """Before anything is read."""
    answer = reports("report", "first.json", "none.json", *form)

    format_ = {"csv": "csv", "a.md": "markdown"}[form[1]]
    assert answer == Answer(
        2, "", f"error: {format_} is a format of one report\n"
        "  fix: name one FILE, or take one of plain, rich, json, html\n",
    )  # fmt: skip


def test_several_reports_are_written_to_files_too(reports):
    """Each in its format."""
    answer = reports(
        "report", "first.json", "second.json", "--output", "a.json", "--output", "a.txt"
    )

    assert (reports.folder / "a.txt").read_text() == answer.out
    assert len(json.loads((reports.folder / "a.json").read_text())["reports"]) == 2


# --- over time


def test_a_figure_is_followed_in_the_order_of_the_runs(reports):
    """By when they started, with intervals; where the machine changed, it says so."""
    answer = reports("report", "first.json", "second.json", "third.json", "--over-time",
                     "dot.many.time")  # fmt: skip

    title, heading, *lines = answer.out.splitlines()
    found = [re.split(" {2,}", line.strip()) for line in lines]
    assert title == f"{DOT}.time"
    assert heading.split() == ["started", "report", "figure", "to", "the", "first", "machine"]
    assert [(moment, label, *rest) for moment, label, _, *rest in found] == [
        ("2026-11-27T20:12:03.123Z", "third.json (simulated)", "-", "-"),
        ("2026-11-28T20:12:03.123Z", "second.json (simulated)", "0.250", "changed"),
        ("2026-11-29T20:12:03.123Z", "first.json (simulated)", "0.500", "same"),
    ]
    assert all(re.fullmatch(r"[\d.]+ [mµn]?s \[[\d.]+, [\d.]+\]", line[2]) for line in found)
    assert (answer.code, answer.err) == (0, "")


def test_keys_choose_among_rows(gpumap):
    """One report is enough; a row of another size is not meant."""
    path = str(written("sizes").path)

    both = gpumap("report", path, "--over-time", "dot.many.speedup")
    one = gpumap("report", path, "--over-time", "dot.many[size=32].speedup")

    assert [line for line in both.out.splitlines() if line.startswith("dot.")] == [
        f"dot.many[backend=fake,dtype=float32,names=a+b,size={size}].speedup" for size in (32, 64)
    ]
    assert one.out in both.out
    assert one.out.count("dot.many") == 1


def test_over_time_in_json(reports):
    """The reports in the order of their runs, and whether the machine changed before each."""
    answer = reports("report", "first.json", "third.json", "--over-time", f"{DOT}.time",
                     "--format", "json")  # fmt: skip

    found = json.loads(answer.out)
    assert [(r["label"], r["other_machine"]) for r in found["reports"]] == [
        ("third.json", False), ("first.json", True),
    ]  # fmt: skip
    assert [(row["id"], row["metric"]) for row in found["rows"]] == [(DOT, "time")]
    assert [cell["ratio"] for cell in found["rows"][0]["cells"]] == [1.0, 0.5]


def test_a_figure_that_no_report_has_is_exit_2(reports):
    """With what there is instead: an empty table would look like an answer."""
    answer = reports("report", "first.json", "--over-time", "dot.many[size=999].speedup")

    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        "error: no report has a figure of dot.many[size=999].speedup\n"
        "  fix: there are dot.many.speedup, dot.many+fetch.speedup, "
        "dot.many+fetch+threads.speedup\n"
    )


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ("dot.many", '"dot" has no case'),
        ("dit.many.speedup", 'no benchmark is called "dit"'),
        ("dot.manny.speedup", 'dot has no case "manny"'),
        ("dot.many.speed", 'dot.many has no metric "speed"'),
        ("dot.many[colour=red].speedup", 'no row has a key "colour"'),
        ("\x1b[2J", 'no "]" follows "["'),
    ],
)
def test_what_selects_nothing_at_all_is_said_with_its_place(reports, selector, said):
    """Before anything is read."""
    answer = reports("report", "none.json", "--over-time", selector)

    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert answer.err.replace("\n", "").isprintable()


# --- many rows


def test_a_terminal_gets_the_first_rows_and_is_told(gpumap):
    """Of ten thousand rows nobody reads more than some; the other formats have all of them."""
    tree = written("dot").tree
    row = tree["measurements"][0]
    tree["measurements"] += [
        row | {"id": row["id"].replace("size=64", f"size={1000 + n}"),
               "params": row["params"] | {"size": 1000 + n}}
        for n in range(600)
    ]  # fmt: skip
    (gpumap.folder / "many.json").write_text(json.dumps(tree))
    every = sum(row["bench"] == "dot" for row in tree["measurements"])

    rich = gpumap("report", "many.json", "--format", "rich", "--quiet", COLUMNS="160")
    plain = gpumap("report", "many.json", "--format", "plain", "--quiet")
    both = gpumap("report", "many.json", "many.json", "--format", "rich", COLUMNS="250")

    said = f"the first 500 of {every} rows are shown; --format plain or json has all of them\n"
    assert said in rich.out
    assert rich.out.count("solo") == 500 - (every - 600) + 2
    assert plain.out.count("solo") == 602
    assert "rows are shown" not in plain.out
    assert "the first 500 of 610 rows are shown" in both.out


def test_a_training_is_followed_by_its_own_figures(gpumap):
    """Examples per second and the loss, each in the unit that it has, through two reports."""
    tree = written("train").tree | {"started": "2999-11-29T20:12:03.123Z"}
    for row in tree["measurements"]:
        if (rate := row["metrics"].get("examples_per_s")) is not None:
            rate |= {key: 0.5 * rate[key] for key in ("value", "low", "high")}
    later = gpumap.folder / "later.json"
    later.write_text(json.dumps(tree))
    paths = (str(written("train").path), str(later))

    rates, losses = (
        gpumap("report", *paths, "--over-time", f"train.step[network=mlp-8,rule=easgd].{metric}")
        for metric in ("examples_per_s", "loss")
    )

    assert (rates.code, losses.code) == (0, 0)
    assert re.search(r"later\.json.* k/s \[.*  0\.500 +same\n", rates.out)
    assert re.search(r"later\.json.*  0\.\d\d \[.*  1\.00 +same\n", losses.out)

"""Saved reports come back as they were; what no run has written is refused, and why is said."""

import copy
import gc
import json
import math
import os
import re
import sys
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import refusal
from report_schema import VALIDATOR
from saved_reports import COMMANDS, FORMATS, signed, written
from tables import table

from gpumap import saved
from gpumap.engine import stats
from gpumap.errors import SourceError
from gpumap.model import shape
from gpumap.report import Style, render
from gpumap.training.steps import PHASES

TABLE = table(__file__)
AGAIN = "measure again with --output FILE.json; a report that was edited proves nothing"
GONE = object()
UNSIGNED = {"digest": ""}
FEWER = settings(max_examples=60, suppress_health_check=list(HealthCheck))


def put(tmp_path, tree):
    path = tmp_path / "report.json"
    path.write_text(tree if isinstance(tree, str) else signed(tree), encoding="utf-8")
    return path


def read(tmp_path, tree):
    return saved.read(put(tmp_path, tree))


def again(tmp_path, tree):
    """Return the report of a tree; written once more it is that tree."""
    found = read(tmp_path, tree)
    assert json.loads(render("json", found, Style())) | UNSIGNED == tree | UNSIGNED
    return found


def refused(path):
    found, start = refusal(SourceError, saved.read, path), f"cannot read the report {path}: "
    assert found.message.startswith(start)
    return found.message.removeprefix(start), found.hint


def refused_tree(tmp_path, tree):
    return refused(put(tmp_path, tree))


def edited(tree, path, value):
    tree = copy.deepcopy(tree)
    place = tree
    for step in path[:-1]:
        place = place[step]
    if value is GONE:
        del place[path[-1]]
    else:
        place[path[-1]] = value(place[path[-1]]) if callable(value) else value
    return tree


PAGES = ("dot", "copies", "train")  # whose charts are drawn in every run of the tests


@pytest.mark.parametrize("name", COMMANDS)
def test_a_report_comes_back_as_it_was(name, full, tmp_path):
    """Every format shows what was read as it showed what was written, JSON byte for byte."""
    run = written(name)
    formats = set(FORMATS) if full or name in PAGES else set(FORMATS) - {"html"}
    found = saved.read(run.path)
    assert render("json", found, Style()) == run.text
    assert repr(found) == repr(read(tmp_path, run.text))  # also what no format shows
    assert all(render(format_, found, Style()) == run.others[format_] for format_ in formats)
    assert (found.exit_code, found.argv[: len(COMMANDS[name])]) == (run.code, COMMANDS[name])


def test_devices_of_two_kinds_have_two_backends(tmp_path):
    tree = written("dot").tree
    tree["map"]["text"] = "a->cuda0;b->cpu1"
    tree["map"]["entries"][1] |= {"requested": "cpu1", "device": "cpu:1"}
    tree["devices"][1] |= {"id": "cpu:1", "kind": "cpu", "ref": "cpu1", "backend": "numpy"}
    for row in tree["measurements"]:
        row["devices"] = ["cuda:0" if name == "a" else "cpu:1" for name in row["names"]]
        parts = ["cupy" if name == "a" else "pygpu" for name in row["names"]]
        row["backend"] = "+".join(parts)
        for key in ("id", "against"):
            name = (row[key] or "").partition("names=")[2].partition(",")[0]
            joined = "+".join("cupy" if part == "a" else "pygpu" for part in name.split("+"))
            row[key] = row[key] and row[key].replace("backend=fake", f"backend={joined}")
    found = again(tmp_path, tree)
    many = next(row for row in found.measurements if len(row.case.names) > 1)
    assert [binding.device.backend for binding in many.case.bindings] == ["cupy", "pygpu"]
    assert gc.isenabled()  # it is off while a report is read


FREE = (
    ("argv", 0), ("devices", 0, "name"), ("devices", 0, "driver"), ("devices", 0, "hardware", 0),
    ("backends", 0, "version"), ("fingerprint", "cpu"), ("fingerprint", "os"),
    ("fingerprint", "libraries", "openblas_core"), ("fingerprint", "libraries", "openblas"),
    ("environment", "OMP_NUM_THREADS"), ("map", "notes", 0, "message"),
    ("map", "notes", 0, "hint"), ("settings", "anything"), ("measurements", 0, "ceiling", "source"),
    ("measurements", 1, "check", "method"),
)  # fmt: skip
SENTENCE = st.text(st.characters(), max_size=40)


@FEWER
@given(texts=st.tuples(*[SENTENCE] * len(FREE)))
def test_any_text_comes_back_and_does_nothing(tmp_path, texts):
    """Escape sequences, markup, lone surrogates: kept in JSON, harmless in the others."""
    tree = written("real").tree
    tree["map"]["notes"] = written("check").tree["map"]["notes"]
    for path, text in zip(FREE, texts, strict=True):
        tree = edited(tree, path, text)
    found = again(tmp_path, tree)
    for format_ in FORMATS:
        shown = render(format_, found, Style(width=200))
        assert shown.replace("\n", "").isprintable()
    assert texts[1] in tree["devices"][0]["name"]


FIGURES = st.floats(0.0, 1e300, exclude_min=True)
SECOND = {"unit": "s"}


@FEWER
@given(seconds=st.lists(FIGURES, min_size=6, max_size=9), rate=st.floats(0.0) | st.integers(0, 99))
def test_numbers_come_back_to_the_last_digit(tmp_path, seconds, rate):
    tree = written("real").tree | {"elapsed_s": 1e308}
    row = tree["measurements"][0]
    n, found = len(seconds), stats.location(seconds, 0.95, positive=True, slow=False)
    marks = [{"sample": sample, "mark": "outlier", "detail": ""}
             for sample, _ in stats.outliers(seconds)]  # fmt: skip
    row |= {"samples": seconds, "blocks": list(range(n)), "queue_s": seconds, "cpu_s": [],
            "intervals": {}, "worked_s": {}, "sample_notes": marks, "control_s": [],
            "iterations_per_sample": 1}  # fmt: skip
    row["metrics"] = {"fetch": _figure(rate, "s")}
    row["metrics"]["time"] = {"value": found.value, "low": found.low, "high": found.high} | SECOND
    found = again(tmp_path, tree)
    assert repr(found.measurements[0].metrics["fetch"].high) == repr(rate)


def _figure(value, unit):
    finite = math.isfinite(value)
    ends = dict.fromkeys(("value", "low", "high"), value if finite else None)
    return {**ends, "unit": unit} | ({} if finite else {"nonfinite": str(value)})


ROW = ("measurements", 3)  # of `many`
PHASED = ("measurements", 0, "phases_s")  # of a training


def more(old):
    return [*old, old[-1]]


def less(old):
    return old[:-1]


def first(value):
    return lambda old: [value, *old[1:]]


WRITTEN = json.loads(Path(__file__).with_name("test_saved_edits.json").read_text(encoding="utf-8"))
EDITS = [  # of a run of products: path, value, and what is said of it
    *((tuple(path), GONE if value == {"gone": True} else value, said)
      for path, value, said in WRITTEN),
    ((*ROW, "samples"), less, "it must be as long as samples"),
    ((*ROW, "samples"), first(0.0), "in a row that is ok it is a time above 0"),
    ((*ROW, "samples"), first(-1.0), "expected `float` >= 0"),
    ((*ROW, "blocks"), more, "it must be as long as samples"),
    ((*ROW, "blocks"), lambda old: old[::-1], "they are not in the order of time"),
    ((*ROW, "intervals", "a", "stop_s"), less, "it must be as long as samples"),
    ((*ROW, "queue_s"), less, "it must be as long as samples"),
]  # fmt: skip
NEEDED = [  # every gpumap that writes this version writes them all
    ("dot", ("notes",)), ("dot", ("accepted",)), ("dot", ("map", "notes", 0, "name")),
    ("dot", ("devices", 0, "link")), ("limit", ("errors", 0, "severity")),
    ("dot, dry", ("plans", 0, "groups")), ("selftest", ("selftest", "round_trips", 0, "ref")),
    ("copies", ("fits", 0, "lines")), ("predict", ("prediction",)), ("published", ("published",)),
]  # fmt: skip


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("key", ["metrics", "phases_s"])
def test_a_training_without_one_of_its_phases_is_refused(tmp_path, key, phase):
    """What a step goes into is told of all phases, and no format could tell it of some."""
    tree = written("train").tree
    row = next(r for r in tree["measurements"] if r["status"] == "ok" and phase in r[key])
    del row[key][phase]
    refused_tree(tmp_path, tree)


def test_a_name_that_the_map_does_not_have_is_refused(tmp_path):
    """A row is of names of the map; here everything else says the same."""
    tree = written("dot").tree
    row = tree["measurements"][0]
    row |= {"names": ["c"], "id": row["id"].replace("names=a", "names=c")}
    row |= {key: {"c": row[key]["a"]} for key in ("intervals", "worked_s") if row[key]}
    place, _, said = refused_tree(tmp_path, tree)[0].partition(": ")
    assert (place, said) == ("$.measurements[0].names[0]", 'the map has no name "c"')


@pytest.mark.parametrize(("name", "path", "value", "reason"), [
    *TABLE["parts"],
    *(("dot", *edit) for edit in EDITS),
    ("train", (*PHASED, "input"), less, "it must be as long as samples"),
    ("train", (*PHASED, "input"), first(-1.0), "expected `float` >= 0"),
    ("train", ("measurements", 0, "params", "scaling"), GONE, "a row of train has one"),
    ("copies", ("fits", 0, "id"), lambda old: old.replace("h2d", "d2h"), "the id is a duplicate"),
    ("copies", ("fits",), lambda old: [*old, old[0]], "no fitted row has this id"),
    ("copies", ("break_evens",), lambda old: [*old, old[0]], 'duplicate id "transfer.affine['),
    ("copies", ("break_evens", 0, "shares"), {"-1": {}}, "expected `str` matching"),
    ("copies", ("break_evens", 0, "id"), "transfer affine", "expected `str` matching"),
    ("dot", ("measurements", 0, "id"), "dot.one[size]", "expected `str` matching"),
    ("dot", ("headline", "row"), "no row", "expected `str` matching"),
    ("dot, dry", ("plans", 0, "cases"), lambda old: [*old, "dot.x[]"], "no row has the id"),
    *((name, path, GONE, f"missing required field `{path[-1]}`") for name, path in NEEDED),
])  # fmt: skip
def test_every_part_of_a_report_is_looked_at(tmp_path, name, path, value, reason):
    """The message has the place in the file, and the hint what to do instead."""
    looked_at(tmp_path, name, path, value, reason)


@pytest.mark.parametrize(("name", "path", "value", "reason"), [
    ("dot", ("measurements",), lambda old: [*old, old[0]], 'duplicate id "dot.solo['),
    ("dot, dry", ("plans", 0, "groups"), lambda old: old[:-1], "they are not of"),
], ids=["rows", "groups"])  # fmt: skip
def test_each_case_is_there_once(tmp_path, name, path, value, reason):
    looked_at(tmp_path, name, path, value, reason)


def looked_at(tmp_path, name, path, value, reason):
    message, hint = refused_tree(tmp_path, edited(written(name).tree, path, value))
    place, said = re.fullmatch(
        r"(\$(?:\.[a-z0-9_]+|\[[0-9]+\]|\[\.\.\.\])+: )?(.*)", message
    ).groups()
    assert place or len(path) == 1  # of the report itself there is none
    assert reason in said
    assert hint == AGAIN


@pytest.mark.parametrize(("format_", "what"), [
    ("html", "an HTML page"), ("junit", "JUnit XML"), ("csv", "CSV"), ("markdown", "Markdown"),
    ("plain", "plain text"),
])  # fmt: skip
def test_another_form_of_a_report_is_named_with_the_file_to_give(tmp_path, format_, what):
    """The JSON of the same run: by its name where it stands beside it."""
    path = tmp_path / f"page.{format_}"
    path.write_text(render(format_, saved.read(written("check").path), Style()))
    alone = refused(path)
    (tmp_path / "page.json").touch()
    beside = refused(path)
    assert {alone[0], beside[0]} == {f"it is {what}, not JSON"}
    assert "--output FILE.json" in alone[1]
    assert beside[1].endswith(f" {tmp_path}/page.json")


@pytest.mark.parametrize(("text", "message"), [
    ("", "it is empty"),
    ("dev0->cuda0", "it is not JSON: expecting value (line 1, column 1)"),
    ('{"tool": ]', "it is not JSON: expecting value (line 1, column 10)"),
    ('{"tool": {}}}', "it is not JSON: extra data (line 1, column 13)"),
    ('{"tool": {"name": "gpum', "it ends too early (line 1, column 19)"),
    ("[" * 1_000_000, "its brackets are nested too deeply"),
    ('{"tool": {"name": "gpumap", "x": ' + "[" * 100_000, "its brackets are nested too deeply"),
    ('{"a": [1, {"b": NaN}]}', "$.a[1].b: NaN is not JSON"),
    ('{"a": -Infinity}', "$.a: -Infinity is not JSON"), ("[1e400]", "$[0]: 1e400 is too large"),
    ("[-1e999999999]", "$[0]: -1e999999999 is too large"),
    ('{"a": 1' + "0" * 5000 + "}", "$.a: a whole number of 5001 digits is too long"),
    ('{"a": 1, "b": {"c": 1, "d": 2, "c": 3}}', "$.b.c: duplicate key"),
    ("{}", "it is JSON, but no report of gpumap"), ("[]", "it is JSON, but no report of gpumap"),
    ('{"tool": "gpumap"}', "it is JSON, but no report of gpumap"),
    ('{"tool": {"name": "hyperfine"}, "results": []}', "it is JSON, but no report of gpumap"),
], ids=lambda text: text[:12])  # fmt: skip
def test_what_is_no_report_is_refused(tmp_path, text, message):
    """By what it is instead; where that has a place, with it."""
    assert refused_tree(tmp_path, text)[0] == message


def test_a_report_that_is_cut_off_anywhere_is_refused(tmp_path):
    """No part of a report is taken for the whole, wherever the disk was full."""
    text = written("check").text.rstrip().replace("Fake device", "\\u00e9\\n", 1)
    said = {refused_tree(tmp_path, text[:length])[0].partition(" (")[0]
            for length in range(1, len(text))}  # fmt: skip
    assert said == {"it ends too early"}


@pytest.mark.parametrize("version", [0, 1, 3, 10**9, -1, 2.0, True, "2", None, [2]])
def test_another_version_is_refused(tmp_path, version):
    """Only what is known is read: a newer gpumap may mean something else by a key."""
    message, _ = refused_tree(tmp_path, edited(written("dot").tree, ("schema_version",), version))
    assert message == "$.schema_version: this gpumap reads version 2 alone"


def test_what_was_edited_is_refused_or_marked(tmp_path):
    """By its digest, whatever was edited; read all the same, a warning says so in every format."""
    path = put(tmp_path, json.dumps(written("dot").tree | {"elapsed_s": 1.25}))
    message, hint = refused(path)
    found = saved.read(path, edited=True)
    assert message == "$.digest: it was edited after it was written"
    assert "--accept-edited" in hint
    assert found.elapsed == 1.25
    assert [(n.code, n.severity) for n in found.notes][-1] == ("edited", "warning")
    assert saved.read(written("dot").path, edited=True).notes[-1:] != found.notes[-1:]


def test_an_edit_of_any_key_is_seen(tmp_path):
    """But of those by which the file is known for a report that this gpumap reads."""
    tree = written("limit").tree
    for key in tree.keys() - {"tool", "schema_version"}:
        message, _ = refused(put(tmp_path, json.dumps(tree | {key: "edited"})))
        assert (key, message) == (key, "$.digest: it was edited after it was written")


def test_a_list_that_would_take_all_memory_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(saved, "_VALUES", 1000)
    for list_ in ("[0" + ",0" * 1001 + "]", "[" + "[]," * 1001 + "0]"):
        message, _ = refused(put(tmp_path, f'{{"tool": {list_}}}'))
        assert message == "it holds more than 1,000 values"


def test_what_is_wrong_is_said_in_a_line(tmp_path):
    """However long it is; and by which gpumap it was."""
    tree = edited(written("dot").tree, (*ROW, "id"), "\x1b[2J\n" + "x" * 100_000)
    other = edited(tree, ("tool", "version"), "9.9.9\x1b[2J" + "9" * 999)
    message, _ = refused_tree(tmp_path, edited(tree, ("measurements", 2, "id"), "\x1b[2J\u202e"))
    _, hint = refused_tree(tmp_path, other)
    assert len(message) <= 200
    assert hint.startswith("gpumap 9.9.9\x1b[2J99999999999 wrote it, and this is ")
    assert hint.endswith(AGAIN)


def test_keys_of_a_newer_gpumap_are_passed_over(tmp_path):
    """Within a version, keys may be added; and a report may be laid out otherwise."""
    more = {"novel": {"deep": [1, None]}}
    tree = written("dot").tree | more
    tree["measurements"] = [row | more for row in tree["measurements"]]
    assert render("json", read(tmp_path, tree), Style()) == written("dot").text
    read(tmp_path, json.dumps(written("dot").tree, sort_keys=True, indent=3))


@pytest.mark.timeout(20)
def test_what_is_too_large_is_refused_at_once(tmp_path):
    """Of 500 MB of nothing the size alone is looked at."""
    path = tmp_path / "report.json"
    path.touch()
    os.truncate(path, 500 * 2**20)
    assert refused(path)[0] == f"it is larger than {256 * 2**20} bytes"


def test_the_phases_of_a_step_are_those_that_are_measured():
    """One more or less, and a report could not be read back, or too much could."""
    assert get_args(shape.Phase) == PHASES


STRANGE = st.sampled_from([
    None, True, False, 0, -1, 1, 2, 10**18, -(10**18), 0.0, -0.5, 1.5, 1e308, -1e308, 5e-324, "",
    "ok", "a", "\x1b[2J", "\ud800", "x" * 300, [], {}, [None], [[]], [0, 0], {"": 0}, {"a": []},
    {"value": None, "low": None, "high": None, "unit": "s", "nonfinite": "nan"},
    {"value": 1.0, "low": 1.0, "high": None, "unit": "B", "nonfinite": "inf"},
])  # fmt: skip


@st.composite
def places(draw, tree):
    path = []
    while isinstance(tree, dict | list) and tree and (not path or draw(st.integers(0, 5))):
        step = draw(st.sampled_from(list(tree) if isinstance(tree, dict) else range(len(tree))))
        path.append(step)
        tree = tree[step]
    return tuple(path)


@pytest.mark.timeout(1200)  # however busy the machine is
@settings(max_examples=75, suppress_health_check=list(HealthCheck))
@pytest.mark.parametrize("name", ["dot", "copies", "selftest", "dot, dry", "devices", "limit",
                                  "predict", "published"])  # fmt: skip
@given(data=st.data())
def test_whatever_is_edited_is_refused_or_does_no_harm(tmp_path, full, name, data):
    """A file that is read is one that the schema knows, and every format can show."""
    tree = written(name).tree
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(places(tree))
        tree = edited(tree, path, data.draw(STRANGE | st.just(GONE)))
    try:
        found = read(tmp_path, tree)
    except SourceError as error:
        assert all(d.hint for d in error.diagnostics)  # noqa: PT017 - it need not be refused
        return
    again = json.loads(render("json", found, Style()))
    assert [(e.json_path, e.message) for e in VALIDATOR.iter_errors(again)] == []
    pages = ("html",) if full else ()  # charts take a library its time
    for format_ in ("plain", "rich", "csv", "markdown", "junit", "github", *pages):
        assert render(format_, found, Style()) is not None


def calls(action, *arguments):
    events = []
    sys.setprofile(lambda _frame, event, _argument: events.append(event))
    try:
        action(*arguments)
    finally:
        sys.setprofile(None)
    return events.count("call")


def many_rows(n):
    tree = written("dot").tree
    row = tree["measurements"][0]
    more = [
        row | {"id": row["id"].replace("size=64", f"size={size}"),
               "params": row["params"] | {"size": size}}
        for size in range(1000, 1000 + n)
    ]  # fmt: skip
    return signed(tree | {"measurements": [*tree["measurements"], *more]})


@pytest.mark.parametrize("format_", [None, "json", *FORMATS])
def test_the_work_grows_with_the_rows_and_no_faster(tmp_path, format_):
    """Reading and showing: each further row takes as many calls as those before it."""
    work = []
    for n in (100, 200, 300):
        found = read(tmp_path, text := many_rows(n))
        action = (read, tmp_path, text) if format_ is None else (render, format_, found, Style(120))
        work.append(calls(*action))
    assert work[2] - work[1] <= 1.1 * (work[1] - work[0])

"""`gpumap compare`, --base and --ab: verdicts, exit codes, accepting, confirming, failing."""

import json
import os
import shutil
import sys

import pytest
from saved_reports import signed, written
from scripts import RATE, asked, report, script
from tables import table

from gpumap.app import sides
from gpumap.app.program import Program
from gpumap.errors import DeviceError, QuestionError
from gpumap.model.io import read

TABLE = table(__file__)
TWO = "a->cuda0;b->cuda1"
RATIO = pytest.approx(1.276, rel=3e-3)  # of the slow launches
SLOW = TABLE["made"]["new"][0]  # a small product takes more, no control does


def dot(gpumap, *arguments, map_="a->cuda0", cases="solo", **env):
    """Run a small benchmark; small products need no time to be multiplied for real."""
    given = ("--size", "64", "--cases", cases, "--map", map_)
    return gpumap("bench", "dot", *given, "--quiet", *arguments, **env)


def saved(gpumap, name, *arguments, **env):
    dot(gpumap, "--output", f"json={name}", *arguments, **env)


@pytest.fixture(scope="module")
def measured(another):
    """Reports, measured once for all tests: `new` is of a device that launches more slowly."""
    shell = another()
    for name, (keys, arguments) in TABLE["made"].items():
        saved(shell.fake(script(keys or {})), f"{name}.json", *arguments)
    return shell.folder


@pytest.fixture
def pair(gpumap, measured):
    shutil.copytree(measured, gpumap.folder, dirs_exist_ok=True)
    return gpumap.fake(script({}, **SLOW))


def compare(gpumap, *arguments, base="base.json", new="new.json", **env):
    return gpumap("compare", base, new, *arguments, **env)


def notes(answer):
    every = [(n["code"], n["severity"]) for n in report(answer)["map"]["notes"]]
    return [note for note in every if note[0] != "simulated"]


def codes(answer):
    return [(error["code"], error["exit"]) for error in report(answer)["errors"]]


@pytest.mark.parametrize(("base", "new", "more", "code", "words"), TABLE["words"])
def test_what_the_words_are_in_exit_codes(pair, base, new, more, code, words):
    """What is allowed is said all the same; nothing in common is no pass, whatever is allowed.

    The map that is shown is that of the new report.
    """
    answer = compare(pair, *more, "--format", "json", base=f"{base}.json", new=f"{new}.json")
    assert answer.code == code
    if "nothing" in (base, new):
        return
    assert [verdict["verdict"] for verdict in report(answer)["verdicts"]] == words.split()
    told = {word for word, _ in codes(answer)} - {"nothing-judged"}
    assert not words or report(answer)["map"]["text"] == "a->cuda0"
    assert told == (set(words.split()) - {"pass", "shown"} if words else {"not-comparable"})
    assert (("nothing-judged", 1) in codes(answer)) == (new == "other" or base == "two")


@pytest.mark.parametrize(("keys", "new", "code", "word", "told"), TABLE["confirmed"])
def test_a_regression_is_confirmed_by_a_second_run(pair, keys, new, code, word, told):
    """What cannot be measured again is no pass; the saved report stays as it was."""
    before = (pair.folder / "new.json").read_bytes()  # it names this file as its output
    pair.fake(script(keys or {}))
    answer = compare(pair, "--confirm", "--format", "json", new=f"{new}.json")
    (verdict,) = report(answer)["verdicts"]
    assert (answer.code, verdict["verdict"]) == (code, word)
    assert [severity for _, severity in notes(answer)] == told
    assert (verdict["reason"] == "runs-differ") == (word == "inconclusive")
    assert (verdict["value"] == RATIO) == (word != "pass")
    assert (pair.folder / "new.json").read_bytes() == before


@pytest.mark.parametrize(("argv", "why"), TABLE["a_report_of_another_command_is_not_run"])
def test_a_report_of_another_command_is_not_run(pair, argv, why):
    """Its command line is text from a file: only what measures is run, with options it knows."""
    path = pair.folder / "new.json"
    path.write_text(signed(json.loads(path.read_text()) | {"argv": argv}))
    answer = compare(pair, "--confirm", "--format", "json")
    assert answer.code == 1
    assert any(why in note["message"] for note in report(answer)["map"]["notes"])


@pytest.mark.parametrize(("keys", "arguments", "code", "verdicts"), TABLE["with_a_base"])
def test_a_run_is_compared_with_its_base_where_it_went_well(pair, keys, arguments, code, verdicts):
    """Limit and base can both say no; what failed keeps its exit code, and has no verdict."""
    given = ("--base", "base.json", *arguments, "--format=json")
    answer = dot(pair.fake(script(keys or {})), *given, OMP_NUM_THREADS="3")
    assert answer.code == code
    assert not verdicts or ("differs", "note") in notes(answer)  # of the variable
    assert [[v["rule"], v["verdict"]] for v in report(answer)["verdicts"]] == verdicts


@pytest.mark.parametrize(("rate", "given", "name"), TABLE["reference"])
def test_the_reference_runs_where_it_ran_in_the_base(gpumap, rate, given, name):
    """Its row has the same id then: it is not missing, however fast the devices are now."""
    two = ({"name": "Fake GPU A"}, {"name": "Fake GPU B", "rate": 1.25 * RATE})
    saved(gpumap.fake(script(*two)), "base.json", cases="one", map_=TWO)
    two[1]["rate"] = rate * RATE
    answer = dot(gpumap.fake(script(*two)), *given, "--format", "json", cases="one", map_=TWO)
    assert [row["names"] for row in asked(report(answer))] == [[name]]
    assert "missing" not in answer.err


@pytest.mark.parametrize("name", ["nothing", "dry", "wrong"])
def test_a_base_that_cannot_be_used_is_told_before_anything_is_measured(pair, name):
    pair.fake('log = "commands.log"\n' + script({}))
    answer = dot(pair, "--base", f"{name}.json")
    assert (answer.code, answer.out, (pair.folder / "commands.log").exists()) == (2, "", False)


def test_a_base_of_another_machine_is_not_compared(gpumap):
    """Nor a script with hardware: nothing is measured for it."""
    saved(gpumap.fake(script()), "base.json", map_="a->cuda1")
    given = ("--base", "base.json", "--format", "json")
    refused = dot(gpumap, *given)
    real = dot(gpumap, *given, map_="a->cpu0", GPUMAP_BACKEND="numpy")
    saved(gpumap, "base.json", map_=TWO)
    turned = dot(gpumap, *given, map_="b->cuda0;a->cuda1")  # the same devices by other names
    for answer, code in (
        (refused, "other-machine"), (real, "not-comparable"), (turned, "other-machine"),
    ):  # fmt: skip
        (error,) = report(answer)["errors"]
        assert (answer.code, error["code"]) == (2, code)
        assert {row["status"] for row in report(answer)["measurements"]} == {"skipped"}


def test_a_base_that_was_skipped_is_no_error_where_the_device_is_still_absent(gpumap):
    """Once it is there, such a base is refused, before anything is measured."""
    fake, given = gpumap.fake(script()), ("--if-absent", "skip", "--base", "base.json")
    saved(fake, "base.json", *given[:2], map_="a->cuda9")
    skipped, refused = dot(fake, *given, map_="a->cuda9"), dot(fake, *given, "--format", "json")
    assert (skipped.code, "Skipped" in skipped.out) == (0, True)
    assert "not compared" not in skipped.out
    (error,) = report(refused)["errors"]
    assert (refused.code, "it was skipped" in error["message"]) == (2, True)
    assert {row["status"] for row in report(refused)["measurements"]} == {"skipped"}


DOT = "gpumap bench dot --size 64 --cases one --map a->cuda0"


@pytest.fixture
def scripted(gpumap):
    """A shell whose device is another one with GPUMAP_FAKE=slow.toml, lost.toml and so on."""
    for name, devices in {
        "slow.toml": script({"rate": RATE / 1.25}), "lost.toml": script({}, fault="lost"),
        "wrong.toml": script({}, fault="wrong-product"),
    }.items():  # fmt: skip
        (gpumap.folder / name).write_text(devices)
    return gpumap.fake(script({}))


@pytest.mark.parametrize(("b", "code", "start"), TABLE["of_both"])
def test_b_is_judged_against_a(scripted, b, code, start):
    """The control has no part: it would be as much slower, and tell of a slower device."""
    both = (DOT, f"{b} {DOT}")
    answer = scripted("compare", "--ab", *both, "--format", "json")
    found = report(answer)
    assert answer.code == code
    assert found["headline"]["text"].startswith(f"Simulated: {start}")
    (verdict,) = found["verdicts"]
    assert (verdict["relative"], verdict["reason"]) == (None, None)
    assert found["settings"]["ab"] == [*both]


@pytest.mark.parametrize(("a", "code", "why"), TABLE["failing"])
def test_a_side_that_fails_is_an_error_with_its_exit_code(scripted, a, code, why):
    answer = scripted("compare", "--ab", a.replace("DOT", DOT), DOT, "--format", "json")
    found = report(answer)
    assert (answer.code, found["verdicts"]) == (code, [])
    assert why in found["errors"][0]["message"]


def run(folder, *bodies):
    """Run scripts that are no gpumap, as both sides; each logs its name."""
    texts = []
    for name, body in zip("AB", bodies, strict=True):
        path = folder / f"python{name}"
        path.write_text(f"#!/bin/sh\necho {name} >> log\n{body}\n")
        path.chmod(0o700)
        texts.append(f"{path} -m {DOT}")
    program = Program((), {"PATH": os.environ["PATH"]}, str(folder), sys.stdout, sys.stderr)
    return sides.measured(sides.commands(texts), program)


def test_each_side_has_two_whole_runs(tmp_path):
    """In the order A B B A, and without the controls."""
    saved = written("dot").path
    copy = f"""for word; do case "$word" in json=*) cp {saved} "${{word#json=}}";; esac; done"""
    found = run(tmp_path, copy, copy)
    assert (tmp_path / "log").read_text().split() == ["A", "B", "B", "A"]
    rows = tuple(row for row in read(saved).measurements if not row.case.is_control)
    assert [[each.measurements for each in side] for side in found] == [[rows, rows]] * 2


@pytest.mark.parametrize(("body", "error", "why"), [
    ("kill -9 $$", DeviceError, "A was ended by SIGKILL"),
    ("echo 'no luck' >&2; exit 7", QuestionError, "A ended with exit code 7: no luck"),
    ("exit 0", QuestionError, "A ended with exit code 0 and wrote no report"),
])  # fmt: skip
def test_what_dies_or_writes_nothing_is_an_error(tmp_path, body, error, why):
    with pytest.raises(error) as raised:
        run(tmp_path, body, "")
    assert why in str(raised.value)

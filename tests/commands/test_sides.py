"""`gpumap compare --ab`: whole runs in the order A B B A; how a side may fail."""

import os
import sys

import pytest
from saved_reports import written
from scripts import RATE, report, script

from gpumap.app import sides
from gpumap.app.program import Program
from gpumap.errors import DeviceError, QuestionError
from gpumap.model.io import read

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


@pytest.mark.parametrize(("b", "code", "start"), [
    ("nice", 0, "Not slower: the judged metric is not slower by 5 %"),
    ("GPUMAP_FAKE=slow.toml", 1, "Slower: dot.one.time is 1.25 times the baseline"),
])  # fmt: skip
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


@pytest.mark.parametrize(("a", "code", "why"), [
    ("GPUMAP_FAKE=lost.toml DOT", 3, "A ended with exit code 3"),
    ("GPUMAP_FAKE=wrong.toml DOT", 4, "A ended with exit code 4: error: "),
    ("DOT --dry-run", 2, "the A report cannot be compared: it is a dry run"),
])  # fmt: skip
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

"""`make gpu`: what its verdicts mean, what its record shows, and a rehearsal without a device."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from standin import ROOT

from benchmarks.children import Done
from benchmarks.contest import figure
from benchmarks.gpu import judge, record, steps

NAN = float("nan")


def estimate(low, high, unit="s"):
    return {"value": (low + high) / 2, "low": low, "high": high, "unit": unit}


def row(id_="dot.one", *, bench="dot", status="ok", passed=True, **more):
    return {
        "id": id_, "bench": bench, "case": "one", "params": {"size": 8, "dtype": "float32"},
        "names": ["a"], "status": status, "reason": None, "flags": [], "samples": [1.0, 1.5],
        "check": {"method": "float64 reference", "passed": passed, "max_error": 0.25, "bound": 1.0},
        "metrics": {"time": estimate(1.0, 2.0)}, **more,
    }  # fmt: skip


def skipped(code, text="so it is"):
    reason = {"code": code, "text": text}
    return row("dot.many", status="skipped", reason=reason, check=None, metrics={}, samples=[])


def nested(flat):
    """Return a row of a record as a report has it."""
    bound = [{"name": name, "device": "cuda:0", "backend": "cupy"} for name in flat["names"]]
    of_case = {key: flat[key] for key in ("id", "bench", "params")}
    taken = {"seconds": flat["samples"]} if flat["samples"] else None
    return flat | {"case": {**of_case, "name": flat["case"], "bindings": bound}, "samples": taken}


def report(*rows, code=0, errors=(), **more):
    problems = [{"diagnostic": error, "exit": code} for error in errors]
    return {
        "exit_code": code, "errors": problems, "measurements": list(map(nested, rows)), **more,
    }  # fmt: skip


def timed(low, high, **more):
    return report(row(metrics={"time": estimate(low, high)}), **more)


def contest(ratio=1.0, *, errors=None, simulated=False, time=1.0):
    return json.dumps({
        "what": "product of 4096", "amount": 1.0, "unit": "FLOP/s", "read_bytes": 0,
        "written_bytes": 0, "times": {"gpumap": estimate(time, time)},
        "rates": {"gpumap": 1.0}, "ratios": {"PyTorch": estimate(ratio, ratio, "1")},
        "least": {"PyTorch": 0.98}, "shares": {}, "errors": errors or {}, "power_w": None,
        "sm_hz": None, "throttle": [], "simulated": simulated,
    })  # fmt: skip


UNSUPPORTED = {"code": "unsupported", "message": "no float16"}
BEFORE = row(metrics={"time": estimate(1.50, 1.51)})
FEW = row(metrics={"time": {"value": 1.5, "low": None, "high": None, "unit": "s"}})
QUEUED = row(bench="transfer", metrics={"issue_interval": estimate(1.0, 1.1)})


def test_each_file_of_the_tests_on_a_device_is_there():
    """`make gpu` has few minutes of a device: a file that moved would cost them."""
    assert [file for file in judge.FILES if not (ROOT / file).is_file()] == []


@pytest.mark.parametrize(("after", "before", "word"), [
    (report(row()), [row()], judge.PASSED),
    (report(QUEUED), [QUEUED], judge.PASSED),  # it has no time of its own
    # apart by more than clocks and heat make of it: no failure; a script has no speed
    (timed(3.0, 4.0), [BEFORE], judge.MOVED), (timed(2.01, 2.02), [BEFORE], judge.MOVED),
    (timed(1.521, 1.531), [BEFORE], judge.PASSED),
    (timed(3.0, 4.0, simulated=True), [BEFORE], judge.PASSED),
    # of few samples: no ends to compare; what stands in for a device has none to lose
    (report(FEW), [BEFORE], judge.FAILED),
    (report(FEW, simulated=True), [BEFORE], judge.PASSED),
    # a row that only one of them has cannot agree; nor can nothing
    (report(row()), [], judge.FAILED),
    (report(row()), [row(), row("other")], judge.FAILED),
    # but for a size of the sweep that one run had no time for
    (report(row(), {**row("other"), "params": {"pattern": "ladder"}}),
     [row(), {**skipped("budget"), "id": "other", "params": {"pattern": "ladder"}}], judge.PASSED),
])  # fmt: skip
def test_a_second_run_agrees_if_every_interval_overlaps(after, before, word):
    verdict = judge.repeated(after, before)
    assert verdict.word == word
    if before == [row()]:
        assert [pair["relation"] for pair in verdict.found["comparison"]] == ["overlap"]


def left_out(code, **params):
    return report(row(), {**skipped(code), "params": params})


@pytest.mark.parametrize(("found", "word"), [
    (report(QUEUED), judge.PASSED),
    # a sweep may lack sizes where time is short; what was asked for may not
    (left_out("budget", pattern="ladder"), judge.PASSED),
    (left_out("budget", beside="ladder"), judge.PASSED),
    (left_out("budget", pattern="alone"), judge.FAILED),
    # a stand-in is slow, and may lack rows, but not all; on a device there is time for each
    (report(row(), skipped("budget")), judge.FAILED),
    (report(row(), skipped("budget"), simulated=True), judge.PASSED),
    (report(skipped("budget"), simulated=True), judge.FAILED),
    # no report, no row, no check, no time, an exit code: none of them is a pass
    ({}, judge.FAILED), (report(), judge.FAILED), (report(skipped("one-device")), judge.FAILED),
    (report(row(), code=3), judge.FAILED),
    (report(row(), skipped("stopped")), judge.FAILED),
    (report(row(passed=False)), judge.FAILED), (report(row(check=None)), judge.FAILED),
    (report(row(metrics={})), judge.FAILED), (timed(NAN, 1.0), judge.FAILED),
    (report(row(status="failed", reason={"code": "device-lost", "text": ""})), judge.FAILED),
    # what the device cannot do, if that is all that is wrong
    (report(code=2, errors=[UNSUPPORTED]), judge.SKIPPED),
    (report(code=3, errors=[UNSUPPORTED, {"code": "device-lost", "message": "gone"}]),
     judge.FAILED),
])  # fmt: skip
def test_what_was_not_measured_and_verified_fails(found, word):
    assert judge.measured(found).word == word
    verdict = judge.measured(report(row(flags=["unstable"]), skipped("one-device")))
    assert verdict.word == judge.PASSED
    assert verdict.why == ("1 rows measured and verified; 1 unstable; 1 skipped: so it is",)


@pytest.mark.parametrize(("code", "out", "word"), [
    (0, contest(), judge.PASSED), (0, contest(0.97), judge.FAILED),
    (0, contest(0.97, simulated=True), judge.PASSED),
    (0, contest(errors={"PyTorch": "gone"}), judge.FAILED), (1, contest(), judge.FAILED),
    (None, contest() + "\n" + contest()[:50], judge.FAILED), (0, "", judge.FAILED),
])  # fmt: skip
def test_contests_are_right_and_meet_their_targets(code, out, word):
    verdict = judge.raced(Done(code, 1.0, out))
    assert verdict.word == word
    assert len(verdict.found["contests"]) == (1 if out else 0)


NAME = {"name": "a", "device": "cuda:0"}
NOTE = {"code": "shared-hardware", "message": "a, b"}
TWO = {"names": ["a", "b"]}
UNCHECKED = row(check={"method": "none", "passed": True, "max_error": 0.5, "bound": 1.0})


def mapped(*entries, code=0, notes=()):
    bound = [each for each in entries if each["device"]]
    return {
        "exit_code": code, "errors": [], "map": {"entries": entries}, "bindings": bound,
        "notes": notes,
    }  # fmt: skip


@pytest.mark.parametrize(("judged", "found", "word"), [
    # a name without a device, or no name at all, fails
    (judge.accepted, mapped(NAME), judge.PASSED),
    (judge.accepted, mapped(NAME, code=3), judge.FAILED),
    (judge.accepted, mapped(), judge.FAILED),
    (judge.accepted, mapped(NAME, {"name": "b", "device": None}), judge.FAILED),
    # shared hardware: a note of `check`, its refusal, a flag on every row of two names
    (partial(judge.noted, code="shared-hardware"), mapped(NAME, notes=[NOTE]), judge.PASSED),
    (partial(judge.noted, code="shared-hardware"), mapped(NAME), judge.FAILED),
    (partial(judge.refused, code="distinct"),
     report(code=1, errors=[{**NOTE, "code": "distinct"}]), judge.PASSED),
    (partial(judge.refused, code="distinct"), report(code=0), judge.FAILED),
    (partial(judge.flagged, flag="shared-hardware"),
     report(row(**TWO, flags=["shared-hardware"])), judge.PASSED),
    (partial(judge.flagged, flag="shared-hardware"), report(row(**TWO)), judge.FAILED),
    (partial(judge.flagged, flag="shared-hardware"), report(row()), judge.FAILED),
    # products: each must have been compared with float64
    (judge.against_float64, [{"rows": [row(), UNCHECKED]}], judge.PASSED),
    *((judge.against_float64, [{"rows": rows}], judge.FAILED)
      for rows in ([], [UNCHECKED], [row(), row(passed=False)])),
])  # fmt: skip
def test_what_reports_and_their_rows_must_say(judged, found, word):
    assert judged(found).word == word


def copies(low, nbytes=2**26, **more):
    """Return a copy with pageable memory at 10 to 12, and with pinned memory from `low` on."""
    for memory, start in (("pageable", 10), ("pinned", low)):
        id_ = f"transfer.h2d[memory={memory},mode=sync]"
        metrics = {"bandwidth": estimate(start, start + 2, "B/s")} if start else {}
        params = {"memory": memory, "bytes": nbytes}
        extra = more if memory == "pinned" else {}
        yield row(id_, bench="transfer", params=params, metrics=metrics, **extra)


@pytest.mark.parametrize(("rows", "word"), [
    (copies(20), judge.PASSED), (copies(11), judge.PASSED), (copies(7.9), judge.PASSED),
    (copies(5), judge.FAILED), (copies(5, nbytes=400), judge.PASSED), (copies(NAN), judge.FAILED),
    (copies(NAN, nbytes=400), judge.PASSED), (copies(0), judge.FAILED),
    (copies(0, status="skipped", reason={"code": "unsupported", "text": "no"}), judge.SKIPPED),
    ((), judge.FAILED),
])  # fmt: skip
def test_pinned_memory_must_not_slow_large_copies_down(rows, word):
    """Below 64 MiB the call costs more than the bytes; not measured is not as fast."""
    assert judge.pinned([{"rows": list(rows)}]).word == word


BAD = '<testcase classname="t" name="test_d[cupy-cuda0]"><{} message="no"/></testcase>'
NAMED = ("t::test_d[cupy-cuda0]: no",)


@pytest.mark.parametrize(("more", "code", "backend", "word", "why"), [
    ("", 0, "cupy", judge.PASSED, None), ("", 0, "numpy", judge.PASSED, None),
    ("", 0, "pygpu", judge.FAILED, None),  # nothing failed, for everything was skipped
    ("", 1, "cupy", judge.FAILED, None),
    (BAD.format("failure"), 1, "cupy", judge.FAILED, NAMED),
    (BAD.format("error"), 1, "cupy", judge.FAILED, NAMED),
])  # fmt: skip
def test_the_tests_must_have_passed_on_a_device(tmp_path, more, code, backend, word, why):
    junit = tmp_path / "junit.xml"
    junit.write_text(Path(__file__).with_name("junit.xml").read_text().format(more=more))
    verdict = judge.tested(junit, backend, {}, Done(code, 1.0))
    tests = verdict.found["tests"]
    assert verdict.word == word
    assert why in (None, verdict.why)
    assert tests["skip_reasons"] == {"pygpu: not installed": 1}
    if not more:
        assert tests["on"] == {"cupy": 1, "numpy": 1}
    assert tests["passed"] == 3


def setup(tmp_path, count=1):
    devices = tuple(f"cuda{n}" for n in range(count))
    return steps.Setup(
        map=";".join(f"dev{n}->{d}" for n, d in enumerate(devices)), devices=devices,
        backends=("cupy",), asked=None, dtypes=("float16",), dot_sizes=("1024", "4096"),
        copy_sizes=("64MiB", "256MiB"), memory_size="8GiB", budget=60.0, scratch=tmp_path,
        ignored={},
    )  # fmt: skip


def test_one_gpu_takes_less_than_the_limit(tmp_path):
    """Contests at ten seconds, tests at sixty: nine minutes; a second run is the same command."""
    found = {step.key: step for step in steps.steps(setup(tmp_path))}
    contests = [s for s in found.values() if "benchmarks.gpu.contests" in s.arguments]
    assert sum(step.least for step in found.values()) + 10 * len(contests) + 60 < 540
    assert [*found][:6] == ["check", "shared", "distinct", "tests", "peers", "peers-float16"]
    again = [key for key in found if key.endswith("-again")]
    assert again == ["peers-again", "copies-again", "dot-again", "transfer-again",
                     "dot-large-again", "transfer-large-again"]  # fmt: skip
    for key in again:
        assert found[key].arguments == found[key.removesuffix("-again")].arguments


def held(**more):
    return json.loads(Path(__file__).with_name("record.json").read_text()) | more


def test_markdown_shows_what_the_record_holds():
    """Device, driver, command, verdict, figures with their intervals, and what is missing."""
    text = record.markdown(held())
    for line in (
        "# GPU &lt;b>, 2026-01-02",
        "**passed**: all steps ran; 1 passed; 60 s.",
        "| cuda0: driver | 580, CUDA 13.0 |",
        "python3 -m gpumap bench dot --map 'a->cuda0'",
        "| dot-again | products | **passed** | 0 | 1.2 s | fine \\| really fine |",
        "| `dot.one` | time | 1.50 s [1.00, 2.00] | 1.50 s [1.00, 2.00] | +0.0% | overlap |",
        "| pytest | missing | tests: the tests |",
    ):
        assert line in text.splitlines()
    assert "0.250 &lt; 1 (float64 reference) | 2 | ok |" in text
    # scripted figures are not taken for measured ones, nor a part for the whole
    assert "imulated" not in text
    assert "Simulated" in record.markdown(held(simulated=True))
    cut = record.markdown(held(verdict="incomplete", steps=[], planned=["a", "b"], elapsed_s=None))
    assert "**incomplete**: 0 of 2 steps; none; unknown time." in cut
    without = {"value": 1.0, "high": 2.0, "low": None, "unit": "s"}  # an end: it is no figure
    known = [figure(found) for found in (without, without | {"high": None}, None)]
    assert known == ["-", "1.00 s", "-"]


def test_a_record_never_takes_the_place_of_another(tmp_path):
    gpu = {"name": "NVIDIA H200"}
    made = {"started": "2026-01-02T00:00:00Z", "devices": [gpu, gpu]}
    first = record.base_path(tmp_path, made)
    first.with_name(f"{first.name}.json").write_text("{}")
    assert first.name == "2026-01-02-2x-nvidia-h200"
    assert record.base_path(tmp_path, made).name == "2026-01-02-2x-nvidia-h200-2"
    # numbers stand on one line, and no text is changed by that
    text = record.as_json(held(map="[\n 1,  2]"))
    assert '"samples": [ 1.0, 1.5 ]' in text
    assert json.loads(text) == held(map="[\n 1,  2]")


def gpu(folder, *arguments, **env):
    command = [sys.executable, "-m", "benchmarks.gpu", "--output", str(folder / "out"), *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )


def test_without_a_gpu_nothing_is_written(tmp_path):
    done = gpu(tmp_path, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 3
    assert "no CUDA device: cupy: " in done.stderr
    assert not (tmp_path / "out").exists()

"""`make gpu`: what its verdicts mean, what its record shows, and a rehearsal without a device."""

import json
import sys
from dataclasses import replace
from functools import partial

import pytest
from mpi_jobs import run
from standin import ROOT

from benchmarks.children import Done
from benchmarks.gpu import __main__ as program
from benchmarks.gpu import judge, proofs, steps, suites


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
    backend = flat.get("backend", "cupy")
    bound = [{"name": name, "device": "cuda:0", "backend": backend} for name in flat["names"]]
    of_case = {key: flat[key] for key in ("id", "bench", "params")}
    taken = {"seconds": flat["samples"]} if flat["samples"] else None
    return flat | {"case": {**of_case, "name": flat["case"], "bindings": bound}, "samples": taken}


def report(*rows, code=0, errors=(), **more):
    problems = [{"diagnostic": error, "exit": code} for error in errors]
    return {
        "exit_code": code, "errors": problems, "result": {"measurements": list(map(nested, rows))},
        **more,
    }  # fmt: skip


def timed(low, high, **more):
    return report(row(metrics={"time": estimate(low, high)}), **more)


UNSUPPORTED = {"code": "unsupported", "message": "no float16"}
BEFORE = row(metrics={"time": estimate(1.50, 1.51)})
FEW = row(metrics={"time": {"value": 1.5, "low": None, "high": None, "unit": "s"}})
QUEUED = row(bench="transfer", metrics={"issue_interval": estimate(1.0, 1.1)})


def test_each_file_of_the_tests_on_a_device_is_there():
    """`make gpu` has few minutes of a device: a file that moved would cost them."""
    assert [file for file in suites.FILES if not (ROOT / file).is_file()] == []


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
    """Many rows with one reason are a count and two of them."""
    verdict = judge.repeated(after, before)
    assert verdict.word == word
    if before == [row()]:
        assert [pair["relation"] for pair in verdict.found["comparison"]] == ["overlap"]
    many = judge.repeated(report(row("c")), [row("a"), row("b"), row("c"), row("d")])
    assert many.why == ("measured in one run only (3): a, b and 1 more",)


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
    (report(row(metrics={})), judge.FAILED), (timed(float("nan"), 1.0), judge.FAILED),
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


def copies(unstable, **more):
    return report(*(row(flags=["unstable"] * (n < unstable)) for n in range(10)), **more)


def by_both(torch, **more):
    rows = [row(f"dot.one[backend={name},size=8]", backend=name,
                metrics={"time": estimate(time, time)})
            for name, time in (("cupy", 1.0), ("torch", torch)) if time]  # fmt: skip
    return report(*rows, **more)


@pytest.mark.parametrize(("ratio", "simulated", "word"), [
    (1.0, False, judge.PASSED), (0.996, False, judge.PASSED), (0.99, False, judge.FAILED),
    (0.5, True, judge.PASSED),
])  # fmt: skip
def test_a_contest_has_its_target_to_two_digits(ratio, simulated, word):
    line = {
        "what": "launch", "times": {"gpumap": estimate(1.0, 1.0)}, "errors": {},
        "ratios": {"CuPy": {"value": ratio}}, "least": {"CuPy": 1.0}, "simulated": simulated,
        "lacks": {"graph": "not captured"},
    }  # fmt: skip
    verdict = judge.raced(Done(0, 1.0, json.dumps(line)))
    assert verdict.word == word
    assert ("no graph: not captured" in verdict.why[0]) is (word == judge.PASSED)


def screened(fitness="fit", elapsed=5.0, what="upload"):
    checks = [{"what": each, "fitness": fitness if each == what else "fit", "text": "", "name": "a"}
              for each in ("open", "upload", "download", "product", "ecc")]  # fmt: skip
    found = {"result": {"checks": checks}, "map": {"entries": [{"name": "a"}]}}
    return proofs.screened(Done(0, elapsed), found, 60)


def shown(seen="GPU-1", variable="GPU-1", code=0):
    gpus = {"gpus": [{"uuid": seen}], "why": ""}
    line = {"GPUMAP_NAME": "a", "CUDA_VISIBLE_DEVICES": variable, "cupy": gpus}
    return proofs.alone({"a": "GPU-1"}, Done(code, 1.0, f"{json.dumps(line)}\n"))


@pytest.mark.parametrize(("verdict", "word"), [
    (screened(), judge.PASSED), (screened("wrong-data"), judge.FAILED),
    (screened("cannot-tell"), judge.FAILED), (screened("cannot-tell", what="ecc"), judge.PASSED),
    (screened("unfit", what="ecc"), judge.FAILED), (screened(elapsed=70.0), judge.FAILED),
    (proofs.screened(Done(0, 1.0), {}, 60), judge.FAILED),
    (shown(), judge.PASSED), (shown("GPU-2"), judge.FAILED), (shown(code=3), judge.FAILED),
    (shown(variable=None), judge.FAILED),
    (proofs.alone({"a": "GPU-1"}, Done(0, 1.0)), judge.FAILED),
])  # fmt: skip
def test_preflight_and_exec_on_a_device(verdict, word):
    assert verdict.word == word


NAME = {"name": "a", "device": "cuda:0"}
NOTE = {"code": "shared-hardware", "message": "a, b"}
CARD = partial(judge.same_card, hardware=frozenset(["pci:1"]))
TWO = {"names": ["a", "b"]}
UNCHECKED = row(check={"method": "none", "passed": True, "max_error": 0.5, "bound": 1.0})


def mapped(*entries, code=0, notes=(), **more):
    bound = [each for each in entries if each["device"]]
    return {
        "exit_code": code, "errors": [], "map": {"entries": entries}, "bindings": bound,
        "notes": notes, **more,
    }  # fmt: skip


@pytest.mark.parametrize(("judged", "found", "word"), [
    # targets of copies and of two libraries
    (judge.steady, copies(1), judge.PASSED), (judge.steady, copies(2), judge.FAILED),
    (judge.steady, copies(2, simulated=True), judge.PASSED),
    (judge.steady, report(code=2, errors=[UNSUPPORTED]), judge.SKIPPED),
    (judge.agree, by_both(1.02), judge.PASSED), (judge.agree, by_both(0.96), judge.FAILED),
    (judge.agree, by_both(2.0, simulated=True), judge.PASSED),
    (judge.agree, by_both(None), judge.FAILED), (judge.agree, by_both(1.0, code=4), judge.FAILED),
    (judge.agree, by_both(1.0, notes=[{**NOTE, "code": "other-hardware"}]), judge.FAILED),
    # a name without a device, or no name at all, fails
    (judge.accepted, mapped(NAME), judge.PASSED),
    (judge.accepted, mapped(NAME, code=3), judge.FAILED),
    (judge.accepted, mapped(), judge.FAILED),
    (judge.accepted, mapped(NAME, {"name": "b", "device": None}), judge.FAILED),
    # a second backend may drive another card than the first
    (CARD, mapped(NAME, devices=[{"ref": "cuda0", "hardware": ["pci:1"]}]), judge.PASSED),
    (CARD, mapped(NAME, devices=[{"ref": "cuda0", "hardware": ["pci:2"]}]), judge.FAILED),
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
    (judge.pinned, [{"verdict": judge.NOT_RUN, "command": "transfer-cost"}], judge.NOT_RUN),
    # products: each must have been compared with float64
    (judge.against_float64, [{"rows": [row(), UNCHECKED]}], judge.PASSED),
    *((judge.against_float64, [{"rows": rows}], judge.FAILED)
      for rows in ([], [UNCHECKED], [row(), row(passed=False)])),
])  # fmt: skip
def test_what_reports_and_their_rows_must_say(judged, found, word):
    assert judged(found).word == word


def setup(tmp_path, count=1):
    devices = tuple(f"cuda{n}" for n in range(count))
    return steps.Setup(
        map=";".join(f"dev{n}->{d}" for n, d in enumerate(devices)), devices=devices,
        backends=("cupy",), asked=None, dtypes=steps.DTYPES, dot_sizes=("1024", "4096"),
        copy_sizes=("64MiB", "256MiB"), memory_size="8GiB", budget=60.0, scratch=tmp_path,
        ignored={}, uuids={f"dev{n}": f"GPU-{n}" for n in range(count)}, launcher=(),
        hardware=frozenset(),
        others=tuple(steps.Driver(name, "cuda0") for name in ("torch", "jax", "pyopencl")),
    )  # fmt: skip


def test_one_gpu_takes_less_than_the_limit(tmp_path):
    """With all four backends, but for repeats, which are the first ones' commands."""
    found = {step.key: step for step in steps.steps(setup(tmp_path))}
    assert sum(step.least for step in found.values() if not step.spare) < program.LIMIT - 30
    assert [*found][:10] == ["check", "preflight", "exec", "peers", "launches", "opencl", "copies",
                             "torch-cupy", "dot", "transfer"]  # fmt: skip
    again = [key for key, step in found.items() if step.spare]
    assert again == ["peers-again", "copies-again", "dot-again", "transfer-again",
                     "dot-large-again", "transfer-large-again"]  # fmt: skip
    for key in again:
        assert found[key].arguments == found[key.removesuffix("-again")].arguments


def test_what_is_not_run_has_its_reason(tmp_path):
    """A library that is not there is a skip; what no time was left for leaves the record open."""
    (step,) = (each for each in steps.steps(setup(tmp_path)) if each.key == "dot:torch")
    failed = {"check:torch": {"verdict": judge.FAILED}}
    cases = [program._without(step, {}, 100.0), program._without(replace(step, skip="x"), {}, 0.0),
             program._without(step, {}, 1.0), program._without(step, failed, 100.0)]  # fmt: skip
    words = [None, judge.SKIPPED, judge.NOT_RUN, judge.NOT_RUN]
    assert [case and case.word for case in cases] == words
    passed, none, spare = (
        {"verdict": word, "spare": spare}
        for word, spare in ((judge.PASSED, False), (judge.NOT_RUN, False), (judge.NOT_RUN, True))
    )
    assert program._whole([passed, spare]) == judge.PASSED
    assert program._whole([passed, none]) == "incomplete"


def test_without_a_gpu_nothing_is_written(tmp_path):
    command = [sys.executable, "-m", "benchmarks.gpu", "--output", str(tmp_path / "out")]
    done = run(command, ROOT, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 3
    assert "no CUDA device: cupy: " in done.stderr
    assert not (tmp_path / "out").exists()

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


def estimate(low, high):
    return {"value": (low + high) / 2, "low": low, "high": high, "unit": "s"}


def row(id_="dot.one", *, bench="dot", names="a", backend="cupy", passed=True, params=None, **more):
    """Return a row of a report; a record has it flat."""
    bound = [{"name": name, "device": "cuda:0", "backend": backend} for name in names]
    params = params or {"size": 8, "dtype": "float32"}
    case = {"id": id_, "bench": bench, "name": "one", "params": params, "bindings": bound}
    return {
        "case": case, "status": "ok", "reason": None, "flags": [], "samples": {"seconds": [1.0]},
        "check": {"method": "float64 reference", "passed": passed, "max_error": 0.25, "bound": 1.0},
        "metrics": {"time": estimate(1.0, 2.0)}, **more,
    }  # fmt: skip


def skipped(code, id_="dot.many", **more):
    given = {"status": "skipped", "reason": {"code": code, "text": "so it is"}, **more}
    return row(id_, check=None, metrics={}, samples=None, **given)


def report(*rows, code=0, errors=(), **more):
    problems = [{"diagnostic": error, "exit": code} for error in errors]
    found = {"measurements": rows}
    return {"exit_code": code, "errors": problems, "result": found, **more}


def timed(low, high, **more):
    return report(row(metrics={"time": estimate(low, high)}), **more)


UNSUPPORTED = {"code": "unsupported", "message": "no float16"}
BEFORE = row(metrics={"time": estimate(1.50, 1.51)})
FEW = row(metrics={"time": {"value": 1.5, "low": None, "high": None, "unit": "s"}})
QUEUED = row(bench="transfer", metrics={"issue_interval": estimate(1.0, 1.1)})


def test_each_file_of_the_tests_on_a_device_is_there():
    """`make gpu` has few minutes of a device: a file that moved would cost them."""
    assert [file for file in suites.FILES if not (ROOT / file).is_file()] == []


def second(found, *before):
    return partial(judge.repeated, before=[*map(judge.short, before)]), found


def left_out(**params):
    return judge.measured, report(row(), skipped("budget", params=params))


def products(*rows):
    return judge.against_float64, [{"rows": [*map(judge.short, rows)]}]


def copies(unstable, **more):
    rows = (row(flags=["unstable"] * (n < unstable)) for n in range(10))
    return judge.steady, report(*rows, **more)


def by_both(torch, **more):
    rows = [row(f"dot.one[backend={name},size=8]", backend=name,
                metrics={"time": estimate(time, time)})
            for name, time in (("cupy", 1.0), ("torch", torch)) if time]  # fmt: skip
    return judge.agree, report(*rows, **more)


def contest(ratio, *, simulated=False):
    line = {
        "what": "launch", "times": {"gpumap": estimate(1.0, 1.0)}, "errors": {},
        "ratios": {"CuPy": {"value": ratio}}, "least": {"CuPy": 1.0}, "simulated": simulated,
        "lacks": {"graph": "not captured"},
    }  # fmt: skip
    return judge.raced, Done(0, 1.0, json.dumps(line))


def screened(fitness="fit", elapsed=5.0, what="upload"):
    checks = [{"what": each, "fitness": fitness if each == what else "fit", "text": "", "name": "a"}
              for each in ("open", "upload", "download", "product", "ecc")]  # fmt: skip
    found = {"result": {"checks": checks}, "map": {"entries": [{"name": "a"}]}}
    return partial(proofs.screened, report=found, within=60), Done(0, elapsed)


def shown(seen="GPU-1", variable="GPU-1", code=0):
    gpus = {"gpus": [{"uuid": seen}], "why": ""}
    line = {"GPUMAP_NAME": "a", "CUDA_VISIBLE_DEVICES": variable, "cupy": gpus}
    return partial(proofs.alone, {"a": "GPU-1"}), Done(code, 1.0, f"{json.dumps(line)}\n")


def mapped(*entries, code=0, notes=(), **more):
    bound = [each for each in entries if each["device"]]
    return {
        "exit_code": code, "errors": [], "map": {"entries": entries}, "bindings": bound,
        "notes": notes, **more,
    }  # fmt: skip


NAME = {"name": "a", "device": "cuda:0"}
NOTE = {"code": "shared-hardware", "message": "a, b"}
CARD = partial(judge.same_card, hardware=frozenset(["pci:1"]))
NOTED = partial(judge.noted, code="shared-hardware")
REFUSED = partial(judge.refused, code="distinct")
FLAGGED = partial(judge.flagged, flag="shared-hardware")
UNCHECKED = row(check={"method": "none", "passed": True, "max_error": 0.5, "bound": 1.0})
SWEEP = {"pattern": "ladder"}


@pytest.mark.parametrize(("judged", "found"), [
    second(report(row()), row()),
    second(report(QUEUED), QUEUED),  # it has no time of its own
    # a little apart, by clocks and heat; a script has no speed, and no ends to lose
    second(timed(1.521, 1.531), BEFORE), second(timed(3.0, 4.0, simulated=True), BEFORE),
    second(report(FEW, simulated=True), BEFORE),
    # a sweep may lack sizes where time is short, in one of two runs too
    second(report(row(), row("other", params=SWEEP)),
           row(), skipped("budget", "other", params=SWEEP)),
    left_out(pattern="ladder"), left_out(beside="ladder"),
    (judge.measured, report(QUEUED)),
    (judge.measured, report(row(), skipped("budget"), simulated=True)),  # a stand-in is slow
    copies(1), copies(2, simulated=True), by_both(1.02), by_both(2.0, simulated=True),
    contest(0.996), contest(0.5, simulated=True),  # to two digits
    screened(), screened("cannot-tell", what="ecc"), shown(),
    (judge.accepted, mapped(NAME)),
    (CARD, mapped(NAME, devices=[{"ref": "cuda0", "hardware": ["pci:1"]}])),
    (NOTED, mapped(NAME, notes=[NOTE])),
    (REFUSED, report(code=1, errors=[{**NOTE, "code": "distinct"}])),
    (FLAGGED, report(row(names="ab", flags=["shared-hardware"]))),
    products(row(), UNCHECKED),
])  # fmt: skip
def test_what_passes(judged, found):
    assert judged(found).word == judge.PASSED


@pytest.mark.parametrize(("judged", "found"), [
    second(report(FEW), BEFORE),  # of few samples: no ends to compare
    # a row that only one of them has cannot agree; nor can nothing
    second(report(row())), second(report(row()), row(), row("other")),
    # what was asked for may not lack for time, on a device; nor all of it anywhere
    left_out(pattern="alone"), left_out(),
    (judge.measured, report(skipped("budget"), simulated=True)),
    # no report, no row, no check, no time, an exit code: none of them is a pass
    *((judge.measured, found) for found in (
        {}, report(), report(skipped("one-device")), report(row(), code=3),
        report(row(), skipped("stopped")), report(row(passed=False)), report(row(check=None)),
        report(row(metrics={})), timed(float("nan"), 1.0),
        report(row(status="failed", reason={"code": "device-lost", "text": ""})),
        report(code=3, errors=[UNSUPPORTED, {"code": "device-lost", "message": "gone"}]),
    )),
    copies(2), by_both(0.96), by_both(None), by_both(1.0, code=4),
    by_both(1.0, notes=[{**NOTE, "code": "other-hardware"}]), contest(0.99),
    screened("wrong-data"), screened("cannot-tell"), screened("unfit", what="ecc"),
    screened(elapsed=70.0), (partial(proofs.screened, report={}, within=60), Done(0, 1.0)),
    shown("GPU-2"), shown(code=3), shown(variable=None),
    (partial(proofs.alone, {"a": "GPU-1"}), Done(0, 1.0)),
    # a name without a device, no name at all, another card than the first library's
    (judge.accepted, mapped(NAME, code=3)), (judge.accepted, mapped()),
    (judge.accepted, mapped(NAME, {"name": "b", "device": None})),
    (CARD, mapped(NAME, devices=[{"ref": "cuda0", "hardware": ["pci:2"]}])),
    # shared hardware without a note, a refusal, a flag on every row of two names
    (NOTED, mapped(NAME)), (REFUSED, report(code=0)),
    (FLAGGED, report(row(names="ab"))), (FLAGGED, report(row())),
    # each product must have been compared with float64
    products(), products(UNCHECKED), products(row(), row(passed=False)),
])  # fmt: skip
def test_what_was_not_measured_and_verified_fails(judged, found):
    assert judged(found).word == judge.FAILED


@pytest.mark.parametrize(("judged", "found", "word"), [
    (*second(timed(3.0, 4.0), BEFORE), judge.MOVED),
    # what the device cannot do, if that is all that is wrong
    (judge.measured, report(code=2, errors=[UNSUPPORTED]), judge.SKIPPED),
    (judge.steady, report(code=2, errors=[UNSUPPORTED]), judge.SKIPPED),
    (judge.pinned, [{"verdict": judge.NOT_RUN, "command": "transfer-cost"}], judge.NOT_RUN),
])  # fmt: skip
def test_what_neither_passes_nor_fails(judged, found, word):
    assert judged(found).word == word


def test_why_has_a_count_for_many_rows():
    many, _ = second({}, row("a"), row("b"), row("c"), row("d"))
    assert many(report(row("c"))).why == ("measured in one run only (3): a, b and 1 more",)
    right = judge.measured(report(row(flags=["unstable"]), skipped("one-device")))
    assert right.why == ("1 rows measured and verified; 1 unstable; 1 skipped: so it is",)
    raced, done = contest(1.0)
    assert "no graph: not captured" in raced(done).why[0]


def setup(tmp_path):
    return steps.Setup(
        map="dev0->cuda0", devices=("cuda0",), backends=("cupy",), asked=None, dtypes=steps.DTYPES,
        dot_sizes=("1024", "4096"), copy_sizes=("64MiB", "256MiB"), memory_size="8GiB", budget=60.0,
        scratch=tmp_path, ignored={}, uuids={"dev0": "GPU-0"}, launcher=(), hardware=frozenset(),
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

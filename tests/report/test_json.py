"""The JSON report against its published schema: every key, every closed list, every figure."""

from __future__ import annotations

import copy
import json
import signal
import subprocess
import time

import pytest
from commands.scripts import script
from jsonschema import Draft202012Validator
from report_schema import SCHEMA, VALIDATOR
from shell import LIMIT

from gpumap.errors import Exit
from gpumap.judge import transfers
from gpumap.judge.exit_code import STATUS
from gpumap.judge.explain import CAUSES
from gpumap.model import (
    Around,
    Binding,
    Case,
    Ceiling,
    Check,
    Device,
    DeviceRef,
    Estimate,
    Explanation,
    GpuState,
    Kind,
    Measurement,
    SampleMark,
    Samples,
    State,
    Stop,
    Work,
)
from gpumap.report import json as renderer


def problems(report):
    """Return what the schema has against a report, as path and message."""
    found = VALIDATOR.iter_errors(report)
    return [("/".join(map(str, e.absolute_path)), e.message) for e in found]


# --- the examples of the design


def device(index):
    """Return a core as a report shows it."""
    return {
        "id": f"cpu:{index}", "kind": "cpu", "ref": f"cpu{index}", "name": "AMD EPYC",
        "backend": "numpy", "pci": None, "uuid": None, "silicon": [f"core:{index}"],
        "memory_total_bytes": 25769803776, "memory_free_bytes": 24000000000, "units": 1,
        "numa_node": 0, "cores": [index], "driver": None,
        "link": {"max_generation": 5, "max_width": 16, "width": 8},
    }  # fmt: skip


def figure(value, low, high, unit):
    """Return a figure with its interval."""
    return {"value": value, "low": low, "high": high, "unit": unit}


def endless(unit):
    """Return a figure that is infinite."""
    return {"value": None, "low": None, "high": None, "unit": unit, "nonfinite": "inf"}


GPU = {"device": "cuda:0", "clocks_hz": {"sm": 1.98e9}, "power_w": 699.5, "temperature_c": 61,
       "throttle": ["power cap"]}  # fmt: skip
STATE = {"load1": 0.02, "steal": 0.0, "busy": 0.01, "clocks_hz": {"cpu:0": 2.6e9}, "gpus": [GPU]}
ONE = "dot.one[backend=numpy,dtype=float32,names=dev0,size=1024]"
MANY = "dot.many[backend=numpy,dtype=float32,names=dev0+dev1,size=1024]"
DOT_ROW = {
    "id": ONE, "bench": "dot", "case": "one", "params": {"size": 1024, "dtype": "float32"},
    "names": ["dev0"], "devices": ["cpu:0"], "backend": "numpy", "route": None,
    "status": "ok", "reason": None, "flags": [],
    "work": {"products": 2, "operations": 4294967296, "bytes_to_device": 0, "bytes_to_host": 0},
    "samples": [0.0352, 0.0351, 0.0353, 0.0352], "blocks": [0, 0, 1, 1], "rounds_per_sample": 1,
    "clock": "host", "marks": [],
    "queue_s": [2.1e-5, 2.0e-5, 2.0e-5, 2.2e-5], "cpu_s": [0.0351, 0.035, 0.0352, 0.0351],
    "empty_sync_s": 6.2e-6, "worked_s": {"dev0": [0.0351, 0.0350]},
    "spans": {"dev0": {"start_s": [0.0, 0.11], "stop_s": [0.0352, 0.1451]}},
    "phases_s": {},
    "around": {"foreign_cores": 0.02, "steal": None, "busy_cores_before": 0.1, "cores": 2},
    "stop": {"why": "precision", "n": 12, "warmup": 5, "autocorrelation": 0.05, "effective_n": 12},
    "check": {"method": "float64 reference", "passed": True, "max_error": 0.053, "bound": 1.0},
    "metrics": {
        "time": figure(0.0352, 0.0351, 0.0353, "s"),
        "rate": figure(1.22e11, 1.217e11, 1.224e11, "FLOP/s"),
    },
    "against": None,
    "ceiling": {"metric": "rate", "share": 0.96, "value": 1.27e11, "unit": "FLOP/s",
                "source": "measured: register-only multiply-add", "origin": "measured"},
    "explanation": None,
}  # fmt: skip
DOT_MANY = {
    **DOT_ROW, "id": MANY, "case": "many", "names": ["dev0", "dev1"], "devices": ["cpu:0", "cpu:1"],
    "flags": ["unstable"],
    "samples": [0.0183, 0.0215, None, 0.0201],
    "marks": [
        {"sample": 2, "mark": "outlier", "detail": "11.3 MAD from the median"},
        {"sample": 2, "mark": "preempted", "detail": "its core was elsewhere for 12% of the time"},
    ],
    "worked_s": {"dev0": [0.0180, 0.0212], "dev1": [0.0181, 0.0213]},
    "spans": {
        "dev0": {"start_s": [0.0353, 0.0730], "stop_s": [0.0535, 0.0944]},
        "dev1": {"start_s": [0.0354, 0.0731], "stop_s": [0.0536, 0.0945]},
    },
    "stop": {"why": "budget", "n": 12, "warmup": 5, "autocorrelation": 0.11, "effective_n": 12},
    "metrics": {
        "time": figure(0.0191, 0.0183, 0.0207, "s"),
        "rate": figure(2.25e11, 2.07e11, 2.35e11, "FLOP/s"),
        "speedup": figure(1.84, 1.70, 1.92, "1"),
        "efficiency": figure(0.92, 0.85, 0.96, "1"),
        "ideal": figure(2.0, 1.99, 2.0, "1"),
        "ideal_balanced": figure(2.0, 1.99, 2.0, "1"),
        "overlap": figure(0.99, 0.98, 0.99, "1"),
    },
    "against": ONE, "ceiling": None,
    "explanation": {"cause": "unequal-devices", "text": "dev1 is slower",
                    "figures": {"slowest": figure(0.2, 0.2, 0.2, "s")}},
}  # fmt: skip
DOT = {
    "schema_version": 1, "kind": "bench", "tool": {"name": "gpumap", "version": "0.1.0"},
    "argv": ["bench", "dot", "--size", "1024"], "started": "2026-11-20T20:12:03.123Z",
    "ended": "2026-11-20T20:12:11.480Z", "elapsed_s": 8.357,
    "status": "inconclusive", "exit_code": 5, "simulated": False,
    "settings": {"seed": 1, "precision": 0.01, "confidence": 0.95, "budget_s": 8.0,
                 "timeout_s": None, "inconclusive": "fail", "if_absent": "fail"},
    "map": {
        "text": "dev0->cpu0;dev1->cpu1", "source": "default", "source_path": None,
        "entries": [{"name": "dev0", "asked": "cpu0", "device": "cpu:0"},
                    {"name": "dev1", "asked": "cpu1", "device": "cpu:1"}],
        "notes": [{"code": "default-map", "severity": "note", "message": "no map given",
                   "entry": None, "span": None, "hint": "--map", "name": None}],
    },
    "devices": [device(0), device(1)],
    "backends": [
        {"name": "numpy", "usable": True, "version": "2.4.6", "reason": None, "fix": None,
         "code": None, "notes": []},
        {"name": "cupy", "usable": False, "version": None, "reason": "not installed",
         "fix": "install CuPy", "code": None, "notes": []},
    ],
    "fingerprint": {"hash": "sha256:5f0c...", "cpu": "AMD EPYC", "cores": 2, "os": "Linux 6.1",
                    "python": "3.11.7", "libraries": {"numpy": "2.4.6", "openblas": "0.3.31"},
                    "devices": ["cpu:0", "cpu:1"], "drivers": {}, "links": []},
    "environment": {"CUDA_VISIBLE_DEVICES": None, "OMP_NUM_THREADS": "1"},
    "machine": {"before": STATE, "after": None},
    "measurements": [DOT_ROW, DOT_MANY],
    "plans": [{"cases": [ONE], "groups": [1], "memory_bytes": {"host": 1024},
               "largest_buffer_bytes": 4096, "about": []}],
    "fits": [], "break_evens": [],
    "verdicts": [{"rule": "limit", "text": "dot.many.speedup>=1.8", "id": MANY, "metric": "speedup",
                  "verdict": "inconclusive", "value": 1.84, "low": 1.70, "high": 1.92, "limit": 1.8,
                  "base": None, "threshold": None, "reason": None,
                  "relative": None}],
    "selftest": None, "errors": [], "notes": [], "accepted": [], "traces": [], "diagnoses": [],
    "ranks": [],
    "prediction": None, "published": None,
}  # fmt: skip

H2D = "transfer.h2d[backend=pyopencl,bytes=400,memory={},mode=sync,names=a,pattern=alone]"
SIZES = {"bytes": 400, "size_name": "small", "mode": "sync", "pattern": "alone"}
COPY_ROW = {
    **DOT_ROW, "id": H2D.format("pageable"), "bench": "transfer", "case": "h2d",
    "params": SIZES | {"memory": "pageable"}, "names": ["a"], "devices": ["opencl:0:0"],
    "backend": "pyopencl", "route": "host-to-device", "work": {"bytes": 400},
    "samples": [5.1e-6, 5.0e-6], "blocks": [0, 1], "rounds_per_sample": 2000, "spans": {},
    "queue_s": [5.0e-6, 4.9e-6], "cpu_s": [], "worked_s": {}, "around": None,
    "check": {"method": "bytes", "passed": True, "first_bad_offset": None, "bytes": 400},
    "metrics": {"time": figure(5.1e-6, 5.0e-6, 5.3e-6, "s"),
                "bandwidth": figure(7.84e7, 7.5e7, 8.0e7, "B/s")},
    "ceiling": None,
}  # fmt: skip
SKIPPED_ROW = {
    **COPY_ROW, "id": H2D.format("pinned"), "params": SIZES | {"memory": "pinned"}, "route": None,
    "status": "skipped",
    "reason": {"code": "unsupported", "text": "PoCL has no pinned host memory"},
    "samples": [], "blocks": [], "rounds_per_sample": None, "clock": None, "stop": None,
    "queue_s": [], "empty_sync_s": None, "check": None, "metrics": {},
}  # fmt: skip
TRANSFER = {
    **DOT, "kind": "transfer-cost", "status": "ok", "exit_code": 0,
    "measurements": [COPY_ROW, SKIPPED_ROW],
    "fits": [{
        "id": "transfer.h2d.fit[backend=pyopencl,memory=pageable,mode=sync,names=a,pattern=alone]",
        "fits": True, "regimes": 1, "sizes_bytes": [64, 512, 4096], "residual_max": 0.06,
        "held_back": {"bytes": 131072, "predicted_s": 1.15e-5, "measured_s": 1.11e-5},
        "metrics": {
            "latency": figure(5.0e-6, 4.9e-6, 5.2e-6, "s"),
            "peak_bandwidth": figure(2.02e10, 1.97e10, 2.06e10, "B/s"),
            "half_size": figure(101000, 97000, 106000, "B"),
            "size_90": figure(909000, 873000, 954000, "B"),
        },
    }],
    "break_evens": [{
        "id": "transfer.affine[backend=pyopencl,names=a,resident=false]",
        "workload": "y=x.w+b", "against": "host", "wins": [], "measured_to_bytes": 67108864,
        "why_stopped": "budget", "reason": None, "check": None,
        "metrics": {"from_bytes": endless("B"), "predicted_from_bytes": endless("B"),
                    "calls_to_amortise_setup": endless("1")},
        "shares": {"400": {"calls": 100, "total_s": 0.0021, "host_s": 0.0001, "upload": 0.24,
                           "compute": 0.21, "download": 0.22, "overhead": 0.33}},
    }],
    "verdicts": [],
}  # fmt: skip


def test_the_schema_is_one():
    """It is itself valid, and every key says what it is."""
    Draft202012Validator.check_schema(SCHEMA)

    silent = [
        f"{name}.{key}"
        for name, thing in [("", SCHEMA), *SCHEMA["$defs"].items()]
        for key, described in thing.get("properties", {}).items()
        if not ({"description", "$ref"} & set(described))
    ]
    assert silent == []


@pytest.mark.parametrize("report", [DOT, TRANSFER], ids=["dot", "transfer-cost"])
def test_the_designs_examples_are_valid(report):
    """What the design shows is what the schema says."""
    assert problems(report) == []


def _changed(report, path, value):
    changed = copy.deepcopy(report)
    place = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return changed


ROW = ("measurements", 0)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema_version",), 2),
        (("kind",), "checks"),
        (("status",), "failed"),
        (("exit_code",), 1),  # says inconclusive
        (("started",), "yesterday"),
        (("devices", 0, "kind"), "gpu"),
        (("devices", 0, "silicon"), []),
        (("map", "source"), "guess"),
        (("map", "notes", 0, "severity"), "fatal"),
        (("map", "notes", 0, "span"), [1]),
        (("fingerprint", "hash"), "5f0c"),
        (("machine", "before", "busy"), 1.5),
        ((*ROW, "id"), "dot.one"),
        ((*ROW, "id"), "dot.one[size=1024"),
        ((*ROW, "status"), "unstable"),
        ((*ROW, "status"), "skipped"),  # without a reason
        ((*ROW, "reason"), {"code": "unsupported", "text": "no"}),  # although ok
        ((*ROW, "flags"), ["fast"]),
        ((*ROW, "flags"), ["unstable", "unstable"]),
        ((*ROW, "samples"), []),
        ((*ROW, "samples"), ["nan"]),
        ((*ROW, "clock"), None),
        ((*ROW, "check", "passed"), False),  # with figures
        ((*ROW, "check"), {"method": "bytes", "passed": True, "max_error": 0, "bound": 1}),
        ((*ROW, "check", "bound"), 1e30),
        ((*ROW, "check", "max_error"), -0.1),
        ((*ROW, "metrics"), {}),
        ((*ROW, "metrics", "time", "unit"), "ms"),
        ((*ROW, "metrics", "time", "value"), None),  # and not what it is instead
        ((*ROW, "metrics", "time", "nonfinite"), "nan"),  # beside a value
        ((*ROW, "metrics", "time", "nonfinite"), "impossible"),  # so is this
        ((*ROW, "metrics", "time", "low"), None),  # both ends, or none
        ((*ROW, "metrics", "time", "high"), None),
        ((*ROW, "ceiling", "origin"), "rumour"),
        ((*ROW, "metrics", "speed"), figure(1, 1, 1, "1")),
        ((*ROW, "stop", "why"), "tired"),
        ((*ROW, "marks"), [{"sample": 0, "mark": "odd", "detail": "no word of the list"}]),
        ((*ROW, "queue_s"), [None]),
        ((*ROW, "cpu_s"), None),
        ((*ROW, "empty_sync_s"), -1.0),
        ((*ROW, "worked_s"), {"dev0": 0.1}),
        ((*ROW, "phases_s"), {"compute": 0.1}),
        ((*ROW, "phases_s"), {"compute": [-0.1]}),
        ((*ROW, "phases_s"), {"forward": [0.1]}),
        ((*ROW, "around", "foreign_cores"), -0.1),
        ((*ROW, "around", "steal"), 1.5),
        ((*ROW, "ceiling", "share"), None),
        (("measurements", 1, "explanation", "cause"), "bad luck"),
        (("measurements", 1, "explanation", "figures"), {"dev1": 0.9}),  # without an interval
        (("verdicts", 0, "verdict"), "maybe"),
        (("verdicts", 0, "metric"), "speed"),
    ],
)
def test_a_report_outside_the_closed_lists_is_not_valid(path, value):
    """The schema is strict where a script branches."""
    assert problems(_changed(DOT, path, value)) != []


@pytest.mark.parametrize(
    ("figure", "flags"),
    [
        ({"value": 1.84, "low": None, "high": None, "unit": "1"}, ["unstable"]),
        (endless("1") | {"nonfinite": "impossible"}, ["impossible"]),
        ({"value": 21.9, "low": None, "high": None, "unit": "1"}, ["superlinear"]),
        (endless("1") | {"low": 1.5}, []),
    ],
)
def test_a_figure_may_lack_its_interval_or_be_refused(figure, flags):
    """Two nulls beside a value are no interval; what three stand for, a word says."""
    gain = ("measurements", 1, "metrics", "speedup")
    tree = _changed(_changed(DOT, gain, figure), ("measurements", 1, "flags"), flags)

    assert problems({**tree, "status": "inconclusive", "exit_code": 0}) == []


def places(value, path=()):
    """Return the path of every key of every object that the schema knows by name."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key)
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield from places(item, (*path, n))


# These hold what the user or the benchmark put there; anything may be missing.
OPEN = ("params", "settings", "environment", "work", "metrics", "spans", "worked_s", "figures",
        "memory_bytes", "libraries", "clocks_hz", "shares")  # fmt: skip


@pytest.mark.parametrize("report", [DOT, TRANSFER], ids=["dot", "transfer-cost"])
def test_every_key_is_required(report):
    """Without any one of its keys, a report is not valid: null says that one does not apply."""
    unnoticed = []
    for path in places(report):
        if len(path) > 1 and path[-2] in OPEN:
            continue
        less = copy.deepcopy(report)
        place = less
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]
        if not problems(less):
            unnoticed.append(path)

    assert unnoticed == []


def test_keys_may_be_added():
    """A newer gpumap may say more within a schema version."""
    assert problems({**DOT, "more": 1, "machine": {**DOT["machine"], "room": "cold"}}) == []


def test_the_statuses_are_those_of_the_code():
    """Each status the code can give is in the schema, with its exit code."""
    listed = {
        rule["if"]["properties"]["status"]["const"]: rule["then"]["properties"]["exit_code"]
        for rule in SCHEMA["allOf"]
        if "status" in rule["if"]["properties"]
    }
    alone = {status: {"const": int(code)} for code, status in STATUS.items()}

    assert listed == {
        **alone,
        "skipped": {"const": Exit.OK},
        "inconclusive": {"enum": [Exit.OK, Exit.INCONCLUSIVE]},  # 0: no verdict was asked for
    }


def test_the_causes_are_those_of_the_code():
    """Each cause that the code can give is in the schema."""
    explanation = SCHEMA["$defs"]["measurement"]["properties"]["explanation"]

    listed = tuple(explanation["oneOf"][0]["properties"]["cause"]["enum"])
    assert listed == (*CAUSES, *transfers.CAUSES)


# --- rows


def rendered(**others):
    """Return a row as it is written, from what was measured; the schema must know it."""
    ref = DeviceRef(Kind.CPU, 0)
    device = Device("cpu:0", Kind.CPU, ref, "CPU", "numpy", silicon=frozenset({"core:0"}))
    case = Case("dot", "solo", {"size": 64}, (Binding("dev0", device),), Work(1, 2 * 64**3))
    time = Estimate(0.5, 0.4, 0.6, "s")
    known = {
        "samples": Samples((0.5,), (0,)), "stop": Stop("budget", 1, 3, 0.0, 1.0),
        "check": Check("float64 reference", passed=True, max_error=0.05, bound=1.0),
        "metrics": {"time": time},
    }  # fmt: skip
    row = renderer._row(Measurement(case, "ok", **(known | others)))
    assert problems({**DOT, "measurements": [row]}) == []
    assert list(row) == SCHEMA["$defs"]["measurement"]["required"]
    return row


def test_a_row_tells_what_its_samples_went_into():
    """Queueing, CPU time, an empty wait, what the device's own thread worked, and phases."""
    taken = Samples(
        (0.5, 0.4), (0, 1), queue=(0.25, 0.125), cpu=(0.5, 0.375), empty_sync=1e-6,
        worked={"dev0": (0.5, 0.25)}, spans={"dev0": ((0.0, 0.5), (1.0, 1.5))},
        marks=(SampleMark(1, "preempted", "elsewhere"),),
        phases={"compute": (0.375, 0.25), "sync": (0.125, 0.0)},
    )  # fmt: skip

    row = rendered(samples=taken)

    assert (row["queue_s"], row["cpu_s"], row["empty_sync_s"]) == (
        [0.25, 0.125],
        [0.5, 0.375],
        1e-6,
    )
    assert row["worked_s"] == {"dev0": [0.5, 0.25]}
    assert row["spans"] == {"dev0": {"start_s": [0.0, 1.0], "stop_s": [0.5, 1.5]}}
    assert row["marks"] == [{"sample": 1, "mark": "preempted", "detail": "elsewhere"}]
    assert row["phases_s"] == {"compute": [0.375, 0.25], "sync": [0.125, 0.0]}


@pytest.mark.parametrize(
    ("around", "said"),
    [
        (None, None),
        (Around(), (None, None, None, None)),
        (Around(1.5, 0.25, 2.0, 4), (1.5, 0.25, 2.0, 4)),
    ],
)
def test_a_row_tells_what_was_around(around, said):
    """What others took; null where that is not known."""
    keys = ("foreign_cores", "steal", "busy_cores_before", "cores")

    assert (said and dict(zip(keys, said, strict=True))) == rendered(around=around)["around"]


def test_a_row_tells_its_ceiling_and_its_cause():
    """Each with its figures; null where there is none."""
    ceiling = Ceiling("rate", 2e11, "FLOP/s", 0.5, "measured: multiply-adds", "measured")
    cause = Explanation("serialised", "they take turns", {"overlap": Estimate(0, 0, 0.25, "1")})

    row = rendered(ceiling=ceiling, explanation=cause)

    assert row["ceiling"] == {
        "metric": "rate", "share": 0.5, "value": 2e11, "unit": "FLOP/s",
        "source": "measured: multiply-adds", "origin": "measured",
    }  # fmt: skip
    assert row["explanation"] == {
        "cause": "serialised", "text": "they take turns",
        "figures": {"overlap": figure(0, 0, 0.25, "1")},
    }  # fmt: skip
    assert (rendered()["ceiling"], rendered()["explanation"]) == (None, None)


# --- real reports

FAKE = script({}, {"fault": "flip"}, {"fault": "lost"}, {})


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("check", "a->cuda0"), "ok"),
        (("check", "--syntax-only", "a->cuda0"), "ok"),
        (("check", "--needs", "b", "a->cuda0"), "no"),
        (("check", "a->cuda0;b->cuda9"), "absent"),
        (("check", "a->cuda2"), "absent"),
        (("check", "a->cuda1"), "wrong-data"),
        (("check", "a=>cuda0;;b"), "error"),
        (("check",), "error"),
        (("check", "--map-file", "none"), "error"),
        (("check", "--backend", "numpy", "a->cpu0"), "ok"),
        (("check", "--backend", "numpy", "a->cuda0"), "error"),
        (("devices",), "ok"),
        (("devices", "--backend", "numpy"), "ok"),
        (("devices", "--backend", "nope"), "error"),
    ],
)
def test_every_report_is_valid_and_complete(gpumap, arguments, status):
    """Also on failure: the same keys in the same order, and the exit code of the process."""
    answer = gpumap.fake(FAKE)(*arguments, "--format", "json")

    report = json.loads(answer.out, parse_constant=pytest.fail)
    assert problems(report) == []
    assert list(report) == SCHEMA["required"]
    assert (report["status"], report["exit_code"]) == (status, answer.code)
    assert report["argv"] == [*arguments, "--format", "json"]
    assert bool(report["errors"]) == (status != "ok")


def test_an_interrupted_report_is_valid(gpumap):
    """Ctrl-C while a driver hangs: what is known so far, valid and complete."""
    (gpumap.folder / "lib").mkdir()
    (gpumap.folder / "lib" / "pyopencl.py").write_text(
        "import os, time\nos.mkdir('hangs')\ntime.sleep(600)\n"
    )
    gpumap.env["PYTHONPATH"] = str(gpumap.folder / "lib")
    process = subprocess.Popen(
        [gpumap.command, "check", "--format", "json", "a->opencl0:0"],
        cwd=gpumap.folder,
        env=gpumap.env,
        stdout=subprocess.PIPE,
    )
    with process:
        while not (gpumap.folder / "hangs").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=LIMIT)

    report = json.loads(out)
    assert problems(report) == []
    assert (report["status"], report["exit_code"]) == ("interrupted", 130)
    assert [error["code"] for error in report["errors"]] == ["interrupted"]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("bench", "dot", "--size", "64", "--map", "a->cuda0;b->cuda3"), "ok"),
        (("transfer-cost", "--map", "a->cuda0"), "inconclusive"),  # the large copies are slow
        (("transfer-cost", "--map", "a->cuda0;b->cuda1"), "wrong-data"),
        (("bench", "dot", "--size", "64", "--map", "a->cuda2"), "absent"),
    ],
)
def test_measured_reports_are_valid(gpumap, arguments, status):
    """Rows of measurements, whatever became of them."""
    answer = gpumap.fake(FAKE)(*arguments, "--format", "json")

    report = json.loads(answer.out, parse_constant=pytest.fail)
    ids = [row["id"] for row in report["measurements"]]
    assert problems(report) == []
    assert (report["status"], report["exit_code"]) == (status, answer.code)
    assert len(set(ids)) == len(ids)
    assert report["simulated"] is True


def test_the_state_of_gpus_is_valid():
    """What NVML tells has its key; what it does not tell is null, and no GPU is an empty list."""
    told = GpuState("cuda:0", {"sm": 1.98e9, "memory": 3.2e9}, 699.5, 61, ("power cap",))
    states = [State(None, None, None, {}, gpus) for gpus in ((), (told, GpuState("cuda:1")))]

    found = [renderer._state(state) for state in states]

    validator = Draft202012Validator({"$ref": "#/$defs/state", "$defs": SCHEMA["$defs"]})
    assert [list(validator.iter_errors(state)) for state in found] == [[], []]
    assert [state["gpus"] for state in found] == [[], [
        {"device": "cuda:0", "clocks_hz": {"sm": 1.98e9, "memory": 3.2e9}, "power_w": 699.5,
         "temperature_c": 61, "throttle": ["power cap"]},
        {"device": "cuda:1", "clocks_hz": {}, "power_w": None, "temperature_c": None,
         "throttle": None},
    ]]  # fmt: skip


# --- the text


def test_arrays_of_plain_values_stand_on_one_line():
    """A report with a thousand samples can still be read."""
    text = "".join(renderer._written({"a": [1, 2.5, None], "b": [{"c": []}], "d": {}}, ""))

    assert text == (
        '{\n  "a": [1, 2.5, null],\n  "b": [\n    {\n      "c": []\n    }\n  ],\n  "d": {}\n}'
    )


def test_the_text_is_the_report():
    """Nothing is lost or reordered on the way to text, and all of it is ASCII."""
    report = {**DOT, "argv": ["\u202e\x1b\ud800é"]}

    text = "".join(renderer._written(report, ""))

    assert json.loads(text) == report
    assert text.isascii()
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_never_written_as_one(value):
    """NaN is no JSON: better no report than one that no reader takes."""
    with pytest.raises(ValueError, match="Out of range float values"):
        "".join(renderer._written({"elapsed_s": [value]}, ""))

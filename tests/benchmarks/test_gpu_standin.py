"""`make gpu` over the stand-in for CuPy: two devices, planted faults, and what a kill leaves."""

import json
import os
import signal
import subprocess
from importlib.util import find_spec

import pytest
from mpi_jobs import run
from standin import ROOT, environment, gpu_command, needs_standin, went_well
from tables import table

pytestmark = pytest.mark.timeout(1600)
LIMIT = 1500
TORCH = [ROOT / "tests" / "torch_site", ROOT / "tests"]  # PyTorch's GPUs, to be found by Python


def steps_of(standin, out, *arguments, devices=1, fault="", path=()):
    env = environment(standin, devices, fault=fault)
    env["PYTHONPATH"] = os.pathsep.join([env["PYTHONPATH"], *map(str, path)])
    done = run(gpu_command(out, *arguments), ROOT, LIMIT, **env)
    (made,) = out.glob("*.json")
    return done.returncode, json.loads(made.read_text())


@needs_standin
def test_a_record_of_one_device(standin, tmp_path):
    """Each kind of step, in CI; without a library its steps are skipped, and say so."""
    only = "check,doctor,preflight,exec,opencl,torch-cupy,dot,transfer,check:jax,dot-again"
    code, found = steps_of(standin, tmp_path, "--only", only)
    words = {step["key"]: (step["verdict"], step["why"]) for step in found["steps"]}
    assert {words.pop(key)[0] for key in ("torch-cupy", "check:jax")} == {"skipped"}
    assert {key: why for key, (word, why) in words.items() if word != "passed"} == {}
    assert (code, found["verdict"], found["simulated"]) == (0, "passed", True)


@needs_standin
def test_two_devices(standin, tmp_path):
    code, found = steps_of(standin, tmp_path, devices=2)
    bad = {s["key"]: s["why"] for s in found["steps"] if not went_well(s)}
    assert (code, bad, found["simulated"]) == (0, {}, True)
    assert {"fan", "exec-ranks", "dot:cuda0,cuda1", "transfer:cuda1,cuda0"} <= {
        s["key"] for s in found["steps"]
    }


STEPS = "check,preflight,exec,copies,dot,transfer,dot-large,chain,train"


@needs_standin
@pytest.mark.parametrize(("fault", "failing"), table(__file__)["faults"].items())
def test_a_fault_fails_its_own_step_alone(standin, tmp_path, fault, failing):
    code, found = steps_of(standin, tmp_path, "--only", STEPS, fault=fault)
    assert {s["key"] for s in found["steps"] if s["verdict"] == "failed"} == {failing}
    assert {s["verdict"] for s in found["steps"] if s["key"] != failing} == {"passed"}
    assert (code, found["verdict"]) == (1, "failed")
    assert [s["key"] for s in found["steps"]] == STEPS.split(",")


@pytest.mark.skipif(find_spec("torch") is None, reason="torch: not installed")
@pytest.mark.parametrize("fault", ["", "wrong-sum:cupy,torch"])
def test_torch_beside_cupy(standin, tmp_path, fault):
    only = ("--only", "check:torch,torch-cupy")
    code, found = steps_of(standin, tmp_path, *only, fault=fault, path=TORCH)
    words = {step["key"]: step["verdict"] for step in found["steps"]}
    assert words == {"check:torch": "passed", "torch-cupy": "failed" if fault else "passed"}
    assert code == bool(fault)


@needs_standin
@pytest.mark.parametrize("after", range(5))
def test_a_kill_loses_nothing(standin, tmp_path, after):
    command = gpu_command(tmp_path, "--only", "check,copies,dot,memory,dot-large,chain")
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(standin), stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    ended = []
    for line in process.stdout:
        if line.startswith("  passed"):
            ended.append(line.split()[1])
        if (" steps, " in line or ended) and len(ended) == after:
            process.send_signal(signal.SIGTERM if after % 2 else signal.SIGKILL)
            break
    process.communicate(timeout=LIMIT)
    (made,) = tmp_path.glob("*.json")
    found = json.loads(made.read_text())
    assert found["verdict"] == "incomplete"
    assert [s["key"] for s in found["steps"]][:after] == ended
    assert all(s["verdict"] == "passed" for s in found["steps"][:after])
    assert made.with_suffix(".md").exists()

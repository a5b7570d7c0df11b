"""The CUDA path over a stand-in for CuPy, tests/cuda_standin: what is right, never how fast."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from flat_report import loads
from standin import FOLDER, ROOT, environment, needs_standin
from tables import table

PROGRAMS = table(__file__)
pytestmark = needs_standin
LIMIT = 300


def ran(command, env, **others):
    given = {"cwd": ROOT, "timeout": LIMIT} | others
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, **given)


@pytest.fixture
def measured(gpumap, standin):
    def run(*arguments, devices=1, fault=""):
        env = environment(standin, devices, fault=fault, base=gpumap.env)
        names = ";".join(f"dev{n}->cuda{n}" for n in range(devices))
        command = [gpumap.command, *arguments, "--map", names, "--format", "json"]
        done = ran(command, env, cwd=gpumap.folder)
        assert done.stdout, done.stderr
        return done.returncode, loads(done.stdout)

    return run


def rows_of(report):
    return [row for row in report["measurements"] if row["status"] != "skipped"]


def test_every_name_is_one_of_the_installed_cupy(standin):
    """With the parameters that it has there, in their order, and constants of the same value."""
    own = _python(["-c", PROGRAMS["listed"]], environment(standin))
    env = {**os.environ, "PYTHONPATH": ""}
    real = _python([FOLDER / "real.py"], env, json.dumps(list(own)))
    assert sorted(set(own) - set(real)) == []
    unlike = {
        n: (own[n], real[n]) for n in own if real[n] is not None and not alike(own[n], real[n])
    }
    assert unlike == {}
    assert sum(real[n] is not None for n in own) >= 0.7 * len(own)  # the others tell no parameters


def test_a_launch_is_as_strict_as_the_drivers(standin):
    """What CUDA refuses has its status; what it leaves undefined is `Misuse`."""
    found = _python(["-c", PROGRAMS["launches"]], environment(standin, devices=2))
    assert found.pop("right") is None
    assert found == PROGRAMS["launched"]


def alike(own, real):
    """Return whether both are one: what CuPy has more may only come behind."""
    if not isinstance(own, list):
        return own == real or own is True  # `available` is what is installed
    return own == real[: len(own)]


def _python(arguments, env, given=""):
    done = ran([sys.executable, "-P", *map(str, arguments)], env, cwd=None, input=given)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.timeout(LIMIT)
def test_the_conformance_suite(standin):
    """All of it on two devices: streams of the first run at once, those of the other late."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-rs", "-p", "no:cacheprovider", "-p",
               "no:xdist", "--full", "-k", "cupy and not pyopencl",
               "tests/backends/conformance"]  # fmt: skip
    done = ran(command, environment(standin, devices=2, eager="0"))
    assert done.returncode == 0, done.stdout[-4000:]
    skipped = re.findall(r"SKIPPED \[\d+\] (\S+?):", done.stdout)
    assert {Path(file).name for file in skipped} <= {"test_torch_standin.py"}  # CuPy has it all


@pytest.mark.timeout(LIMIT)
@pytest.mark.parametrize(
    "command", PROGRAMS["commands"], ids=lambda c: "-".join(w for w in c if w[0] != "-")
)
def test_a_command_measures_nothing_and_verifies_all(measured, command):
    """Every row is right, and marked: none may pass for a measurement."""
    code, report = measured(*command, devices=2 if "nccl" in command else 1)
    assert (code, report["errors"], report["simulated"]) == (0, [], True)
    assert {(row["status"], row["check"]["passed"]) for row in rows_of(report)} == {("ok", True)}
    assert "simulated" in [note["code"] for note in report["map"]["notes"]]


@pytest.mark.timeout(LIMIT)
@pytest.mark.parametrize(
    ("devices", "command"), PROGRAMS["wrong_bytes"], ids=["dot", "chain", "h2d", "d2d"]
)
def test_a_wrong_byte_of_an_upload_is_found(measured, devices, command):
    """Though it is the lowest of an operand, or a second copy flips it back."""
    code, report = measured(*command, devices=devices, fault="wrong-byte")
    rows = [row for row in rows_of(report) if row["case"] != "host"]
    assert code == 4
    assert {(row["status"], row["reason"]["code"]) for row in rows} == {("failed", "wrong-data")}


@pytest.mark.parametrize("fault", ["", "peer-refused", "peer-moves-nothing"])
def test_one_to_all_and_all_to_one(standin, fault):
    """On three devices, every byte, by way of the host where peers cannot be used."""
    devices = ("--devices", "cuda0,cuda1,cuda2", "--sizes", "4KiB")
    short = ("--blocks", "2", "--seconds", "0.001")
    command = [sys.executable, "-m", "benchmarks.gpu.contests", "fan", *devices, *short]
    done = ran(command, environment(standin, 3, fault=fault))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, [line["errors"] for line in lines]) == (0, [{}, {}])
    assert all(line["simulated"] for line in lines)

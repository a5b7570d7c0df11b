"""Every kernel under oclgrind, an OpenCL device that sees each access, on Debian.

It finds reads and writes out of bounds, data races and values that were never written; its exit
code is 0 whatever it finds, so its log must be empty. Buffers are uploaded whole: what is behind a
part that was written it takes for unwritten (21.10, `Uninitialized::hostMemoryStore`).
"""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from commands.scripts import report
from tables import table

PROGRAMS = table(__file__)
ROOT = Path(__file__).parents[2]
LIMIT = 300  # seconds; it is a thousand times as slow as a device
NO_OCLGRIND = "oclgrind: not installed (Debian: apt-get install oclgrind)"
pytestmark = [
    pytest.mark.skipif(shutil.which("oclgrind") is None, reason=NO_OCLGRIND),
    pytest.mark.skipif(find_spec("pyopencl") is None, reason="pyopencl: not installed"),
]


def log_of(text, tmp_path):
    """Run a program under oclgrind and return what it has to say."""
    log, program = tmp_path / "oclgrind.log", tmp_path / "program.py"
    program.write_text(PROGRAMS["opened"] + text)
    checks = ("--data-races", "--uninitialized", "--max-errors", "20", "--log", str(log))
    done = subprocess.run(
        ["oclgrind", *checks, sys.executable, str(program)], check=False, timeout=LIMIT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYOPENCL_NO_CACHE": "1"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return log.read_text() if log.exists() else ""


def test_what_is_measured_on_it_is_simulated(gpumap):
    """It is no default, though it says that it is a GPU; where it is mapped the report says so."""
    command = ["oclgrind", gpumap.command]
    listed = report(gpumap.run([*command, "devices", "--format", "json"]))
    checked = gpumap.run([*command, "check", "a->opencl0:0", "--format", "json"])
    names = [device["name"] for device in listed["devices"] if device["kind"] == "opencl"]
    assert names == ["Oclgrind Simulator"]
    assert "opencl" not in listed["map"]["text"]
    assert (listed["simulated"], report(checked)["simulated"], checked.code) == (False, True, 0)
    assert "simulated" in {note["code"] for note in report(checked)["map"]["notes"]}


@pytest.mark.parametrize("program", ["every", "chain", "products"])
def test_no_kernel_does_what_it_must_not(tmp_path, program):
    """At odd offsets, in every place, with less and more than a work-item takes."""
    assert log_of(PROGRAMS[program], tmp_path) == ""


def test_a_kernel_that_goes_too_far_is_found(tmp_path):
    """The check can fail: one element behind the end."""
    assert "Invalid write" in log_of(PROGRAMS["beyond"], tmp_path)

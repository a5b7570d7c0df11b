"""Every kernel under oclgrind, an OpenCL device that sees each access, on Debian.

It finds reads and writes out of bounds, data races and values that nobody wrote; its exit code is 0
whatever it finds, so its log must be empty. Buffers are uploaded whole: what is behind a part that
was written it takes for unwritten (21.10, `Uninitialized::hostMemoryStore`).
"""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from commands.scripts import report

ROOT = Path(__file__).parents[2]
LIMIT = 300  # seconds; it is a thousand times as slow as a device
NO_OCLGRIND = "oclgrind: not installed (Debian: apt-get install oclgrind)"
pytestmark = [
    pytest.mark.skipif(shutil.which("oclgrind") is None, reason=NO_OCLGRIND),
    pytest.mark.skipif(find_spec("pyopencl") is None, reason="pyopencl: not installed"),
]

OPENED = """
import os
import numpy as np
from gpumap.backends.base import Host, Clock
from gpumap.backends.pyopencl.devices import PyopenclBackend
from gpumap.kernels.table import KERNELS
from gpumap.machine.topology import read
backend = PyopenclBackend(Host(dict(os.environ), read()))
(device,) = backend.inventory().devices
assert device.name == "Oclgrind Simulator", device.name
rng = np.random.default_rng(1)
def sent(session, array):
    buffer = session.empty(array.shape, array.dtype.name)
    session.upload(array, buffer)
    return buffer
"""

EVERY = """
BYTES = ("fill", "shift", "differ")  # the others are for numbers with a fraction
SHORT = 7
def drawn(session, dtype, elements, offset):
    return sent(session, rng.integers(0, 200, elements + offset).astype(dtype))[offset:]
def arguments(session, kinds, dtype, size, offset):
    short = min(SHORT, size)
    for kind in kinds:
        if kind == "scalar":
            yield 3.0
        elif kind == "count":
            yield short
        elif kind == "counter":
            yield sent(session, np.zeros(2, np.uint32))[1:]
        else:
            yield drawn(session, dtype, short if kind == "short" else size, offset)
with backend.open(device, Clock()) as session:
    for kernel in (k for k in KERNELS.values() if "matrix" not in k.arguments):
        whole = ("uint8", "uint32") if kernel.name in BYTES else ()
        for dtype in (*whole, "float32"):
            for size, offset in ((1, 3), (100, 3), (5000, 3), (5000, 0)):
                given = list(arguments(session, kernel.arguments, dtype, size, offset))
                session.run(kernel.name, *given, size=size)
                session.synchronize()
"""

CHAIN = """
def matrix(session, rows, columns):
    return sent(session, rng.standard_normal((rows + 3, columns), dtype=np.float32))[3:]
with backend.open(device, Clock()) as session:
    for inner, columns in ((10, 5), (3, 1), (2, 20)):
        for rows in (1, 15, 16, 17, 600):
            x, w = matrix(session, rows, inner), matrix(session, inner, columns)
            b = sent(session, np.ones(columns + 3, np.float32))[3:]
            out = sent(session, np.zeros((rows + 3, columns), np.float32))[3:]
            session.run("chain", x, w, b, out, size=rows)
            session.synchronize()
"""

SOFTMAX = """
with backend.open(device, Clock()) as session:
    for columns, rows in ((c, r) for c in (1, 3, 100) for r in (1, 17, 130)):
        a = sent(session, rng.standard_normal((rows + 3, columns), dtype=np.float32))[3:]
        out = sent(session, np.zeros((rows + 3, columns), np.float32))[3:]
        session.run("softmax", a, out, size=rows)
        session.run("softmax", a, a, size=rows)
        session.synchronize()
"""

PRODUCTS = """
import dataclasses
import itertools
TURNS = list(itertools.product((False, True), repeat=2))
SIZES = {(1, 1, 1): TURNS[:1], (13, 33, 9): TURNS, (6, 4, 260): TURNS[:1], (65, 66, 3): TURNS[:1]}
def multiply(session, dtype, sizes, turned):
    rows, columns, inner = sizes
    shapes = [(rows, inner), (inner, columns)]
    shapes = [shape[::-1] if turn else shape for shape, turn in zip(shapes, turned)]
    a, b, out = (
        sent(session, rng.standard_normal((count + 3, width)).astype(dtype))[3:]
        for count, width in (*shapes, (rows, columns))
    )
    session.gemm(a, b, out, transpose=turned, alpha=2.0, beta=0.5)
    session.synchronize()
with backend.open(device, Clock()) as session:
    facts = session._facts
    for processor, register, dtype in (
        (True, 16, "float32"), (True, 64, "float32"), (True, 32, "float64"), (False, 16, "float32"),
    ):
        session._facts = dataclasses.replace(facts, processor=processor, register=register)
        for sizes, turns in SIZES.items():
            for turned in turns:
                multiply(session, dtype, sizes, turned)
"""

BEYOND = """
from gpumap.kernels.table import Kernel
Kernel.element = lambda self, given, size: given[0].dtype  # or it would be refused
with backend.open(device, Clock()) as session:
    buffer = sent(session, np.zeros(10, np.uint8))
    session.run("fill", buffer, 1.0, size=11)
    session.synchronize()
"""


def log_of(text, tmp_path):
    """Run a program under oclgrind and return what it has to say."""
    log, program = tmp_path / "oclgrind.log", tmp_path / "program.py"
    program.write_text(OPENED + text)
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


@pytest.mark.parametrize("program", [EVERY, CHAIN, SOFTMAX, PRODUCTS], ids=["every", "chain",
                         "softmax", "products"])  # fmt: skip
def test_no_kernel_does_what_it_must_not(tmp_path, program):
    """At odd offsets, in every type and place, with less and more than a work-item takes."""
    assert log_of(program, tmp_path) == ""


def test_a_kernel_that_goes_too_far_is_found(tmp_path):
    """The check can fail: one byte behind the end."""
    assert "Invalid write" in log_of(BEYOND, tmp_path)

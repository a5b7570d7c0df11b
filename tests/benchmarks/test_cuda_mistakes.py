"""Thirty mistakes in the CUDA path, written down before it was looked which are found.

Each is one change of the source, and is found if the conformance suite over the stand-in fails, or
a sum by NCCL does. That the source as it is passes both is shown first.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass

import pytest
from standin import ROOT, environment, needs_standin

pytestmark = [needs_standin, pytest.mark.timeout(600)]
LIMIT = 500


@dataclass(frozen=True)
class Mistake:
    """What is written in place of what, in a file of gpumap/backends."""

    kind: str
    file: str
    right: str
    wrong: str


MISTAKES = (
    Mistake("name", "cupy/session", "runtime.memcpyHostToDevice", "runtime.memcpyHostToDev"),
    Mistake("name", "cupy/gemm", "cublas.setMathMode", "cublas.cublasSetMathMode"),
    Mistake("name", "cupy/nccl", "nccl.NCCL_FLOAT32", "nccl.NCCL_FLOAT"),
    Mistake("order", "cupy/session", "copy(target, source, nbytes", "copy(source, target, nbytes"),
    Mistake("order", "cupy/gemm", "*left, *right", "*right, *left"),
    Mistake("order", "cupy/gemm", "columns, rows, inner, alpha", "rows, columns, inner, alpha"),
    Mistake("order", "cupy/session", "target.session.ordinal, source.address, here.ordinal",
            "here.ordinal, source.address, target.session.ordinal"),
    Mistake("order", "cupy/session", "get_elapsed_time(start.event, stop.event)",
            "get_elapsed_time(stop.event, start.event)"),
    Mistake("constant", "cupy/gemm", "_TRANSPOSED = 0, 1", "_TRANSPOSED = 1, 0"),
    Mistake("constant", "cupy/gemm", '"float16": (2, 68)', '"float16": (2, 64)'),
    Mistake("constant", "cupy/gemm", '"bfloat16": (14, 68)', '"bfloat16": (2, 68)'),
    Mistake("constant", "cupy/gemm", '"float32": (0, 68)', '"float32": (0, 77)'),
    Mistake("constant", "cupy/gemm", "MATH_MODE = 16", "MATH_MODE = 0"),
    Mistake("constant", "cupy/memory", "flags = 2", "flags = 1"),
    Mistake("constant", "cupy/session", "runtime.memcpyDeviceToHost", "runtime.memcpyHostToDevice"),
    Mistake("unit", "cupy/session", "stop.event)) * 1e-3", "stop.event)) * 1e-6"),
    Mistake("unit", "cupy/session", "whole.ctypes.data, target.nbytes",
            "whole.ctypes.data, target.shape[0]"),
    Mistake("unit", "cupy/nccl", "address, buffer.shape[0]", "address, buffer.nbytes"),
    Mistake("wait", "base", "self.wait(there.mark())", "there.mark()"),
    Mistake("wait", "base", "there.wait(self.mark())", "self.mark()"),
    Mistake("wait", "cupy/session", "self._stream.synchronize()\n        self._held",
            "pass\n        self._held"),
    Mistake("wait", "cupy/session", "            stop.event.synchronize()\n", ""),
    Mistake("freed", "cupy/session", "results = self.empty((parts,), dtype.name).native",
            "results = np.uint64(self.empty((parts,), dtype.name).address)"),
    Mistake("freed", "cupy/gemm", "cublas.setMathMode(self._handle, MATH_MODE)",
            "cublas.setMathMode(self._handle, MATH_MODE), cublas.destroy(self._handle)"),
    Mistake("stream", "cupy/session", "stream = self._stream.ptr", "stream = 0"),
    Mistake("stream", "cupy/nccl", "NCCL_SUM, session.stream",
            "NCCL_SUM, self._ends[0][1].stream"),
    Mistake("device", "cupy/session", "cupy.cuda.Device(self.ordinal) as on",
            "cupy.cuda.Device(0) as on"),
    Mistake("lifetime", "cupy/session", "        self._held.append(whole)\n", ""),
    Mistake("lifetime", "cupy/session", "        self._held.append(target)\n", ""),
    Mistake("lifetime", "cupy/memory", "session, int(self._memory), max(nbytes, 1))",
            "session, int(self._memory), max(nbytes, 1)); del self._memory"),
)  # fmt: skip


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Return a copy of the source and of the tests, with drivers and kernels beside it."""
    folder = tmp_path_factory.mktemp("tree")
    for name in ("gpumap", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def passes(tree, file=""):
    """Return whether the suite and a sum by NCCL pass; with a file, the one that uses it."""
    env = environment(tree / "standin", devices=2, eager="0")
    env |= {"PYTHONPATH": f"{tree}:{env['PYTHONPATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
    suite = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-k",
             "cupy and not pyopencl", "tests/backends/test_conformance.py")  # fmt: skip
    nccl = ("-m", "gpumap", "bench", "allreduce", "--comm", "nccl", "--no-model", "--sizes",
            "small", "--budget", "1", "--map", "a->cuda0;b->cuda1")  # fmt: skip
    for command in {"": (nccl, suite), "cupy/nccl": (nccl,)}.get(file, (suite,)):
        done = subprocess.run(
            [sys.executable, *command], cwd=tree, env=env, capture_output=True, check=False,
            timeout=LIMIT,
        )  # fmt: skip
        if done.returncode:
            return False
    return True


def test_the_source_as_it_is_passes(tree):
    """Else everything would be found."""
    assert passes(tree)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: f"{m.kind}-{m.wrong[:40].strip()}")
def test_a_mistake_is_found(tree, mistake):
    """By an error or by wrong data, in a test."""
    file = tree / "gpumap" / "backends" / f"{mistake.file}.py"
    before = file.read_text()
    assert before.count(mistake.right) == 1
    file.write_text(before.replace(mistake.right, mistake.wrong))
    try:
        assert not passes(tree, mistake.file)
    finally:
        file.write_text(before)

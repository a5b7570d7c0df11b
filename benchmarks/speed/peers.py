"""Peers that need a process of their own: another setting of OpenBLAS, another Python."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from benchmarks.children import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

DEBIAN = ROOT / ".venv-pygpu" / "bin" / "python"  # whose Python has pygpu
LIMIT = 120.0  # seconds that a peer may take to end
_SAMPLE = 0.1  # seconds
# For each line that it reads, a number of calls, it writes the seconds that they took.
_PROGRAM = """
import sys, time
import numpy as np
size = int(sys.argv[1])
rng = np.random.RandomState(size)
a, b = (rng.uniform(-1, 1, (size, size)).astype("float32") for _ in range(2))
{setup}
for line in sys.stdin:
    start = time.perf_counter()
    for _ in range(int(line)):
        multiply()
    finish()
    print(time.perf_counter() - start, flush=True)
"""
_SETUPS = {
    "numpy": """
out = np.empty_like(a)
multiply, finish = lambda: np.matmul(a, b, out=out), lambda: None
""",
    "pygpu": """
import pygpu
from pygpu import blas
context = pygpu.init("opencl0:0")
a, b = (pygpu.array(matrix, context=context) for matrix in (a, b))
out = pygpu.empty((size, size), dtype="float32", context=context)
multiply, finish = lambda: blas.gemm(1.0, a, b, 0.0, out, overwrite_c=True), out.sync
""",
}


class Peer:
    """A process that multiplies two matrices of a size when it is asked to."""

    def __init__(self, name: str, size: int, python: str, more: Mapping[str, str]) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
        self._process = subprocess.Popen(
            [python, "-c", _PROGRAM.format(setup=_SETUPS[name]), str(size)],
            env={**environment, **more},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._calls = 1
        self()  # compiles, and is warm
        self._calls = max(round(_SAMPLE / self()), 1)

    def __call__(self) -> float:
        """Return the seconds of one product."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended, which is told below
            self._process.stdin.write(f"{self._calls}\n")
            self._process.stdin.flush()
        said = self._process.stdout.readline()
        if not said:
            raise RuntimeError(f"the peer ended: {self._end()}")
        return float(said) / self._calls

    def _end(self) -> int:
        """Close its stdin, wait for its end, and return its exit code."""
        self._process.communicate(timeout=LIMIT)
        return int(self._process.returncode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

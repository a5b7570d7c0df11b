"""Peers that need a process of their own: another setting of OpenBLAS, another Python.

    python -m benchmarks.speed.peers numpy 1024

A peer multiplies two matrices of that size. For each line that it reads, a number of calls, it
writes the seconds that they took. It imports nothing of gpumap: Debian's Python runs it too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

ROOT = Path(__file__).parents[2]
DEBIAN = ROOT / ".venv-pygpu" / "bin" / "python"  # whose Python has pygpu
LIMIT = 120.0  # seconds that a peer may take to end
_SAMPLE = 0.1  # seconds


class Peer:
    """A process that multiplies when it is asked to."""

    def __init__(self, name: str, size: int, python: str, more: Mapping[str, str]) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.speed.peers", name, str(size)],
            cwd=ROOT,
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

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._end()


def main() -> None:
    """Answer each line of stdin; its end ends the process."""
    multiply, finish = {"numpy": _numpy, "pygpu": _pygpu}[sys.argv[1]](int(sys.argv[2]))
    for line in sys.stdin:
        start = time.perf_counter()
        for _ in range(int(line)):
            multiply()
        finish()
        print(time.perf_counter() - start, flush=True)


def _numpy(size: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import numpy as np

    a, b = _matrices(size)
    out = np.empty_like(a)
    return lambda: np.matmul(a, b, out=out), lambda: None


def _pygpu(size: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import pygpu  # type: ignore[import-not-found]
    from pygpu import blas  # type: ignore[import-not-found]

    context = pygpu.init("opencl0:0")
    a, b = (pygpu.array(matrix, context=context) for matrix in _matrices(size))
    out = pygpu.empty((size, size), dtype="float32", context=context)
    return lambda: blas.gemm(1.0, a, b, 0.0, out, overwrite_c=True), out.sync


def _matrices(size: int) -> tuple[Any, Any]:
    import numpy as np

    rng = np.random.RandomState(size)
    return tuple(rng.uniform(-1, 1, (size, size)).astype("float32") for _ in range(2))  # type: ignore[return-value]


if __name__ == "__main__":
    main()

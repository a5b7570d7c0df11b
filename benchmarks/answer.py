"""How long a figure of 1 % takes: gpumap beside hyperfine and pyperf, on the same product.

    python -m benchmarks.answer [--rounds 3] [--size 1024]

All three time NumPy's product of two matrices on one core with one BLAS thread, one after the
other, the next round in reverse; gpumap is asked for 1 %, the others run as they are by default.
Printed is the wall time of each command, and what its own JSON says that it reached: half the 95 %
interval over the middle, gpumap's own of the median, and of the mean (Student's t) for the others,
which give no interval. hyperfine times whole commands: it gets one that multiplies PRODUCTS times,
and its interval still has the start of Python in it. Needs hyperfine (Debian has it); pyperf comes
from PyPI into a folder that is gone afterwards.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Any

import numpy as np

from gpumap.machine.state import Watch

if TYPE_CHECKING:
    from gpumap.model import State

PRODUCTS = 100  # of one command for hyperfine: the start of Python is a tenth of it
PRECISION = 0.01
_LOOK = 1.0  # seconds
_GPUMAP = str(Path(sys.executable).parent / "gpumap")
_SETUP = (
    "import numpy as np; g = np.random.default_rng(1);"
    " a, b = (g.standard_normal(({n}, {n}), dtype=np.float32) for _ in 'ab');"
    " o = np.empty(({n}, {n}), np.float32)"
)
_ONE = "np.matmul(a, b, out=o)"
_T = {9: 2.262, 19: 2.093, 59: 2.001, 119: 1.980}  # Student's, two-sided 95 %, by freedom


@dataclass(frozen=True)
class Tool:
    """A tool: its command, which writes JSON to a file, and what that says."""

    name: str
    command: Callable[[Path], list[str]]
    reached: Callable[[dict[str, Any]], tuple[float, float, int]]  # seconds, half-width, samples


@dataclass(frozen=True)
class Answer:
    """What a tool found, and how long that took."""

    wall: float
    seconds: float
    half_width: float
    samples: int


def main() -> int:
    """Measure and print; return 1 if gpumap did not reach 1 % first in most of the rounds."""
    asked = _arguments()
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})  # for all that is started from here
    with tempfile.TemporaryDirectory() as folder:
        tools = _tools(asked.size, _pyperf(Path(folder)))
        rounds = []
        for number in range(asked.rounds):
            order = tools[::-1] if number % 2 else tools
            before = _idle()
            answers = {tool.name: _answer(tool, Path(folder)) for tool in order}
            rounds.append((answers, before))
    return _print(asked.size, core, rounds)


def _idle() -> State:
    """Return how busy others keep the machine, while this process does nothing."""
    watch = Watch()
    time.sleep(_LOOK)
    return watch.read()


def _tools(size: int, pyperf: str) -> list[Tool]:
    setup = _SETUP.format(n=size)
    many = f"{setup}\nfor _ in range({PRODUCTS}): {_ONE}"
    return [
        Tool("gpumap", lambda path: [
            _GPUMAP, "bench", "dot", "--size", str(size), "--cases", "one", "--map", "a->cpu0",
            "--precision", f"{PRECISION:.0%}", "--quiet", "--output", f"json={path}",
        ], _of_gpumap),
        Tool("pyperf", lambda path: [
            pyperf, "-m", "pyperf", "timeit", "--quiet", "--inherit-environ", _THREADS,
            "--output", str(path), "--setup", setup, _ONE,
        ], _of_pyperf),
        Tool("hyperfine", lambda path: [
            "hyperfine", "--shell=none", "--style=none", f"--export-json={path}",
            f"'{sys.executable}' -c \"{many}\"",
        ], _of_hyperfine),
    ]  # fmt: skip


_THREADS = "OPENBLAS_NUM_THREADS,OMP_NUM_THREADS"


def _answer(tool: Tool, folder: Path) -> Answer:
    path = folder / f"{tool.name}.json"
    path.unlink(missing_ok=True)
    start = time.perf_counter()
    done = subprocess.run(
        tool.command(path), env=_environment(), capture_output=True, text=True, check=False
    )
    wall = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{tool.name} ended with {done.returncode}: {done.stderr}")
    return Answer(wall, *tool.reached(json.loads(path.read_text())))


def _environment() -> dict[str, str]:
    """Return the environment with one BLAS thread, and nothing else that steers OpenBLAS."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS_", "GPUMAP_"))}
    return kept | dict.fromkeys(_THREADS.split(","), "1")


def _of_gpumap(report: dict[str, Any]) -> tuple[float, float, int]:
    row = next(row for row in report["measurements"] if row["bench"] == "dot")
    found = row["metrics"]["time"]
    width = math.log(found["high"] / found["low"]) / 2
    return found["value"], width, len(row["samples"])


def _of_pyperf(report: dict[str, Any]) -> tuple[float, float, int]:
    (found,) = report["benchmarks"]
    return _of_mean([value for run in found["runs"] for value in run.get("values", [])], 1)


def _of_hyperfine(report: dict[str, Any]) -> tuple[float, float, int]:
    (found,) = report["results"]
    return _of_mean(found["times"], PRODUCTS)


def _of_mean(values: list[float], products: int) -> tuple[float, float, int]:
    middle, n = mean(values), len(values)
    t = next((t for freedom, t in _T.items() if n - 1 <= freedom), 1.96)
    return middle / products, t * stdev(values) / math.sqrt(n) / middle, n


def _pyperf(folder: Path) -> str:
    """Return a Python that has pyperf, and this Python's NumPy."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "pyperf"]
    subprocess.run(pip, check=True)
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (site / "ours.pth").write_text(f"{Path(np.__file__).parents[1]}\n")
    return str(python)


def _print(size: int, core: int, rounds: list[Any]) -> int:
    print(f"dot {size} float32, NumPy {np.__version__}, core {core}, one BLAS thread\n")
    heads = ("round", "tool", "wall time", "one product", "half-width", "samples", "reached")
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    wins = 0
    for number, (answers, state) in enumerate(rounds, 1):
        for name, one in answers.items():
            cells = (
                str(number),
                name,
                f"{one.wall:.1f} s",
                f"{1e3 * one.seconds:.2f} ms",
                f"{one.half_width:.2%}",
                str(one.samples),
                "yes" if one.half_width <= PRECISION else "no",
            )
            print(f"| {' | '.join(cells)} |")
        wins += _first(answers)
        shares = f"{state.busy or 0.0:.0%} busy, {state.steal or 0.0:.0%} stolen"
        print(f"\nmachine before round {number}: {shares}; load {state.load1}\n")
    ratios = [median(a[n].wall / a["gpumap"].wall for a, _ in rounds) for n in _others(rounds)]
    words = ", ".join(
        f"{ratio:.1f} times ({name})" for name, ratio in zip(_others(rounds), ratios, strict=True)
    )
    print(f"the others took, by the median of the rounds, as long as gpumap: {words}")
    met = 2 * wins > len(rounds)
    print(
        f"target: 1% in less time than both, in most rounds; {'met' if met else 'missed'}: {wins}"
    )
    return int(not met)


def _others(rounds: list[Any]) -> list[str]:
    return sorted(name for name in rounds[0][0] if name != "gpumap")


def _first(answers: dict[str, Answer]) -> bool:
    ours = answers["gpumap"]
    others = [one.wall for name, one in answers.items() if name != "gpumap"]
    return ours.half_width <= PRECISION and ours.wall < min(others)


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=1024)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

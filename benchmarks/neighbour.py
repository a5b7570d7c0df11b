"""Do intervals hold the truth beside a process that is busy half of the time?

    python -m benchmarks.neighbour [--runs 20] [--quiet-runs 3] [--period 0.1] [-- OPTIONS]

The truth is the speed-up of `many` by `gpumap bench dot` on the quiet machine in the same hour: the
median of runs before and after those beside the neighbour. A quiet run in which others used 5 % of
a core is repeated. Printed is each run, as it is judged and as observed, how many intervals hold
the truth, and how wide they are.
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
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GPUMAP = str(Path(sys.executable).parent / "gpumap")
_QUIET, _TRIES = 0.05, 5  # cores that others may use
_BUSY = """
import sys, time
period = float(sys.argv[1])
while True:
    end = time.perf_counter() + period / 2
    while time.perf_counter() < end:
        pass
    time.sleep(period / 2)
"""


@dataclass(frozen=True)
class Run:
    """The speed-up of a run as it is judged and observed; `foreign` cores were used by others."""

    value: float
    low: float
    high: float
    observed: float | None
    kept: float | None  # share of the samples of `many` that were undisturbed
    flags: tuple[str, ...]
    foreign: float
    wall: float

    @property
    def half(self) -> float:
        """Return half of the interval as a share of the value."""
        return (self.high - self.low) / 2 / self.value


def measured(options: Sequence[str]) -> Run | None:
    """Run gpumap once; return its speed-up of `many`, or None where it has none."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
        start = time.perf_counter()
        command = [_GPUMAP, "bench", "dot", "--output", f"json={report}", "--quiet", *options]
        subprocess.run(command, env=env, check=False, stdout=subprocess.DEVNULL, timeout=600)
        wall = time.perf_counter() - start
        rows = json.loads(report.read_text())["measurements"]
    row = next((row for row in rows if row["case"] == "many"), None)
    metrics: dict[str, Any] = row["metrics"] if row else {}
    gain = metrics.get("speedup", {})
    if row is None or gain.get("value") is None:
        return None
    low, high = (math.nan if gain.get(end) is None else gain[end] for end in ("low", "high"))
    beside = (metrics.get(name, {}).get("value") for name in ("speedup_observed", "undisturbed"))
    foreign = (row["around"] or {}).get("foreign_cores") or 0.0
    return Run(gain["value"], low, high, *beside, tuple(row["flags"]), foreign, wall)


def quiet(options: Sequence[str], count: int) -> Iterator[Run]:
    """Yield runs on the quiet machine."""
    for number in range(count):
        runs = (measured(options) for _ in range(_TRIES))
        found = next((run for run in runs if run is not None and run.foreign <= _QUIET), None)
        if found is None:
            sys.exit(f"quiet run {number + 1}: the machine was not quiet in {_TRIES} tries")
        print(f"quiet: {found}", flush=True)
        yield found


def main() -> None:
    """Print how often the truth is in the interval."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--quiet-runs", type=int, default=3, help="before, and again after")
    parser.add_argument("--period", type=float, default=0.1)
    parser.add_argument("options", nargs="*", help="of gpumap bench dot, behind --")
    given = parser.parse_args()
    truth = [*quiet(given.options, given.quiet_runs)]
    busy = subprocess.Popen([sys.executable, "-c", _BUSY, str(given.period)])
    try:
        every = [measured(given.options) for _ in range(given.runs)]
    finally:
        busy.kill()
        busy.wait()
    truth += quiet(given.options, given.quiet_runs)
    value = median(run.value for run in truth)
    found = [run for run in every if run is not None]
    for run in found:
        print(f"{run} holds {run.low <= value <= run.high} half {run.half:.1%}")
    held, half = sum(run.low <= value <= run.high for run in found), median(r.half for r in found)
    print(f"truth {value:.3f}, quiet runs {sorted(round(run.value, 3) for run in truth)}")
    print(f"held in {held} of {given.runs}; half-width {half:.1%}, median of", end=" ")
    print(f"runs of {median(run.wall for run in found):.1f} s")


if __name__ == "__main__":
    main()

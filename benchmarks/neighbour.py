"""Do intervals hold the truth beside a process that is busy half of the time?

    python -m benchmarks.neighbour [--runs 20] [--seconds 8] [--quiet-runs 3] [--record FILE]

The truth is the speed-up of `many` by `gpumap bench dot --size 1024` on the quiet machine in the
same hour: the median of runs before and after those beside the neighbour. A quiet run in which
others used more than `--quiet` cores is repeated. Runs with the default cases and with `--cases
one,many` take turns. Printed, and written to FILE, is a Markdown table of each run, and of each
kind how many intervals hold the truth, how wide they are, and how long a run took. It ends within
(4 x runs + 12 x quiet runs) x (seconds + START), and mostly in half of that.
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

from benchmarks import around

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START = 5.0  # seconds, to start and to report
_TRIES = 3
_GPUMAP = str(Path(sys.executable).parent / "gpumap")
_KINDS = {"default": (), "one,many": ("--cases", "one,many")}
_WIDEST = {"default": 0.15, "one,many": 0.10}  # the targets: half of an interval
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
    observed: float
    kept: float  # share of the samples of `many` that were undisturbed
    flags: tuple[str, ...]
    foreign: float
    wall: float

    @property
    def half(self) -> float:
        """Return half of the interval as a share of the value."""
        return (self.high - self.low) / 2 / self.value


def measured(seconds: float, options: Sequence[str]) -> Run | None:
    """Run gpumap once; return its speed-up of `many`, or None where it has none."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
        command = [_GPUMAP, "bench", "dot", "--size", "1024", "--backend", "numpy", "--quiet",
                   "--budget", f"{seconds:g}s", "--output", f"json={report}", *options]  # fmt: skip
        start = time.perf_counter()
        said = subprocess.run(
            command, env=env, check=False, capture_output=True, timeout=2 * (seconds + START)
        )
        wall = time.perf_counter() - start
        if not report.exists():
            sys.exit(f"gpumap wrote no report: {said.stderr.decode(errors='replace')}")
        rows = json.loads(report.read_text())["result"]["measurements"]
    row = next((row for row in rows if row["case"]["name"] == "many"), None)
    metrics: dict[str, Any] = row["metrics"] if row else {}
    gain = metrics.get("speedup", {})
    if row is None or gain.get("value") is None:
        return None
    low, high = (math.nan if gain.get(end) is None else gain[end] for end in ("low", "high"))
    beside = (metrics.get(n, gain).get("value") for n in ("speedup_observed", "undisturbed"))
    foreign = (row["around"] or {}).get("foreign_cores") or 0.0
    return Run(gain["value"], low, high, *beside, tuple(row["flags"]), foreign, wall)


def quiet(count: int, given: argparse.Namespace) -> Iterator[Run]:
    """Yield runs on the quiet machine."""
    for number in range(count):
        runs = (measured(given.seconds, _KINDS["one,many"]) for _ in range(_TRIES))
        found = next((run for run in runs if run is not None and run.foreign <= given.quiet), None)
        if found is None:
            sys.exit(f"quiet run {number + 1}: the machine was not quiet in {_TRIES} tries")
        around.say(f"quiet: {found.value:.3f} [{found.low:.3f}, {found.high:.3f}]")
        yield found


def beside(given: argparse.Namespace) -> dict[str, list[Run | None]]:
    """Return runs of each kind beside a process that is busy half of the time."""
    every: dict[str, list[Run | None]] = {kind: [] for kind in _KINDS}
    busy = subprocess.Popen([sys.executable, "-c", _BUSY, str(given.period)])
    try:
        for number in range(given.runs):
            for kind, options in _KINDS.items():
                every[kind].append(measured(given.seconds, options))
                around.say(f"{kind} {number + 1} of {given.runs}: {every[kind][-1]}")
    finally:
        busy.kill()
        busy.wait()
    return every


def table(every: dict[str, list[Run | None]], truth: Sequence[Run], seconds: float) -> list[str]:
    """Return what was found, line by line."""
    value = median(run.value for run in truth)
    lines = [
        f"Truth {value:.3f}, of quiet runs {sorted(round(run.value, 3) for run in truth)}.\n",
        "| cases | speed-up | holds | half | observed | undisturbed | flags | s |",
        "| --- | --- | --- | ---: | ---: | ---: | --- | ---: |",
    ]
    sums = []
    for kind, runs in every.items():
        found = [run for run in runs if run is not None]
        held = [run.low <= value <= run.high for run in found]
        for run, holds in zip(found, held, strict=True):
            lines.append(
                f"| {kind} | {run.value:.3f} [{run.low:.3f}, {run.high:.3f}] "
                f"| {'yes' if holds else 'no'} | {run.half:.1%} | {run.observed:.3f} "
                f"| {run.kept:.0%} | {' '.join(run.flags)} | {run.wall:.1f} |"
            )
        half = median([run.half for run in found] or [math.nan])
        late = sum(run.wall > seconds + START for run in found)
        sums.append(
            f"\n{kind}: held in {sum(held)} of {len(runs)}; half-width {half:.1%} in the middle "
            f"(target {_WIDEST[kind]:.0%}); {late} runs took over {seconds + START:g} s."
        )
    return lines + sums


def main() -> None:
    """Print how often the truth is in the interval."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20, help="of each kind")
    parser.add_argument("--seconds", type=float, default=8.0, help="the budget of a run")
    parser.add_argument("--quiet-runs", type=int, default=3, help="before, and again after")
    parser.add_argument("--quiet", type=float, default=0.05, help="cores that others may use then")
    parser.add_argument("--period", type=float, default=0.1, help="seconds of busy and idle")
    parser.add_argument("--record", type=Path, help="where to write the table too")
    given = parser.parse_args()
    start = time.perf_counter()
    truth = [*quiet(given.quiet_runs, given)]
    every = beside(given)
    truth += quiet(given.quiet_runs, given)
    lines = table(every, truth, given.seconds)
    took = time.perf_counter() - start
    text = "\n".join([f"{around.stamp()}: took {took:.0f} s.\n", *lines, ""])
    print(text)
    if given.record:
        given.record.write_text(text)


if __name__ == "__main__":
    main()

"""Do budgets hold beside busy processes? Wall times of commands, and how many rows have intervals.

    python -m benchmarks.budget [--busy 3] [--runs 40] [--only WORD]

Each command is run --runs times (those with a * a quarter of it), one after the other, beside
--busy processes that do nothing but count. The wall time of a run, from the start of the
interpreter to its end, should be within SLACK budgets and START seconds; the target is TARGET of
the runs of each command. Printed are the wall times, the rows that were measured and those of
FEWEST blocks or more (the median of the runs), and how often the row of the headline is among
these.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from gpumap.bench.stopping import FEWEST

if TYPE_CHECKING:
    from collections.abc import Iterator

SLACK, START, TARGET = 1.15, 2.0, 0.95
_GPUMAP = str(Path(sys.executable).parent / "gpumap")
_COUNT = "import os; own = os.getppid()\nwhile os.getppid() == own: pass"  # ends with its parent


@dataclass(frozen=True)
class Command:
    """What is run, its budget in seconds, and the share of the runs that it has."""

    words: str
    budget: float
    share: float = 1.0


COMMANDS = (
    *(Command(f"bench dot --size {size}", 3.0) for size in (256, 512, 1024)),
    Command("transfer-cost", 3.0),
    Command("bench chain", 4.0, 0.25),
    Command("bench train", 8.0, 0.25),
    Command("bench allreduce --map a->cpu0;b->cpu1", 5.0, 0.25),
    Command("selftest", 8.0, 0.25),
)


@dataclass(frozen=True)
class Run:
    """How a command ended."""

    wall: float
    code: int
    rows: int  # measured
    good: int  # of FEWEST blocks or more
    first: bool  # whether the first of the rows is one of them


def main() -> int:
    """Measure and print; return 1 if a budget was exceeded too often."""
    asked = _arguments()
    failed = False
    with busy(asked.busy):
        for command in COMMANDS:
            if asked.only not in command.words:
                continue
            count = max(round(asked.runs * command.share), 1)
            runs = [_run(command) for _ in range(count)]
            failed |= not _told(command, runs)
    return int(failed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.budget")
    parser.add_argument("--busy", type=int, default=3)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--only", default="")
    return parser.parse_args()


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep so many processes busy; each is ended by its own id."""
    with ExitStack() as stack:
        for _ in range(count):
            process = subprocess.Popen([sys.executable, "-c", _COUNT])
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def _run(command: Command) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        words = [*command.words.split(" "), "--budget", f"{command.budget:g}", "--quiet"]
        start = time.perf_counter()
        done = subprocess.run(
            [_GPUMAP, *words, "--output", str(path)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        wall = time.perf_counter() - start
        rows = [row for row in json.loads(path.read_text())["measurements"] if _counts(row)]
    good = [len(row["samples"]) >= FEWEST for row in rows]
    return Run(wall, done.returncode, len(rows), sum(good), any(good))


def _counts(row: dict[str, Any]) -> bool:
    return row["status"] == "ok" and row["bench"] != "control"


def _told(command: Command, runs: list[Run]) -> bool:
    """Print what came of a command; return whether its budget held."""
    limit = SLACK * command.budget + START
    walls = sorted(run.wall for run in runs)
    share = sum(wall <= limit for wall in walls) / len(walls)
    rows, good = (median(getattr(run, key) for run in runs) for key in ("rows", "good"))
    first = sum(run.first for run in runs)
    codes = sorted({run.code for run in runs})
    print(
        f"{command.words} --budget {command.budget:g}s: {len(runs)} runs, {share:.0%} within "
        f"{limit:.2f} s (median {median(walls):.2f}, most {walls[-1]:.2f}); rows {rows:g}, "
        f"of {FEWEST} blocks {good:g}; a row of {FEWEST} blocks in {first} runs; exit {codes}",
        flush=True,
    )
    return share >= TARGET


if __name__ == "__main__":
    raise SystemExit(main())

"""What `gpumap scale` says of programs whose cause is known: each several times.

    python -m benchmarks.scale_causes [--times 5] [--budget 60s] [--only NAME]

Each program works by the clock of its own CPU time, in pieces; ranks meet by files in a folder.
Printed is a Markdown table: which causes were named how often.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

_MAP = "a->cpu0;b->cpu1"
_COMMON = """
import os, sys, time
from pathlib import Path

def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))

rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
# each run has a port of its own, or ranks of the one before would be met
meeting, met = Path(f"met-{os.environ.get('MASTER_PORT')}"), 0

def barrier():
    global met
    met += 1
    meeting.mkdir(exist_ok=True)
    (meeting / f"{met}-{rank}").touch()
    while not all((meeting / f"{met}-{each}").exists() for each in range(size)):
        time.sleep(0.002)
"""
# name: the cause that is right, and the program
RANKS = {
    "divided work": ("scales", "work(2.0 / size)"),
    "half of it start-up, asleep": ("start-up", "time.sleep(0.8); work(1.6 / size)"),
    "half of it start-up, of rank 0": (
        "start-up",
        "rank or work(0.8)\nbarrier(); work(1.6 / size)",
    ),
    "a serial half in each step": (
        "one-at-a-time",
        "for _ in range(4):\n    rank or work(0.2)\n    barrier(); work(0.4 / size); barrier()",
    ),
    "uneven by half": (
        "uneven-work",
        "work(3.3 / size * (1.0 if size == 1 else 4 / 3 - rank * 2 / 3))",
    ),
    "a barrier that takes as long": (
        "communication",
        (
            "for _ in range(4):\n    work(0.5 / size); barrier()\n"
            "    time.sleep(0.25 * (size > 1)); barrier()"
        ),
    ),
}
_WHOLE = """
from multiprocessing import Process

both = int(os.environ["GPUMAP_COUNT"])

def together(*seconds):
    every = [Process(target=work, args=(each,)) for each in seconds]
    [each.start() for each in every]
    [each.join() for each in every]

"""
WHOLE = {
    "divided work": ("scales", "together(*[2.0 / both] * both)"),
    "half of it start-up": ("start-up", "work(0.8); together(*[1.6 / both] * both)"),
    "a serial half in each step": (
        "one-at-a-time",
        "for _ in range(4):\n    work(0.2); together(*[0.4 / both] * both)",
    ),
    "uneven by half": (
        "uneven-work",
        "together(*([3.3] if both == 1 else [2.2, 1.1]))",
    ),
    "asleep in each step": (
        "waits",
        "for _ in range(4):\n    together(*[0.5 / both] * both); time.sleep(0.25)",
    ),
}


def main(arguments: list[str] | None = None) -> int:
    """Print which causes were named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--only")
    options = parser.parse_args(arguments)
    print("| program | as | right | named |\n| --- | --- | --- | --- |")
    wrong = 0
    for how, programs in (("ranks", RANKS), ("one process", WHOLE)):
        for name, (right, text) in programs.items():
            if options.only and options.only not in f"{how}: {name}":
                continue
            code = f"{_COMMON}{_WHOLE if how != 'ranks' else ''}{text}\n"
            named = Counter(
                _named(code, options.budget, ranks=how == "ranks") for _ in range(options.times)
            )
            wrong += sum(count for cause, count in named.items() if cause != right)
            listed = ", ".join(f"{cause} {count}" for cause, count in named.most_common())
            print(f"| {name} | {how} | {right} | {listed} |", flush=True)
    return int(wrong > 0)


def _named(code: str, budget: str, *, ranks: bool) -> str:
    """Return the cause that gpumap names, or how it failed."""
    folder = Path(tempfile.mkdtemp(prefix="gpumap-scale-"))
    try:
        command = ["scale", _MAP, "--budget", budget, "--inconclusive", "pass", "--quiet"]
        command += ["--ranks"] if ranks else []
        command += ["--output", "r.json", "--", sys.executable, "-c", code]
        done = subprocess.run(
            [sys.executable, "-m", "gpumap", *command], cwd=folder, capture_output=True, check=False
        )
        if not (folder / "r.json").exists():
            return f"exit code {done.returncode}"
        found = json.loads((folder / "r.json").read_text())["result"]["scaling"]
        return str(found["cause"])
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())

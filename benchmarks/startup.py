"""How long gpumap takes to start, beside `import click`, which every start must pay.

    python -m benchmarks.startup [ROUNDS]

The three commands take turns, the next round in reverse: a slow moment of the machine hits all.
The median of each is printed, and its ratio to `import click`; the target is TARGET at most.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from benchmarks import asked

TARGET = 1.7
ROUNDS = 41
_BIN = Path(sys.executable).parent
_GPUMAP = str(_BIN / "gpumap")
COMMANDS = {
    "import click": [sys.executable, "-c", "import click"],
    "gpumap --version": [_GPUMAP, "--version"],
    "gpumap check --syntax-only": [_GPUMAP, "check", "--syntax-only", "dev0->cuda0;dev1->cuda1"],
}


def main() -> int:
    """Measure, print, and return 1 if a ratio is above the target."""
    rounds = asked.number(__doc__, "ROUNDS", ROUNDS)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUMAP_")}
    # pip compiled click when it installed it, as it does gpumap for a user: never to write byte
    # code would be to compile gpumap, and it alone, at every start
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for command in COMMANDS.values():  # byte code is written, files are in the cache
        _timed(command, environment)
    for number in range(rounds):
        order = list(COMMANDS.items())
        for name, command in reversed(order) if number % 2 else order:
            seconds[name].append(_timed(command, environment))
    return _print(seconds)


def _timed(command: list[str], environment: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - start


def _print(seconds: dict[str, list[float]]) -> int:
    base = seconds["import click"]
    worst = 0.0
    for name, samples in seconds.items():
        # one ratio per round: what slows a whole round down leaves it as it is
        ratio = median(s / b for s, b in zip(samples, base, strict=True))
        worst = max(worst, ratio)
        print(f"{name:28} {1e3 * median(samples):7.1f} ms  {ratio:5.2f}  n={len(samples)}")
    print(f"target: {TARGET} at most; {'met' if worst <= TARGET else 'missed'}")
    return int(worst > TARGET)


if __name__ == "__main__":
    sys.exit(main())

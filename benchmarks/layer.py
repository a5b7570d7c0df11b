"""What the OpenCL layer adds to a call, of a program in C on the first device of its loader.

    [OCL_ICD_VENDORS=DRIVER] [POCL_DEVICES=basic] python -m benchmarks.layer [ROUNDS]

Runs without the layer, with it, and with device times take turns; the next round in reverse. For
each kind of call the median of the paired differences is printed with its interval, and the ratio.
It is CPU time, which other programs do not add to: of the calling thread, where alone the layer
works; with device times of all threads, as a driver tells of an event in one of its own. The
targets are PLAIN and TIMES nanoseconds a call at most.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks import contest
from gpumap.engine import stats
from gpumap.opencl_layer.layer import NoLayer, environment

PLAIN, TIMES = 200, 3000
ROUNDS = 21
KINDS = ("kernel", "read", "finish")
WAYS = ("bare", "layer", "times")
_SOURCE = Path(__file__).with_name("layer_calls.c")


def main() -> int:
    """Measure, print, and return 1 if a median is above its target."""
    rounds = contest.number(__doc__, "ROUNDS", ROUNDS)
    with tempfile.TemporaryDirectory() as name:
        program, folder = Path(name, "calls"), Path(name, "counts")
        folder.mkdir()
        build = ["cc", "-O2", "-o", str(program), str(_SOURCE), "-lOpenCL"]
        subprocess.run(build, check=True)
        ways = [dict(os.environ)]
        for times in (False, True):
            found = environment(folder, os.environ, times=times)
            if isinstance(found, NoLayer):
                print(f"error: {found.message}", file=sys.stderr)
                return 3
            ways.append({**os.environ, **found})
        samples: list[list[list[float]]] = [[] for _ in ways]
        for number in range(rounds):
            order = range(len(ways))
            for way in reversed(order) if number % 2 else order:
                samples[way].append(_timed(program, ways[way]))
    return _print(samples)


def _timed(program: Path, env: dict[str, str]) -> list[float]:
    done = subprocess.run([program], env=env, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def _print(samples: list[list[list[float]]]) -> int:
    failed = False
    for way, target in ((1, PLAIN), (2, TIMES)):
        for kind, name in enumerate(KINDS):
            at = 2 * kind + (way == WAYS.index("times"))  # of each kind: one thread, all threads
            runs = [run[at] for run in samples[way]]
            pairs = list(zip(runs, (bare[at] for bare in samples[0]), strict=True))
            added = stats.location([run - bare for run, bare in pairs])
            failed |= added.value > target
            print(
                f"{WAYS[way]:6} {name:7} {added.value:6.0f} ns a call [{added.low:.0f}, "
                f"{added.high:.0f}], {contest.ratio(pairs).value:.2f} times the "
                f"{median(bare for _, bare in pairs):.0f} ns without it; target {target} ns"
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

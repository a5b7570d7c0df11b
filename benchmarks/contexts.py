"""Do two names give twice the speed? The two products of examples/two_dots.py, on one core and two.

    python -m benchmarks.contexts [--size 1024] [--blocks 40]

Both contexts are open in one process, `dev0->cpu0;dev1->cpu1` and `dev0->cpu0`; each block runs the
same two products in both, and the next block in reverse. Printed are the medians with their 95 %
intervals: the times, the speed-up (one ratio for each block), and how far the two products overlap
in the trace; and how busy the machine was. The products are compared with NumPy's. Targets:
SPEEDUP and OVERLAP at least.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import gpumap
from benchmarks import around, turns
from gpumap import stats
from gpumap.judge.programs import both, length, union
from gpumap.machine.state import Watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.machine.state import State

TWO, ONE = "dev0->cpu0;dev1->cpu1", "dev0->cpu0"
SPEEDUP, OVERLAP = 1.8, 0.8
_WARM = 5


@dataclass(frozen=True, eq=False)
class Program:
    """The example's program, its arrays in place; `run` is what it does with them."""

    context: gpumap.Context
    arrays: tuple[gpumap.Array, ...]

    def run(self) -> float:
        """Queue both products, wait for both, and return the seconds that it took."""
        v01, v02, v11, v12 = self.arrays
        start = time.perf_counter()
        results = gpumap.dot(v01, v02), gpumap.dot(v11, v12)
        self.context.synchronize()
        stop = time.perf_counter()
        del results  # after the clock was read
        return stop - start

    def overlap(self) -> float:
        """Return how long the last two products ran at once, over the shorter one."""
        a, b = (union([event]) for event in self.context.trace[-2:])
        return length(both(a, b)) / min(length(a), length(b))

    def check(self) -> None:
        """Compare both products with float64's; rounding may grow with the size."""
        v01, v02, v11, v12 = self.arrays
        for a, b in ((v01, v02), (v11, v12)):
            exact = a.numpy().astype("float64") @ b.numpy()
            np.testing.assert_allclose(gpumap.dot(a, b).numpy(), exact, rtol=1e-7 * a.shape[1])


def main() -> int:
    """Measure, print, and return 1 if a target is missed."""
    asked = _arguments()
    with gpumap.open(TWO) as two, gpumap.open(ONE) as one:
        programs = [_program(context, asked.size) for context in (two, one)]
        for program in programs:
            program.check()
        for program in programs * _WARM:
            program.run()
        watch = Watch()
        blocks, overlaps = [], []
        for number in range(asked.blocks):
            blocks.append(turns.both(programs[0].run, programs[1].run, number))
            overlaps.append(programs[0].overlap())
        state = watch.read()
    return _print(asked.size, blocks, overlaps, state)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--blocks", type=int, default=40)
    return parser.parse_args()


def _program(context: gpumap.Context, size: int) -> Program:
    random = np.random.default_rng(1)
    first, last = context.names[0], context.names[-1]
    arrays = [
        context.shared(random.random((size, size), dtype="float32"), target)
        for target in (first, first, last, last)
    ]
    return Program(context, tuple(arrays))


def _print(
    size: int, blocks: Sequence[tuple[float, float]], overlaps: Sequence[float], state: State
) -> int:
    two, one = (stats.location([1e3 * block[n] for block in blocks]) for n in (0, 1))
    speedup = turns.ratio((one_, two_) for two_, one_ in blocks)
    overlap = stats.location(list(overlaps))
    print(f"two products {size} x {size} float32, NumPy {np.__version__}, {len(blocks)} blocks")
    print(f"one name   {one.value:.2f} ms [{one.low:.2f}, {one.high:.2f}]  {ONE}")
    print(f"two names  {two.value:.2f} ms [{two.low:.2f}, {two.high:.2f}]  {TWO}")
    ends = f"[{speedup.low:.3f}, {speedup.high:.3f}]"
    print(f"speed-up   {speedup.value:.3f} {ends}, target {SPEEDUP}")
    edges = f"{overlap.low:.1%}, {min(overlap.high, 1.0):.1%}"
    print(f"overlap    {overlap.value:.1%} [{edges}], target {OVERLAP:.0%}")
    print(around.meanwhile(state))
    met = speedup.value >= SPEEDUP and overlap.value >= OVERLAP
    print(f"targets {'met' if met else 'missed'}")
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())

"""Does fusing pay? log(exp(relu(x.w + b))) in one kernel and in five, on an OpenCL device.

    python -m benchmarks.chain [--map "a->opencl0:0"] [--rows 10000,10000000] [--blocks 40]

Both work on the same x and w; each block runs both, and the next block in reverse. A sample is as
many calls as take 20 ms, each waited for. Printed are the median times and the median of the
ratios, one for each block, with their 95 % intervals; and how busy the machine was. Results are
compared with float64. Targets: TARGETS at least, at these numbers of rows.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import around, turns
from gpumap import stats
from gpumap.backends.base import Host
from gpumap.bench.chain_work import Data, DeviceRound, Job, Placed
from gpumap.machine.state import Watch
from gpumap.machine.topology import read
from gpumap.parse import parse_map
from gpumap.resolve import Inventory, resolve

if TYPE_CHECKING:
    from gpumap.backends.base import Session
    from gpumap.machine.state import State

TARGETS = {10_000: 1.3, 10_000_000: 1.5}
WAYS = ("separate", "chain")
_SAMPLE = 0.02  # seconds
_WARM = 5


def main() -> int:
    """Measure, print, and return 1 if a target is missed."""
    asked = _arguments()
    inventory = Inventory(Host(os.environ, read()))
    device = resolve(parse_map(asked.map), inventory).bindings[0].device
    backend = inventory.backend(device.backend)
    print(f"{device.ref}: {device.name}, {device.backend}")
    with backend.open(device, backend.clock()) as session:
        missed = [_measured(session, int(rows), asked.blocks) for rows in asked.rows.split(",")]
    return int(any(missed))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--map", default="a->opencl0:0")
    parser.add_argument("--rows", default="10000,10000000")
    parser.add_argument("--blocks", type=int, default=40)
    return parser.parse_args()


def _measured(session: Session, rows: int, count: int) -> bool:
    """Measure one number of rows; return whether its target was missed."""
    placed = Placed("a", session, Data(rows, "float32", 1), slice(0, rows))
    works = {way: DeviceRound([Job.of(placed, way)]) for way in WAYS}
    for way, work in works.items():
        _verify(way, work)
    calls = {way: _calls(work) for way, work in works.items()}
    watch = Watch()
    ways = [partial(_sample, works[way], calls[way]) for way in WAYS]
    blocks = [turns.both(*ways, number) for number in range(count)]
    return _print(rows, blocks, watch.read())


def _verify(way: str, work: DeviceRound) -> None:
    work.poison()
    work.queue()
    work.finish()
    if not (check := work.check()).passed:
        sys.exit(f"{way}: error {check.max_error} is above {check.bound}")


def _calls(work: DeviceRound) -> int:
    """Return how many calls make a sample; it is warm then."""
    seconds = [_sample(work, 1) for _ in range(_WARM)][-1]
    return max(round(_SAMPLE / seconds), 1)


def _sample(work: DeviceRound, calls: int) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    for _ in range(calls):
        work.queue()
        work.finish()
    return (time.perf_counter() - start) / calls


def _print(rows: int, blocks: list[tuple[float, float]], state: State) -> bool:
    separate, fused = (stats.location([1e3 * block[n] for block in blocks]) for n in (0, 1))
    found = turns.ratio(blocks)
    print(f"{rows} rows, float32, {len(blocks)} blocks")
    for name, took in (("separate", separate), ("fused", fused)):
        print(f"  {name:8}  {took.value:.3f} ms [{took.low:.3f}, {took.high:.3f}]")
    target = TARGETS.get(rows)
    said = "no target" if target is None else f"target {target}"
    print(f"  separate / fused  {found.value:.2f} [{found.low:.2f}, {found.high:.2f}], {said}")
    print(f"  {around.meanwhile(state)}")
    return target is not None and found.value < target


if __name__ == "__main__":
    sys.exit(main())

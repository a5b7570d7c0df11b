"""Does a run take the memory that it planned, and no more?

    python -m benchmarks.memory [SIZE]

The peak of `gpumap bench dot --size SIZE`, less that of `--size 8` (the interpreter and NumPy),
over the bytes of its plan. The target is TARGET at most.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks import asked
from gpumap.backends.base import Host
from gpumap.bench.dot import Params, plan
from gpumap.machine.topology import read
from gpumap.resolve import Inventory, default_map, resolve

TARGET = 1.10
SIZE = 4096
_GPUMAP = str(Path(sys.executable).parent / "gpumap")
_KIB = 1024  # what Linux counts the peak in; macOS counts bytes
_UNIT = 1 if sys.platform == "darwin" else _KIB


def main() -> int:
    """Measure, print, and return 1 if the ratio is above the target."""
    size = asked.number(__doc__, "SIZE", SIZE)
    bare, peak = _peak(8), _peak(size)  # before the plan is made: a child's peak begins at ours
    planned = _planned(size)
    ratio = (peak - bare) / planned
    print(f"bench dot --size {size}: peak {_mib(peak)}, with --size 8 {_mib(bare)}")
    print(f"planned {_mib(planned)}; (peak - bare) / planned: {ratio:.3f}")
    print(f"target: {TARGET} at most; {'met' if ratio <= TARGET else 'missed'}")
    return int(ratio > TARGET)


def _peak(size: int) -> int:
    """Return the largest memory in bytes that a run held at any moment."""
    command = [_GPUMAP, "bench", "dot", "--size", str(size), "--budget", "20", "--format", "json"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
    return used.ru_maxrss * _UNIT


def _planned(size: int) -> int:
    """Return the bytes of the plan; the devices of a default map here are the host's cores."""
    inventory = Inventory(Host(os.environ, read()), None)
    bindings = resolve(default_map(inventory), inventory).bindings
    return sum(plan(bindings, Params((size,)), bindings[0]).memory.values())


def _mib(nbytes: int) -> str:
    return f"{nbytes / 2**20:.1f} MiB"


if __name__ == "__main__":
    sys.exit(main())

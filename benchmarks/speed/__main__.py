"""gpumap beside its peers, in turns and in one run: ratios with their intervals.

    python -m benchmarks.speed [--only products,memory] [--pairs 15] [--out FILE]

Each peer is what a user would otherwise trust: NumPy's OpenBLAS in all its forms, CLBlast through
pygpu, `copyto`, bare loops of PyOpenCL, PyTorch, clpeak. `OPENBLAS_*` is unset for all of them but
where the table says so. A sample takes a tenth of a second or more; between two samples lies a
rest, for OpenBLAS' threads look for work for a while and would slow down who comes next. The ratio
is the median of the pairs' ratios. Peers that are not here are named with what is missing.

The exit code is 1 if a target is missed, 2 if an option is wrong, and 3 if there is no OpenCL
device; then nothing is measured.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import around, asked
from benchmarks.speed import growth, launches, memory, products, pytorch
from benchmarks.speed.contest import PAIRS, held
from benchmarks.speed.peers import DEBIAN
from gpumap.backends import load
from gpumap.backends.base import Host
from gpumap.machine.topology import read
from gpumap.units import together

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.speed.contest import Result
    from gpumap.backends.base import Session
    from gpumap.model import Probe

CONTESTS = {"products": products, "memory": memory, "launches": launches, "pytorch": pytorch}
PARTS = (*CONTESTS, "clpeak", "growth")
OPENCL = {"products", "memory", "launches", "clpeak"}  # parts that take an OpenCL device
ABSENT = 3  # as gpumap's own exit code
_HEAD = ("what", "gpumap", "peer", "of the peer", "ratio", "target", "")


def main() -> int:
    """Measure, print, write, and return 1 if a target is missed."""
    options = _options()
    if OPENCL.intersection(options.only) and (lacking := _lacking()):
        around.say(lacking)
        return ABSENT
    before = around.state()
    results, sections = [], [_machine(), f"Before: {around.words(before)}.", *_missing()]
    for part in options.only:
        around.say(f"{around.stamp()} {part}")
        if part == "pytorch" and pytorch.missing():
            continue  # which is said at the top
        if part in CONTESTS:
            found = list(_contests(part, options.pairs))
            results += found
            sections += [f"## {part.capitalize()}", _table(_HEAD, map(_row, found))]
        elif part == "clpeak":
            sections += _clpeak()
        else:
            sections += ["## Growth", _growth()]
    text = "\n\n".join(sections) + "\n"
    print(text, end="")
    if options.out:
        options.out.write_text(f"# Speed, {around.stamp()[:10]}\n\n{text}", encoding="utf-8")
    return int(any(result.missed for result in results))


def _options() -> argparse.Namespace:
    about, _, _ = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=about)
    add = parser.add_argument
    add("--only", metavar="PART,...", type=_parts, default=PARTS,
        help=f"measure these alone: {', '.join(PARTS)}")  # fmt: skip
    add("--pairs", metavar="N", type=asked.count, default=PAIRS,
        help=f"ratios of each contest, {PAIRS} if not said")  # fmt: skip
    add("--out", metavar="FILE", type=_writable, help="write what is printed to a file too")
    return parser.parse_args()


def _parts(text: str) -> tuple[str, ...]:
    """Return the parts that a list names, with commas between."""
    parts = tuple(text.split(","))
    for part in parts:
        if part not in PARTS:
            known = ", ".join(PARTS)
            raise argparse.ArgumentTypeError(f"no part is called {part!r}: choose of {known}")
    return parts


def _writable(text: str) -> Path:
    """Return where to write, which must be seen before minutes of measuring."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {str(path.parent)!r}: make it first")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written")
    return path


def _lacking() -> str:
    """Return why nothing can be measured here, with its fix; nothing if it can."""
    probe = _opencl_probe()
    return "" if probe.usable else f"no OpenCL device: {probe.reason}\n  fix: {probe.fix}"


def _opencl_probe() -> Probe:
    return load("pyopencl", Host(dict(os.environ), read())).probe()


def _contests(part: str, pairs: int) -> Iterator[Result]:
    with pytorch.opened() if part == "pytorch" else _opencl() as session:
        for contest in CONTESTS[part].contests(session):
            around.say(f"  {contest.what} and {contest.peer}")
            yield held(contest, pairs)


def _opencl() -> Session:
    backend = load("pyopencl", Host(dict(os.environ), read()))
    device = next(d for d in backend.probe().devices if d.ref.part is None)
    return backend.open(device, backend.clock())


def _row(result: Result) -> tuple[str, ...]:
    contest, ratio = result.contest, result.ratio
    cost = contest.most is not None
    asked = [f"at least {contest.least}"] * (contest.least is not None)
    asked += [f"at most {contest.most}"] * cost
    verdict = ("missed" if result.missed else "met") if asked else ""
    return (
        contest.what,
        _rate(contest, result.ours.value),
        contest.peer,
        _rate(contest, result.theirs.value),
        f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]{' of its cost' * cost}",
        "".join(asked),
        verdict,
    )


def _rate(contest: Any, seconds: float) -> str:
    figure = seconds if contest.unit == "s" else contest.amount / seconds
    return together([figure], contest.unit)[0]


def _clpeak() -> list[str]:
    """Return what `benchmarks.clpeak` says: copies from the host and back, in turns with clpeak."""
    if shutil.which("clpeak") is None:
        return ["clpeak: not installed (Debian: apt-get install clpeak)."]
    from benchmarks import clpeak

    ratios = clpeak.ratios()
    rows = ((way, f"{median(found):.3f}") for way, found in ratios.items())
    return ["## Copies of 512 MiB beside clpeak", _table(("way", "median ratio"), rows)]


def _growth() -> str:
    command = [sys.executable, "-m", growth.__name__]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    every = (growth.Grown(**json.loads(line)) for line in done.stdout.splitlines())
    rows = (
        (one.what, f"{one.size} {one.unit}", f"{one.cpu:.2f} s", f"{one.memory / 2**20:.0f} MiB")
        for one in every
    )
    return _table(("command", "of", "CPU time", "memory at most"), rows)


def _machine() -> str:
    import numpy as np

    probe = _opencl_probe()
    drivers = (f"{device.name}; {device.driver}" for device in probe.devices[:1])
    return "; ".join([
        f"{len(os.sched_getaffinity(0))} cores", *drivers, f"NumPy {np.__version__}",
        f"PyOpenCL {probe.version}", f"Python {platform.python_version()}", f"{around.stamp()}.",
    ])  # fmt: skip


def _missing() -> list[str]:
    """Return what is not measured here, and why."""
    said = []
    if not DEBIAN.exists():
        said.append("CLBlast through pygpu: no .venv-pygpu (make unit-pygpu makes it).")
    said += filter(None, [pytorch.missing()])
    if importlib.util.find_spec("cupy") is None:
        said.append("cupy: not installed.")
    if not any(Path("/dev").glob("nvidia[0-9]*")):
        said.append("CUDA: no NVIDIA device here: PyTorch is measured on the processor, CuPy not.")
    return ["\n".join(f"- {line}" for line in said)] if said else []


def _table(head: Sequence[str], rows: Any) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|" + " --- |" * len(head), *lines[1:]])


if __name__ == "__main__":
    sys.exit(main())

"""gpumap beside its peers, in turns and in one run: ratios with their intervals.

    python -m benchmarks.speed [--only products,memory] [--pairs 15] [--out FILE]

Each peer is what a user would otherwise trust: NumPy's OpenBLAS in all its forms, CLBlast through
pygpu, `copyto`, bare loops of PyOpenCL, a plain loop of products. `OPENBLAS_*` is unset for
all of them but where the table says so. A sample takes a tenth of a second or more; between two
samples lies a rest, for OpenBLAS' threads look for work for a while and would slow down who comes
next. The ratio is the median of the pairs' ratios. A peer that is not here is named with what is
missing.

The exit code is 1 if a target is missed, 2 if an option is wrong, and 3 if there is no OpenCL
device; then nothing is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import around, children
from benchmarks.contest import ROUNDS, Result, count, table
from benchmarks.speed import growth, opencl, own, training
from gpumap.backends import load
from gpumap.backends.base import Host
from gpumap.machine.topology import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumap.model import Device, Probe

# Part -> its contests, and what drives the device that they take.
CONTESTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "products": (opencl.products, "pyopencl"),
    "memory": (opencl.memory, "pyopencl"),
    "launches": (opencl.launches, "pyopencl"),
    "chain": (own.chain, "pyopencl"),
    "names": (own.names, ""),
    "measuring": (own.measuring, "numpy:cpu0"),
    "measurers": (own.measurers, ""),
    "train": (training.train, "numpy:cpu0"),
    "start": (own.start, ""),
}
PARTS = (*CONTESTS, "growth")
ABSENT = 3  # as gpumap's own exit code


def main() -> int:
    """Measure, print, write, and return 1 if a target is missed."""
    options = _options()
    if any(CONTESTS.get(part, ("", ""))[1] == "pyopencl" for part in options.only):
        probe = _probe("pyopencl")
        if not probe.usable:
            around.say(f"no OpenCL device: {probe.reason}\n  fix: {probe.fix}")
            return ABSENT
    before = around.state()
    results, sections = [], [_machine(), f"Before: {around.words(before)}.", *_missing()]
    for part in options.only:
        around.say(f"{around.stamp()} {part}")
        if part == "growth":
            head, rows = growth.HEAD, json.loads(children.python("-m", growth.__name__).out)
        else:
            found = list(_contests(part, options.pairs))
            results += found
            head, rows = Result.HEAD, [result.row() for result in found]
        sections += [f"## {part.capitalize()}", "\n".join(table(head, rows))]
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
    add("--pairs", metavar="N", type=count, default=ROUNDS,
        help=f"ratios of each contest, {ROUNDS} if not said")  # fmt: skip
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


def _probe(backend: str) -> Probe:
    return load(backend, Host(dict(os.environ), read())).probe()


def _contests(part: str, pairs: int) -> Iterator[Result]:
    contests, driven = CONTESTS[part]
    with _opened(driven) if driven else nullcontext() as session:
        for contest in contests(session):
            around.say(f"  {contest.what} and {contest.peer}")
            yield contest.held(pairs)


def _opened(driven: str) -> Any:
    """Open a whole device of a backend: the one that is named behind a colon, else the first."""
    name, _, ref = driven.partition(":")
    backend = load(name, Host(dict(os.environ), read()))

    def fits(device: Device) -> bool:
        return str(device.ref) == ref if ref else device.ref.part is None

    return backend.open(next(filter(fits, backend.probe().devices)), backend.clock())


def _machine() -> str:
    import numpy as np

    probe = _probe("pyopencl")
    drivers = (f"{device.name}; {device.driver}" for device in probe.devices[:1])
    return "; ".join([
        f"{len(os.sched_getaffinity(0))} cores", *drivers, f"NumPy {np.__version__}",
        f"PyOpenCL {probe.version}", f"Python {platform.python_version()}", f"{around.stamp()}.",
    ])  # fmt: skip


def _missing() -> Iterator[str]:
    """Yield what is not measured here, and why."""
    if not opencl.DEBIAN.exists():
        yield "CLBlast through pygpu is missing: no .venv-pygpu (make unit-pygpu makes it)."
    if shutil.which("hyperfine") is None:
        yield "hyperfine is missing: apt-get install hyperfine."
    if find_spec("pyperf") is None:
        yield "pyperf is missing: pip install pyperf."


if __name__ == "__main__":
    sys.exit(main())

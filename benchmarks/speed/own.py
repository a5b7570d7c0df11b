"""What gpumap adds, and what it gains, beside the plainest way to do the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import gpumap
from benchmarks import children
from benchmarks.contest import Contest, looped, sampled
from gpumap.backends.base import Clock
from gpumap.bench.chain_work import Data, DeviceIteration, Placed
from gpumap.engine import stats, stopping
from gpumap.engine.products import Pair, Product, Products
from gpumap.engine.sampling import Series, calibrate, sample
from gpumap.machine.process_control import pin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumap.backends.base import Session

START = 1.7  # of the time of `import click`, which every start must pay
LOOP = 1.03  # of the time of a loop of the same products
TWO = 1.8  # times as fast as one name
FUSED = {10_000: 1.3, 10_000_000: 1.5}  # rows -> times as fast as five kernels
SIZE = 1024
HASTE = 0.5  # of the time that hyperfine takes for the same precision
_SAMPLE = 0.02  # seconds
_PRECISION = 0.02  # half of an interval, as a share
_RUNS = 30  # of each of hyperfine's commands
_PRODUCTS = 20  # in a run of hyperfine's
# Its whole time is what hyperfine sees: twice, with and without the products.
_OPERANDS = f"""
import sys
import numpy as np
rng = np.random.default_rng(1)
a, b = (rng.random(({SIZE}, {SIZE}), dtype="float32") for _ in range(2))
out = np.empty_like(a)
"""
_PRODUCT = "np.matmul(a, b, out=out)"
_PROGRAM = f"""{_OPERANDS}
for _ in range(int(sys.argv[1])):
    {_PRODUCT}
"""


def start(_session: Session) -> Iterator[Contest]:
    """Yield the start of commands beside `import click`."""
    tool = str(Path(sys.executable).parent / "gpumap")
    click = _ran(sys.executable, "-c", "import click")
    for words in (("--version",), ("check", "--syntax-only", "dev0->cuda0;dev1->cuda1")):
        what = " ".join(("gpumap", *words[:2]))
        yield Contest(what, "import click", _ran(tool, *words), click, most=START)


def _ran(*command: str) -> Callable[[], float]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUMAP_")}
    # pip compiled click when it installed it, as it does gpumap for a user: never to write byte
    # code would be to compile gpumap, and it alone, at every start
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def timed() -> float:
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        return time.perf_counter() - start

    return timed


def measuring(session: Session) -> Iterator[Contest]:
    """Yield what measuring costs: a product on a core, beside a plain loop on the same core."""
    pair, clock = Pair((1, 0), SIZE, "float32"), Clock()
    series = Series(Products([Product("dev0", session, pair)], None, fetched=False))
    calibrate(series, clock)
    a, b = (np.concatenate([rows for _, rows in m.blocks()]) for m in (pair.left, pair.right))
    out = np.empty(pair.shape, pair.dtype)

    def plain() -> float:
        start = time.perf_counter()
        for _ in range(series.iterations_per_sample):
            np.matmul(a, b, out=out)
        return (time.perf_counter() - start) / series.iterations_per_sample

    core = ThreadPoolExecutor(1, initializer=pin, initargs=(session.device.cores,))
    with core as pinned:
        yield Contest(
            f"a product of {SIZE}, measured",
            "a loop of NumPy's",
            lambda: sample(series, clock).seconds,
            lambda: pinned.submit(plain).result(),
            most=LOOP,
        )


def measurers(_session: Session) -> Iterator[Contest]:
    """Yield a product on a core by `gpumap bench dot` and by its peers: its time, and theirs."""
    peers = {"hyperfine": shutil.which("hyperfine"), "pyperf": find_spec("pyperf")}
    runs = {"hyperfine": _by_hyperfine, "pyperf": _by_pyperf}
    for peer in (name for name, found in peers.items() if found):
        ours, theirs = _Kept(_by_gpumap), _Kept(runs[peer])
        yield Contest(f"a product of {SIZE} on a core", peer, ours.figure, theirs.figure, most=LOOP)
        what = f"±{_PRECISION:.0%} of it"
        yield Contest(what, f"by {peer}", ours.lasting, theirs.lasting, most=HASTE)


class _Kept:
    """The figures of runs, and in the same order how long each of them took."""

    def __init__(self, run: Callable[[], tuple[float, float]]) -> None:
        self._run = run
        self._lasted: list[float] = []

    def figure(self) -> float:
        """Run, and return what was measured."""
        figure, lasted = self._run()
        self._lasted.append(lasted)
        return figure

    def lasting(self) -> float:
        """Return the seconds of the earliest run that was not yet returned."""
        return self._lasted.pop(0)


def _by_gpumap() -> tuple[float, float]:
    """Return the seconds of a product, and of the command."""
    words = ("bench", "dot", "one->cpu0", "--cases", "one", "--precision", f"{_PRECISION:.0%}")
    tool = str(Path(sys.executable).parent / "gpumap")
    done = children.run((tool, *words, "--size", str(SIZE), "--quiet", "--format", "json"))
    rows = done.report["result"]["measurements"]
    return next(
        row["metrics"]["time"]["value"] for row in rows if row["case"]["name"] == "one"
    ), done.elapsed


def _by_hyperfine() -> tuple[float, float]:
    """Return the seconds of a product, and of the first runs that give it precisely enough."""
    with tempfile.TemporaryDirectory(prefix="gpumap-speed-") as folder:
        program, out = Path(folder, "products.py"), Path(folder, "out.json")
        program.write_text(_PROGRAM, encoding="utf-8")
        python = f"taskset --cpu-list 0 {sys.executable} {program}"
        limits = ("--shell", "none", "--warmup", "1", "--runs", str(_RUNS))
        several, none = f"{python} {_PRODUCTS}", f"{python} 0"
        env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        command = ("hyperfine", *limits, "--export-json", str(out), several, none)
        done = children.run(command, env=env)
        if done.exit_code:
            raise RuntimeError(f"hyperfine: {done.err.strip()}")
        several_s, none_s = (each["times"] for each in json.loads(out.read_text())["results"])
    each = [(a - b) / _PRODUCTS for a, b in zip(several_s, none_s, strict=True)]
    return _precise(each, [a + b for a, b in zip(several_s, none_s, strict=True)])


def _by_pyperf() -> tuple[float, float]:
    """Return the seconds of a product, and of the first processes that give it precisely enough."""
    with tempfile.TemporaryDirectory(prefix="gpumap-speed-") as folder:
        out = Path(folder, "out.json")
        command = (sys.executable, "-m", "pyperf", "timeit", "--affinity", "0", "--quiet",
                   "--inherit-environ", "OPENBLAS_NUM_THREADS", "--setup", _OPERANDS,
                   "--output", str(out), _PRODUCT)  # fmt: skip
        done = children.run(command, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
        if done.exit_code:
            raise RuntimeError(f"pyperf: {done.err.strip()}")
        (found,) = json.loads(out.read_text())["benchmarks"]
    values: list[float] = []
    lasted: list[float] = []
    waiting = 0.0  # of processes that calibrate, and give no value
    for run in found["runs"]:
        waiting += run["metadata"]["duration"]
        for value in run.get("values", ()):
            values.append(value)
            lasted.append(waiting)
            waiting = 0.0
    return _precise(values, lasted)


def _precise(values: list[float], lasted: list[float]) -> tuple[float, float]:
    """Return the middle of the first values that are precise enough, and the seconds until then.

    By the rule that gpumap stops by, so that both sides know as much; but after any value, not at
    gpumap's looks alone.
    """
    gone = list(accumulate(lasted))
    for n in filter(stats.enough, range(1, len(values) + 1)):
        found = stats.location(values[:n], positive=True, slow=False)
        if stopping.done(found, _PRECISION):
            return found.value, gone[n - 1]
    return stats.location(values).value, gone[-1]  # it would take longer still


def names(_session: Session) -> Iterator[Contest]:
    """Yield the two products of examples/two_dots.py on two cores, beside one."""
    with gpumap.open("dev0->cpu0;dev1->cpu1") as two, gpumap.open("dev0->cpu0") as one:
        ours, theirs = _two_dots(two), _two_dots(one)
        yield Contest(f"two products of {SIZE} on two names", "on one", ours, theirs, least=TWO)


def _two_dots(context: gpumap.Context) -> Callable[[], float]:
    """Return what times both products, once they were compared with float64's."""
    rng = np.random.default_rng(1)
    first, last = context.names[0], context.names[-1]
    pairs = [
        [context.shared(rng.random((SIZE, SIZE), dtype="float32"), target) for _ in range(2)]
        for target in (first, last)
    ]
    for a, b in pairs:
        exact = a.numpy().astype("float64") @ b.numpy()
        np.testing.assert_allclose(gpumap.dot(a, b).numpy(), exact, rtol=1e-7 * SIZE)

    def timed() -> float:
        start = time.perf_counter()
        results = [gpumap.dot(a, b) for a, b in pairs]
        context.synchronize()
        stop = time.perf_counter()
        del results  # after the clock was read
        return stop - start

    return timed


def chain(session: Session) -> Iterator[Contest]:
    """Yield log(exp(relu(x.w + b))) in one kernel, beside five, on the same x and w."""
    for rows, least in FUSED.items():
        placed = Placed("a", session, Data(rows, 1))
        fused, separate = (_checked(placed, fused=fused) for fused in (True, False))
        what = f"chain of {rows} rows, fused"
        yield Contest(what, "five kernels", fused, separate, least=least)


def _checked(placed: Placed, *, fused: bool) -> Callable[[], float]:
    """Return what times a call that is waited for, once its result was compared with float64's."""
    work = DeviceIteration(placed, fused=fused)
    work.poison()
    work.queue()
    work.finish()
    if not (check := work.check()).passed:
        raise SystemExit(f"chain: error {check.max_error} is above {check.bound}")

    def call() -> None:
        work.queue()
        work.finish()

    return sampled(looped(call), lambda: None, _SAMPLE)

"""How often intervals hold, rows are flagged and comparisons are decided: simulated, and real.

    python -m benchmarks.decisions [--runs 1000] [--pairs 0] [--budget 8s]

An independent generator (NumPy: normal, lognormal, Pareto, AR 0.5 and 0.8, frequency steps, steal,
spikes) feeds the code that decides: medians and ratios with the stopping rule, fits, break-evens,
flags, and `compare` on reports of seven rows and a control. With --pairs the default command is run
too, each run a process of its own: A against A, then against 10 % more of the same products in each
round that says that it is one. Printed are Markdown tables, with how busy the machine was.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections import Counter
from functools import cache, partial
from io import StringIO
from multiprocessing import Pool
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import around
from gpumap.bench.base import Settings
from gpumap.bench.crossing import CLOSE, Point, seen
from gpumap.bench.figures import located
from gpumap.bench.speedup import Figures
from gpumap.bench.stopping import EARLY_LOOKS, Standing, done, unstable
from gpumap.fit import fitted, intervals
from gpumap.judge.compare import compare
from gpumap.model import (
    Binding,
    Case,
    Check,
    Device,
    DeviceRef,
    Estimate,
    Fingerprint,
    Group,
    Kind,
    Measurement,
    Report,
    Samples,
    Work,
)
from gpumap.stats import location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumap.bench.base import Benchmark, Round

    Array = np.ndarray[Any, Any]

KINDS = ("normal", "lognormal", "pareto", "ar 0.5", "ar 0.8", "steps", "steal", "spikes")
SETTINGS = Settings(math.inf, math.inf)
BLOCKS = 24  # of the default `bench dot --size 1024` in 8 s
ROWS = 7
OWN, SHARED = 0.0035, 0.003  # standard deviations of a product of 1024: its own, and the machine's
SIZES = [2**k for k in range(10, 26, 2)]
LATENCY, BANDWIDTH = 5e-6, 10e9
CALLS = 6  # samples of a call at a size
SITUATIONS = {  # what changes: the work, the machine
    "A/A": (1.0, 1.0),
    "work +10 %": (1.10, 1.0),
    "device and control +15 %": (1.0, 1.15),
    "7 % faster": (1.0, 0.93),
}
PRODUCTS, MORE = 10, 11  # of a round, and with 10 % more work
SIZE, MAP = 1024, "dev0->cpu0;dev1->cpu1"


def noise(kind: str, n: int, rng: np.random.Generator) -> Array:
    """Return n deviations of a noise, in units of its standard deviation or so."""
    z = rng.standard_normal(n)
    if kind.startswith("ar"):
        lag = float(kind.split()[1])
        for i in range(1, n):
            z[i] = lag * z[i - 1] + math.sqrt(1 - lag**2) * z[i]
    elif kind == "lognormal":
        z = np.exp(0.7 * z) - 1
    elif kind == "pareto":
        z = rng.pareto(3, n)
    elif kind == "spikes":
        z += (rng.random(n) < 0.05) * rng.uniform(5, 25, n)  # noqa: PLR2004 - the share of spikes
    elif kind == "steps":  # 30 % of stretches of 15 samples are slower
        z += 7.5 * np.repeat(rng.random(n // 15 + 1) < 0.3, 15)[:n]  # noqa: PLR2004 - as above
    elif kind == "steal":
        z += (rng.random(n) < 0.3) * rng.uniform(10, 40, n)  # noqa: PLR2004 - the share of steal
    return z


@cache
def centre(kind: str) -> float:
    """Return the median of a noise."""
    return float(np.median(noise(kind, 400_000, np.random.default_rng(9))))


def factors(kind: str, n: int, scale: float, rng: np.random.Generator) -> Array:
    """Return n factors whose median is 1."""
    return np.exp(scale * (noise(kind, n, rng) - centre(kind)))


# --- medians and ratios, with the stopping rule


def stopped(kind: str, most: int, seed: int) -> tuple[bool, bool, bool, bool]:
    """Return of a time and of a ratio whether the interval holds the truth, and of both flags."""
    rng = np.random.default_rng([1, seed])
    times, base = (factors(kind, most, 0.02, rng) for _ in range(2))
    found: list[bool] = []
    for values, is_ratio in ((times, False), (base / times, True)):
        for share in (*EARLY_LOOKS, 1.0):
            row = Standing(list(map(float, values[: int(most * share)])), is_ratio)
            place = row.located(SETTINGS.confidence)
            if done(place, SETTINGS.precision):
                break
        found += [place.low <= 1.0 <= place.high, unstable(row, 0, ROWS)]
    return found[0], found[1], found[2], found[3]


def coverage(pool: Any, runs: int) -> Iterator[str]:
    """Yield how often intervals of medians and ratios hold, and how often rows are flagged."""
    yield "| noise | blocks at most | time held | flagged | or | ratio held | flagged | or |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for kind in KINDS:
        for most in (20, 40, 80, 320):
            found = np.array(pool.map(partial(stopped, kind, most), range(runs), 20))
            cells = []
            for held, flagged in ((found[:, 0], found[:, 1]), (found[:, 2], found[:, 3])):
                cells += [held.mean(), flagged.mean(), (held | flagged).mean()]
            yield f"| {kind} | {most} | {' | '.join(f'{share:.1%}' for share in cells)} |"


# --- latency and bandwidth


def modelled(kind: str, n: int, seed: int) -> tuple[bool, bool] | None:
    """Return whether the intervals of latency and bandwidth hold; None: nothing fits."""
    rng = np.random.default_rng([2, seed])
    truth = [LATENCY + size / BANDWIDTH for size in SIZES]
    samples = np.array([t * factors(kind, n, 0.02, rng) for t in truth]).T
    model = fitted(SIZES, np.median(samples, axis=0))
    if not model.fits or len(model.lines) > 1:
        return None
    found = intervals(SIZES, samples, model, SETTINGS.confidence, seed)
    latency, peak = found["latency"], found["peak_bandwidth"]
    return latency.low <= LATENCY <= latency.high, peak.low <= BANDWIDTH <= peak.high


def fits(pool: Any, runs: int) -> Iterator[str]:
    """Yield how often the intervals of a fit hold."""
    yield "| noise | blocks | fits | latency held | bandwidth held |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for kind in KINDS:
        for n in (6, 16, 40):
            found = pool.map(partial(modelled, kind, n), range(runs), 20)
            held = np.array([each for each in found if each is not None])
            shares = (f"{share:.1%}" for share in held.mean(axis=0)) if len(held) else ("-", "-")
            yield f"| {kind} | {n} | {len(held) / runs:.0%} | {' | '.join(shares)} |"


# --- the ideal


def placed(kind: str, scale: float, n: int, seed: int) -> tuple[bool, float]:
    """Return whether the ideal of two equal devices holds 2, and its error."""
    rng = np.random.default_rng([4, seed])
    devices = [Device(f"cpu:{i}", Kind.CPU, DeviceRef(Kind.CPU, i), "", "numpy",
                      silicon=frozenset({f"core {i}"})) for i in range(2)]  # fmt: skip
    bound = [Binding(name, device) for name, device in zip("ab", devices, strict=True)]
    one = Case("dot", "one", {}, (bound[0],), Work(2))
    solos = [Case("dot", "solo", {}, (each,), Work(1)) for each in bound]
    many = Case("dot", "many", {}, tuple(bound), Work(2), against=one.id)
    cases = (one, *solos, many)
    samples = {
        case.id: Samples(tuple(map(float, t * factors(kind, n, scale, rng))), tuple(range(n)))
        for case, t in zip(cases, (2.0, 1.0, 1.0, 1.0), strict=True)
    }
    ideal = Figures(Group(cases), samples, SETTINGS.confidence).of(many)["ideal"]
    return ideal.low <= 2.0 <= ideal.high, math.log(ideal.value / 2.0)  # noqa: PLR2004 - the truth


def ideals(pool: Any, runs: int) -> Iterator[str]:
    """Yield how often the interval of the ideal holds, and its bias."""
    yield "| noise | scale | blocks | held | bias |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for kind in ("normal", "lognormal", "pareto", "ar 0.5"):
        for scale in (0.02, 0.10):
            for n in (20, 40):
                found = np.array(pool.map(partial(placed, kind, scale, n), range(runs), 20))
                held, bias = found.mean(axis=0)
                yield f"| {kind} | {scale:.0%} | {n} | {held:.1%} | {bias:+.2%} |"


# --- break-evens


def crossed(kind: str, seed: int) -> tuple[bool, float]:
    """Return whether the interval of a break-even holds, and half its width."""
    rng = np.random.default_rng([5, seed])
    latency, faster = 10 ** rng.uniform(-5.0, -3.5), rng.uniform(1.5, 20.0)
    truth = latency / (1.0 - 1.0 / faster) * BANDWIDTH

    def look(size: float) -> Point:
        host = (LATENCY + size / BANDWIDTH) * factors(kind, CALLS, 0.02, rng)
        device = LATENCY + latency + size / BANDWIDTH / faster
        ratios = host / (device * factors(kind, CALLS, 0.02, rng))
        return Point(round(size), located([*map(float, ratios)], "1", SETTINGS.confidence))

    points = [look(40 * 8**n) for n in range(9)]
    for _ in range(2):
        size = seen(points).value
        if not math.isfinite(size) or any(1 / CLOSE < size / p.nbytes < CLOSE for p in points):
            break
        points = sorted([*points, look(size)], key=lambda point: point.nbytes)
    found = seen(points)
    half = math.log(found.high / found.low) / 2 if found.low > 0.0 else math.inf
    return found.low <= truth <= found.high, half


def break_evens(pool: Any, runs: int) -> Iterator[str]:
    """Yield how often the interval of a break-even holds, and its width."""
    yield "| noise | held | half of the interval, median |"
    yield "| --- | ---: | ---: |"
    for kind in KINDS:
        found = np.array(pool.map(partial(crossed, kind), range(runs), 20))
        yield f"| {kind} | {found[:, 0].mean():.1%} | {np.median(found[:, 1]):.1%} |"


# --- comparisons


def decided(kind: str, situation: str, seed: int) -> int:
    """Return the exit code that a comparison of two simulated runs leads to."""
    rng = np.random.default_rng([3, seed])
    runs = [_run(kind, 1.0, 1.0, rng), _run(kind, *SITUATIONS[situation], rng)]
    words = {verdict.verdict for verdict in compare(*runs, 0.05).verdicts}
    return 1 if "regression" in words else 5 if "inconclusive" in words else 0


def decisions(pool: Any, runs: int) -> Iterator[str]:
    """Yield how comparisons of seven rows and a control end."""
    yield f"| noise, exit 0 / 1 / 5 in % | {' | '.join(SITUATIONS)} |"
    yield f"| --- {'| ---: ' * len(SITUATIONS)}|"
    for kind in KINDS:
        cells = []
        for situation in SITUATIONS:
            found = Counter(pool.map(partial(decided, kind, situation), range(runs), 20))
            cells.append(" / ".join(f"{100 * found[code] / runs:.1f}" for code in (0, 1, 5)))
        yield f"| {kind} | {' | '.join(cells)} |"


def _run(kind: str, work: float, machine: float, rng: np.random.Generator) -> Report:
    felt = machine * np.exp(SHARED * rng.standard_normal(BLOCKS))
    rows = [_row("dot", f"{i}", 0.02 * work * felt * factors(kind, BLOCKS, OWN, rng))
            for i in range(ROWS)]  # fmt: skip
    rows.append(_row("anchor", "product", 0.002 * felt * factors(kind, BLOCKS, OWN, rng)))
    machine_ = Fingerprint("", "", 2, "", "", {}, ("cpu:0",), {}, ())
    return Report(
        "bench", (), "", "", 0.0, "ok", 0, simulated=False, settings={}, source=None, map=None,
        bindings=(), notes=(), devices=(), backends=(), fingerprint=machine_, environment={},
        before=None, after=None, measurements=tuple(rows),
    )  # fmt: skip


def _row(bench: str, name: str, times: Array) -> Measurement:
    device = Device("cpu:0", Kind.CPU, DeviceRef(Kind.CPU, 0), "", "numpy")
    case = Case(bench, name, {}, (Binding("a", device),), Work(1))
    seconds = tuple(map(float, times))
    found = location(seconds, positive=True)
    metrics = {"time": Estimate(found.value, found.low, found.high, "s")}
    samples = Samples(seconds, tuple(range(len(seconds))))
    return Measurement(case, "ok", None, (), samples, None, Check("", passed=True), metrics)


# --- real pairs of the default command


def pairs(count: int, budget: str) -> Iterator[str]:
    """Yield how real pairs end: each run against the one before, then against 10 % more work."""
    for what, products in (("A/A", (PRODUCTS, PRODUCTS)), ("work +10 %", (PRODUCTS, MORE))):
        codes: Counter[int] = Counter()
        words: Counter[str] = Counter()
        foreign = []
        before = around.state()
        with tempfile.TemporaryDirectory(prefix="gpumap-pairs-") as folder:
            base, new = (Path(folder) / f"{name}.json" for name in ("base", "new"))
            for number in range(count):
                for each, target in sorted(zip(products, (base, new), strict=True),
                                           reverse=number % 2 == 1):  # fmt: skip
                    _python("benchmarks.decisions", "--measure", str(each), str(target),
                            "--budget", budget)  # fmt: skip
                code, found, cores = compared(base, new)
                codes[code] += 1
                words.update(found)
                foreign.append(cores)
                around.say(f"{what} {number + 1} of {count}: exit {code}, {Counter(found)}")
        ends = ", ".join(f"exit {code}: {codes[code]}" for code in (0, 1, 5))
        said = ", ".join(f"{n} {word}" for word, n in words.most_common())
        yield (
            f"- {what}, {count} pairs of `bench dot --size {SIZE}` ({budget}): {ends}; metrics: "
            f"{said}. Before: {around.words(before)}; others used {min(foreign):.2f} to "
            f"{max(foreign):.2f} cores."
        )


def compared(base: Path, new: Path) -> tuple[int, list[str], float]:
    """Return what `gpumap compare` says of two reports, and the cores that others used."""
    answer = _python("gpumap", "compare", str(base), str(new), "--format", "json", "--quiet",
                     codes=(0, 1, 5))  # fmt: skip
    words = [verdict["verdict"] for verdict in json.loads(answer.stdout)["verdicts"]]
    rows = json.loads(new.read_text())["measurements"]
    cores = [row["around"]["foreign_cores"] or 0.0 for row in rows if row["around"]]
    return answer.returncode, words, max(cores, default=0.0)


def measure(products: int, target: Path, budget: str) -> int:
    """Measure so many products where one is declared, by the pipeline of `gpumap bench dot`."""
    import click

    from gpumap.bench.dot import Dot, Params, plan
    from gpumap.commands.measuring import find, recorded
    from gpumap.commands.measuring import measure as measured
    from gpumap.commands.output import Output, Target
    from gpumap.commands.program import Program
    from gpumap.judge.gate import Gate
    from gpumap.units import duration

    # what a user would have typed: ids, map and settings are those of the command line
    argv = ("bench", "dot", "--size", str(SIZE), "--map", MAP)
    program = Program(argv, dict(os.environ), str(Path.cwd()), StringIO(), sys.stderr)
    output = Output("plain", (Target("json", target),), quiet=True)
    settings, params = Settings(duration(budget), 120.0), Params((SIZE,))
    backend = os.environ.get("GPUMAP_BACKEND", "numpy")
    try:
        with recorded("bench", program, output, settings, Gate()) as record:
            for resolution, inventory in find(record, program, MAP, None, backend):
                bindings = resolution.bindings

                def make(devices: Any) -> Benchmark:
                    dot = Dot(bindings, devices.sessions, devices.clock, params, bindings[0])  # noqa: B023 - called in this turn
                    return Heavier(dot, products)

                first = plan(bindings, params, bindings[0])
                measured(record, program, inventory, resolution, first, make, settings, output)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    return 0


class Heavier:
    """A benchmark whose rounds do their work several times over, in tenths, and do not say so."""

    def __init__(self, inner: Benchmark, times: int) -> None:
        self._inner = inner
        self._times = times
        self.key = inner.key
        self.plan = inner.plan
        self.begin = inner.begin
        self.metrics = inner.metrics
        self.limit = inner.limit

    def round(self, case: Any) -> Heavy:
        """Return the benchmark's round, so many times."""
        return Heavy(self._inner.round(case), self._times)


class Heavy:
    """A round, several times over."""

    def __init__(self, inner: Round, times: int) -> None:
        self._inner = inner
        self._times = times
        self.route = inner.route
        self.poison = inner.poison
        self.finish = inner.finish
        self.check = inner.check

    def queue(self, spans: Any = None, rounds: int = 1) -> None:
        """Queue all of it between the same marks."""
        self._inner.queue(spans, rounds * self._times)


def _python(
    module: str, *arguments: str, codes: Sequence[int] = (0,)
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode not in codes:
        raise SystemExit(f"{module} ended in {answer.returncode}: {answer.stderr.strip()}")
    return answer


def main() -> int:
    """Simulate, measure, and print what came of it."""
    asked = _arguments()
    if asked.measure:
        return measure(int(asked.measure[0]), Path(asked.measure[1]), asked.budget)
    print(f"{around.stamp()}, {asked.runs} runs a cell; machine: {around.words(around.state())}\n")
    parts: dict[str, Callable[[Any, int], Iterator[str]]] = {
        "Comparisons": decisions, "Break-evens": break_evens, "Fits": fits, "Ideal": ideals,
        "Medians and ratios": coverage,
    }  # fmt: skip
    with Pool(asked.jobs) as pool:
        for title, part in parts.items() if asked.runs else ():
            print(f"## {title}\n")
            for line in part(pool, asked.runs):
                print(line, flush=True)
            print()
    for line in pairs(asked.pairs, asked.budget) if asked.pairs else ():
        print(line, flush=True)
    return 0


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000, help="of each cell; 0: none")
    parser.add_argument("--jobs", type=int, default=2, help="processes of the simulation")
    parser.add_argument("--pairs", type=int, default=0, help="real ones of each kind")
    parser.add_argument("--budget", default="8s", help="of each real run")
    parser.add_argument("--measure", nargs=2, metavar=("PRODUCTS", "FILE"), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

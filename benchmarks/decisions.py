"""How often intervals hold, rows are flagged and comparisons are decided: simulated, and real.

    python -m benchmarks.decisions [--runs 1000] [--pairs 0] [--budget 12s]

An independent generator (NumPy: normal, lognormal, Pareto, AR 0.5 and 0.8, frequency steps, steal,
spikes) feeds the code that decides: medians and ratios with the stopping rule, fits, break-evens,
flags, and `compare` on reports of the rows of `bench dot` and a control. With --pairs the default
command is run too, each run a process of its own: A against A, then against products that compute a
tenth of their rows twice and do not say so. Printed are Markdown tables, with how busy the machine
was.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections import Counter
from functools import cache, partial
from multiprocessing import Pool
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks import around, children
from benchmarks.contest import table
from gpumap.backends.numpy import NumpySession
from gpumap.bench.gains import Figures
from gpumap.engine.base import Settings
from gpumap.engine.estimates import located
from gpumap.engine.fit import Point, break_even, fitted, intervals
from gpumap.engine.stats import location
from gpumap.engine.stopping import EARLY_LOOKS, FEWEST, FIRST_LOOK, Standing, done, unstable
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
    Measured,
    Measurement,
    Report,
    Samples,
    Work,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Array = np.ndarray[Any, Any]

KINDS = ("normal", "lognormal", "pareto", "ar 0.5", "ar 0.8", "steps", "steal", "spikes")
SETTINGS = Settings(math.inf, math.inf)
BLOCKS = 24  # fewer than the default `bench dot --size 1024` takes: 88 in 12 s
CASES = ("solo", "one", "many", "one+fetch", "many+fetch", "many+fetch+threads", "solo b")
ROWS = len(CASES)
SHOWN = "many+fetch"  # what the gate does not judge, unless it is certainly slower
OWN, SHARED = 0.0035, 0.003  # standard deviations of a product of 1024: its own, and the machine's
SIZES = [2**k for k in range(10, 26, 2)]
LATENCY, BANDWIDTH = 5e-6, 10e9
CALLS = 6  # samples of a call at a size
SITUATIONS = {  # what changes: the work, the machine, and the work of SHOWN
    "A/A": (1.0, 1.0),
    "work +10 %": (1.10, 1.0),
    "device and control +15 %": (1.0, 1.15),
    "7 % faster": (1.0, 0.93),
    "shown +50 %": (1.0, 1.0, 1.5),
}
SIZE = 1024
MORE = 0.1  # of the rows of a product are computed twice


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


def stopped(kind: str, most: int, seed: int) -> tuple[int, ...]:
    """Return of a time and of a ratio: is the truth in the interval, is it flagged, its blocks."""
    rng = np.random.default_rng([1, seed])
    times, base = (factors(kind, most, 0.02, rng) for _ in range(2))
    found: list[int] = []
    for values, is_ratio in ((times, False), (base / times, True)):
        for share in (FIRST_LOOK, *EARLY_LOOKS, 1.0):
            row = Standing(list(map(float, values[: int(most * share)])), is_ratio)
            place = row.located(SETTINGS.confidence)
            if done(place, SETTINGS.precision):
                break
        found += [place.low <= 1.0 <= place.high, unstable(row, ROWS), len(row.values)]
    return tuple(found)


def coverage(pool: Any, runs: int) -> Iterator[str]:
    """Yield how often intervals of medians and ratios hold, and how often rows are flagged."""
    yield from table(("noise", "blocks at most", "time held", "flagged", "or", "ratio held",
                      "flagged", "or"), ())  # fmt: skip
    ends: dict[int, list[int]] = {}
    for kind in KINDS:
        for most in (20, 40, 80, 320, 600):
            found = np.array(pool.map(partial(stopped, kind, most), range(runs), 20))
            cells = []
            for held, flagged, _ in (found[:, :3].T, found[:, 3:].T):
                cells += [held.mean(), flagged.mean(), (held | flagged).mean()]
            yield f"| {kind} | {most} | {' | '.join(f'{share:.1%}' for share in cells)} |"
            for held, flagged, blocks in found[:, :3] if kind == "steps" else ():
                ends.setdefault(int(blocks), []).append(held | flagged)
    said = (f"{np.mean(good):.1%} of {len(good)} with {n}" for n, good in sorted(ends.items()))
    yield f"\nTimes under steps that are held or flagged, by their blocks: {', '.join(said)}."


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
    yield from table(("noise", "blocks", "fits", "latency held", "bandwidth held"), ())
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
                      hardware=frozenset({f"core {i}"})) for i in range(2)]  # fmt: skip
    bound = [Binding(name, device) for name, device in zip("ab", devices, strict=True)]
    one = Case("dot", "one", {}, (bound[0],), Work(2))
    solos = [Case("dot", "solo", {}, (each,), Work(1), role="solo") for each in bound]
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
    yield from table(("noise", "scale", "blocks", "held", "bias"), ())
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

    found = break_even([look(40 * 2**n) for n in range(25)])
    half = math.log(found.high / found.low) / 2 if found.low > 0.0 else math.inf
    return found.low <= truth <= found.high, half


def break_evens(pool: Any, runs: int) -> Iterator[str]:
    """Yield how often the interval of a break-even holds, and its width."""
    yield from table(("noise", "held", "half of the interval, median"), ())
    for kind in KINDS:
        found = np.array(pool.map(partial(crossed, kind), range(runs), 20))
        yield f"| {kind} | {found[:, 0].mean():.1%} | {np.median(found[:, 1]):.1%} |"


# --- comparisons


def decided(kind: str, situation: str, seed: int) -> int:
    """Return the exit code that a comparison of two simulated runs leads to."""
    rng = np.random.default_rng([3, seed])
    runs = [_run(kind, rng), _run(kind, rng, *SITUATIONS[situation])]
    words = {verdict.verdict for verdict in compare(*runs, 0.05)}
    return 1 if "regression" in words else 5 if "inconclusive" in words else 0


def decisions(pool: Any, runs: int) -> Iterator[str]:
    """Yield how comparisons of the rows of `bench dot` and a control end."""
    yield from table(("noise, exit 0 / 1 / 5 in %", *SITUATIONS), ())
    for kind in KINDS:
        cells = []
        for situation in SITUATIONS:
            found = Counter(pool.map(partial(decided, kind, situation), range(runs), 20))
            cells.append(" / ".join(f"{100 * found[code] / runs:.1f}" for code in (0, 1, 5)))
        yield f"| {kind} | {' | '.join(cells)} |"


def _run(
    kind: str, rng: np.random.Generator, work: float = 1.0, machine: float = 1.0, shown: float = 1.0
) -> Report:
    felt = machine * np.exp(SHARED * rng.standard_normal(BLOCKS))
    rows = [_row("dot", name, (0.02 if name != SHOWN else 0.02 * shown) * work * felt
                 * factors(kind, BLOCKS, OWN, rng)) for name in CASES]  # fmt: skip
    rows.append(_row("control", "product", 0.002 * felt * factors(kind, BLOCKS, OWN, rng)))
    machine_ = Fingerprint("", "", 2, "", "", {}, ("cpu:0",), {})
    return Report(
        "bench", (), "", "", 0.0, "ok", 0, simulated=False, settings={}, source=None, map=None,
        bindings=(), notes=(), devices=(), backends=(), fingerprint=machine_, environment={},
        before=None, after=None, result=Measured(tuple(rows)),
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


WHAT = {"again": "A/A", "more": "work +10 %"}


def pairs(count: int, budget: str, cases: str, keep: str) -> Iterator[str]:
    """Yield how real pairs end: each base against the same again, and against 10 % more work."""
    before = around.state()
    folder = Path(keep or tempfile.mkdtemp(prefix="gpumap-pairs-"))
    folder.mkdir(exist_ok=True)
    ended: dict[str, list[Pair]] = {what: [] for what in WHAT}
    for number in range(count):
        names = ("base", *WHAT)
        paths = {name: folder / f"{number:02}-{name}.json" for name in names}
        for name in (*names[number % 3 :], *names[: number % 3]):  # no one is always the first
            more = ("--more",) if name == "more" else ()
            children.python("-m", "benchmarks.decisions", "--measure", str(paths[name]), *more,
                            "--budget", budget, "--cases", cases)  # fmt: skip
        for name, pairs_ in ended.items():
            pairs_.append(found := compared(paths["base"], paths[name]))
            around.say(f"{WHAT[name]} {number + 1} of {count}: {found}")
    for name, pairs_ in ended.items():
        command = f"bench dot --size {SIZE} --cases {cases or 'all'}"
        yield f"- {WHAT[name]}, {count} pairs of `{command}` ({budget}): {summary(pairs_)}."
    yield f"\nBefore: {around.words(before)}."


class Pair(NamedTuple):
    """How a comparison ended, its verdicts, its headline, and what other processes used."""

    code: int
    words: tuple[str, ...]
    headline: str
    cores: float
    flagged: tuple[int, int]  # rows of new that are not ok, of all


def summary(ended: list[Pair]) -> str:
    """Return how often each exit code came, of which verdicts, and how many rows were flagged."""
    codes = Counter(pair.code for pair in ended)
    words = Counter(word for pair in ended for word in pair.words)
    firsts = Counter(pair.headline.partition(":")[0] for pair in ended)
    cores = [pair.cores for pair in ended]
    flagged, rows = (sum(pair.flagged[n] for pair in ended) for n in range(2))
    return (
        f"{', '.join(f'exit {code}: {codes[code]}' for code in (0, 1, 5))}; "
        f"{', '.join(f'{n} {word}' for word, n in words.most_common())}; "
        f"headlines {dict(firsts)}; {flagged} of {rows} rows few or noisy; "
        f"others used {min(cores):.2f} to {max(cores):.2f} cores"
    )


def compared(base: Path, new: Path) -> Pair:
    """Return what `gpumap compare` says of two reports."""
    answer = children.gpumap("compare", str(base), str(new))
    words = tuple(verdict["verdict"] for verdict in answer.report["verdicts"])
    every = json.loads(new.read_text())["result"]["measurements"]
    rows = [row for row in every if row["case"]["bench"] == "dot"]
    cores = [row["around"]["foreign_cores"] or 0.0 for row in rows if row["around"]]
    counts = [len(row["samples"]["seconds"]) if row["samples"] else 0 for row in rows]
    doubts = [n for row, n in zip(rows, counts, strict=True)
              if "unstable" in row["flags"] or n < FEWEST]  # fmt: skip
    headline = answer.report["headline"]["text"]
    most = max(cores, default=0.0)
    return Pair(answer.exit_code or 0, words, headline, most, (len(doubts), len(rows)))


def measure(target: Path, budget: str, cases: str, *, more: bool) -> int:
    """Run the default command, or some cases; with `more`, a tenth of each product runs twice."""
    from gpumap.cli import main as command

    if more:
        NumpySession.gemm = heavier(NumpySession.gemm)  # type: ignore[method-assign]
    words = ["bench", "dot", "--size", str(SIZE), "--budget", budget, "--quiet"]
    some = ["--cases", cases] if cases else []
    return command([*words, *some, "--output", str(target)])


def heavier(gemm: Callable[..., None]) -> Callable[..., None]:
    """Return a product of SIZE that computes some of its rows twice; the result is the same."""

    def product(session: Any, a: Array, b: Array, out: Array, **options: Any) -> None:
        gemm(session, a, b, out, **options)
        if a.shape[0] == SIZE:  # the control stays as it is
            rows = slice(round(MORE * SIZE))
            gemm(session, a[rows], b, out[rows], **options)

    return product


def main() -> int:
    """Simulate, measure, and print what came of it."""
    asked = _arguments()
    if asked.measure:
        return measure(Path(asked.measure), asked.budget, asked.cases, more=asked.more)
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
    real = (asked.pairs, asked.budget, asked.cases, asked.keep)
    for line in pairs(*real) if asked.pairs else ():
        print(line, flush=True)
    return 0


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000, help="of each cell; 0: none")
    parser.add_argument("--jobs", type=int, default=2, help="processes of the simulation")
    parser.add_argument("--pairs", type=int, default=0, help="real ones of each kind")
    parser.add_argument("--budget", default="12s", help="of each real run")
    parser.add_argument("--cases", default="", help="of each real run; all, if not said")
    parser.add_argument("--keep", default="", help="folder for the reports of real runs")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--more", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""Does a gate raise false alarms, and does it find a slow-down? Saved runs of a core, compared.

    python -m benchmarks.gate [--pairs 100] [--injected 100] [--budget 4s] [--output NAME]

A/A: `gpumap bench dot` is run --pairs + 1 times, with `--precision 0.5%`, each a process of its
own, and each report is compared with the one before by `gpumap compare`, at 5 %. Then --injected
times the same benchmark is run with PRODUCTS and with 10 % more of the same products in a round
that says that it is one, by gpumap's own pipeline (`--measure PRODUCTS FILE`),
and compared in the same way.

At most 2 % of the A/A pairs may be a regression, and at least 90 % of the others must end in exit
code 1. Anything but 0, 1 and 5 ends the script: then a comparison did not take place. Printed are
the exit codes, how the pairs were called, the ratios, and how busy the machine was; `--output`
takes a path without a suffix, and writes all of it as JSON. Nothing is measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import partial
from io import StringIO
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import around
from gpumap.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpumap.bench.base import Benchmark, Round

THRESHOLD = "5%"
MOST = 0.02  # of the A/A pairs, that may be regressions
LEAST = 0.90  # of the injected ones, that must end in exit code 1
PRODUCTS, MORE = 10, 11  # of a round, and with 10 % more work
SIZE, MAP = 512, "a->cpu0"
PRECISION = 0.005  # sharper than the default: an interval must clear the threshold, or fit in
_CASE = ("bench", "dot", "--size", str(SIZE), "--cases", "one", "--map", MAP,
         "--precision", f"{PRECISION:.1%}")  # fmt: skip
_VERDICTS = (0, 1, 5)  # exit codes of a comparison that took place
_ALARM = "regression"


@dataclass(frozen=True)
class Pair:
    """How two runs were called: the exit code, the words, and new over base of the time."""

    code: int
    words: tuple[str, ...]
    value: float | None
    low: float | None
    high: float | None
    foreign: float | None = None  # cores that others kept busy while the new one was measured
    why: str = ""  # what the verdict's text tells beyond the interval

    @property
    def alarm(self) -> bool:
        """Return whether any figure was called slower."""
        return _ALARM in self.words


@dataclass
class Record:
    """What was seen."""

    budget: str
    started: str
    same: list[Pair] = field(default_factory=list)  # A against A
    slower: list[Pair] = field(default_factory=list)  # A against 10 % more work
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        """Return whether both targets are met; nothing measured meets none."""
        alarms, found = sum(p.alarm for p in self.same), sum(p.code == 1 for p in self.slower)
        few = not self.same or alarms <= MOST * len(self.same)
        enough = not self.slower or found >= LEAST * len(self.slower)
        return few and enough and bool(self.same or self.slower)


def main() -> int:
    """Measure, compare, print; return 1 if a target is missed."""
    asked = _arguments()
    if asked.measure:
        return measure(int(asked.measure[0]), asked.measure[1], asked.budget)
    record = Record(asked.budget, around.stamp(), before=around.state())
    with tempfile.TemporaryDirectory(prefix="gpumap-gate-") as folder:
        plain, heavy = partial(_plain, asked.budget), partial(_heavy, asked.budget)
        for pair in neighbours(Path(folder), asked.pairs, plain):
            record.same.append(pair)
            around.say(f"A/A {len(record.same)} of {asked.pairs}: {_one(pair)}")
        for pair in injected(Path(folder), asked.injected, heavy):
            record.slower.append(pair)
            around.say(f"10% more {len(record.slower)} of {asked.injected}: {_one(pair)}")
    record.after = around.state()
    print("\n".join(lines(record)))
    if asked.output:
        text = json.dumps(asdict(record), indent=1)
        write_atomic(asked.output.with_name(f"{asked.output.name}.json"), f"{text}\n")
    return int(not record.met)


def neighbours(folder: Path, pairs: int, run: Callable[[Path], None]) -> Iterable[Pair]:
    """Yield how each run compares with the one before it: one more run than pairs."""
    base, new = folder / "a.json", folder / "b.json"
    if pairs:
        run(base)
    for _ in range(pairs):
        run(new)
        yield compared(base, new)
        base, new = new, base


def injected(folder: Path, pairs: int, run: Callable[[int, Path], None]) -> Iterable[Pair]:
    """Yield how a run with 10 % more work compares with one without."""
    base, new = folder / "a.json", folder / "b.json"
    for number in range(pairs):
        for products, target in sorted(((PRODUCTS, base), (MORE, new)), reverse=number % 2 == 1):
            run(products, target)
        yield compared(base, new)


def compared(base: Path, new: Path) -> Pair:
    """Return what `gpumap compare` says of two reports."""
    words = ("compare", str(base), str(new), "--threshold", THRESHOLD, "--format", "json")
    done = _gpumap(*words, "--quiet")
    if done.returncode not in _VERDICTS:
        raise SystemExit(f"gpumap compare ended in {done.returncode}: {done.stderr.strip()}")
    found = json.loads(done.stdout)["verdicts"]
    rows = json.loads(new.read_text())["measurements"]
    seen = next((row["around"] for row in rows if row["around"]), {})
    (time_,) = (verdict for verdict in found if verdict["metric"] == "time")
    ends = (time_["value"], time_["low"], time_["high"])
    said = tuple(verdict["verdict"] for verdict in found)
    why = time_["text"].partition(" of base")[2].removeprefix(": ")
    return Pair(done.returncode, said, *ends, foreign=seen.get("foreign_cores"), why=why)


def lines(record: Record) -> Iterable[str]:
    """Yield a record as text."""
    how = f"{record.budget} a run or {PRECISION:.1%}"
    yield f"dot {SIZE}, one case on {MAP}, {how}, at {THRESHOLD}, {record.started}"
    if record.same:
        alarms = sum(pair.alarm for pair in record.same)
        most = f"at most {MOST:.0%}"
        yield f"A/A: {alarms} of {len(record.same)} regressions ({most}); {_all(record.same)}"
    if record.slower:
        seen = sum(pair.code == 1 for pair in record.slower)
        must = f"at least {LEAST:.0%}"
        yield f"10% more: {seen} of {len(record.slower)} exit 1 ({must}); {_all(record.slower)}"
    yield f"machine before: {around.words(record.before)}; after: {around.words(record.after)}"
    yield "met" if record.met else "missed"


def measure(products: int, target: str, budget: str) -> int:
    """Measure so many products where one is declared, by the pipeline of `gpumap bench dot`."""
    from gpumap.bench.base import Settings
    from gpumap.bench.dot import Dot, Params, plan
    from gpumap.commands.measuring import find, recorded
    from gpumap.commands.measuring import measure as measured
    from gpumap.commands.output import Output, Target
    from gpumap.commands.program import Program
    from gpumap.judge.gate import Gate
    from gpumap.units import duration

    # what a user would have typed: ids, map and settings are those of the command line
    program = Program(_CASE, dict(os.environ), str(Path.cwd()), StringIO(), sys.stderr)
    output = Output("plain", (Target("json", Path(target)),), quiet=True)
    settings = Settings(duration(budget), 60.0, precision=PRECISION)
    params = Params((SIZE,), cases=("one",))
    import click

    try:
        with recorded("bench", program, output, settings, Gate()) as record:
            for resolution, inventory in find(record, program, MAP, None, "numpy"):
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
    """A benchmark whose rounds do their work several times over, and do not say so."""

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


def _plain(budget: str, target: Path) -> None:
    done = _gpumap(*_CASE, "--budget", budget, "--output", f"json={target}", "--quiet")
    _must(done)


def _heavy(budget: str, products: int, target: Path) -> None:
    words = ("--budget", budget, "--measure", str(products), str(target))
    _must(_python("benchmarks.gate", *words))


def _gpumap(*arguments: str) -> subprocess.CompletedProcess[str]:
    return _python("gpumap", *arguments)


def _python(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _must(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode != 0:
        raise SystemExit(f"a run ended in {done.returncode}: {done.stderr.strip()}")


def _one(pair: Pair) -> str:
    known = None not in (pair.value, pair.low, pair.high)
    figure = f"{pair.value:.3f} [{pair.low:.3f}, {pair.high:.3f}]" if known else "no figure"
    why = f": {pair.why}" if pair.why else ""
    return f"exit {pair.code}, {' '.join(pair.words)}, {figure}{why}"


def _all(pairs: list[Pair]) -> str:
    codes = Counter(pair.code for pair in pairs)
    words = Counter(word for pair in pairs for word in pair.words)
    values = sorted(pair.value for pair in pairs if pair.value is not None)
    ratios = f"{values[0]:.3f} to {values[-1]:.3f}, median {median(values):.3f}" if values else "-"
    foreign = max((pair.foreign for pair in pairs if pair.foreign is not None), default=None)
    others = "not known" if foreign is None else f"at most {foreign:.2f} cores"
    exits = ", ".join(f"{n} x exit {code}" for code, n in sorted(codes.items()))
    said = ", ".join(f"{n} {word}" for word, n in words.most_common())
    return f"{exits}; {said}; ratios {ratios}; others kept busy: {others}"


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=100, help="of A against A")
    parser.add_argument("--injected", type=int, default=100, help="pairs with 10%% more work")
    parser.add_argument("--budget", default="4s", help="of each run")
    parser.add_argument("--output", type=Path, help="path of the record, without a suffix")
    parser.add_argument("--measure", nargs=2, metavar=("PRODUCTS", "FILE"), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

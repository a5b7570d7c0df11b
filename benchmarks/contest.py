"""Ours against theirs: sides in turns, the ratio of their times, and what it is asked to be.

What others on the machine do meets both sides alike: they take turns, every other round in reverse,
and each round gives one ratio. Printed is the median with its 95 % interval. `figure` and `table`
write it as Markdown.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gpumap.engine import stats
from gpumap.escape import printable
from gpumap.model import Estimate
from gpumap.units import same_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    T = TypeVar("T")
    Timed = Callable[[], float]  # seconds of one call
    Queue = Callable[[int], object]  # so many calls

ROUNDS = 15
_WARM = 2
_REST = 0.1  # seconds between two sides: OpenBLAS' threads look for work for 2^26 cycles, 30 ms
_MOST = 1 << 16  # calls of a sample
_ENOUGH = 5e-3  # seconds that tell how long a call takes


@dataclass(frozen=True, slots=True)
class Contest:
    """What both sides do, each of them as a sample, and the target of their ratio."""

    what: str
    peer: str
    ours: Timed
    theirs: Timed
    least: float | None = None  # of theirs over ours: how many times as fast as the peer
    most: float | None = None  # of ours over theirs: what gpumap may cost
    amount: float = 0.0  # of `unit` in a call, for the rates
    unit: str = "s"

    def held(self, rounds: int = ROUNDS) -> Result:
        """Time both sides in turns."""
        sides = {"ours": _rested(self.ours), "theirs": _rested(self.theirs)}
        in_turns(sides, _WARM)
        ours, theirs = in_turns(sides, rounds).values()
        pairs = (
            zip(theirs, ours, strict=True) if self.most is None else zip(ours, theirs, strict=True)
        )
        return Result(self, *map(stats.location, (ours, theirs)), ratio(pairs))


@dataclass(frozen=True, slots=True)
class Result:
    """Medians of both sides, and their ratio."""

    contest: Contest
    ours: Estimate
    theirs: Estimate
    ratio: Estimate

    HEAD = ("what", "gpumap", "peer", "of the peer", "ratio", "target", "")

    @property
    def missed(self) -> bool:
        """Return whether the ratio's median is beyond its target."""
        least, most = self.contest.least, self.contest.most
        value = self.ratio.value
        return (least is not None and value < least) or (most is not None and value > most)

    def row(self) -> tuple[str, ...]:
        """Return the cells of its line in a table below HEAD."""
        contest, found = self.contest, self.ratio
        cost = contest.most is not None
        target = f"at most {contest.most}" if cost else f"at least {contest.least}"
        asked = cost or contest.least is not None
        return (
            contest.what,
            self._rate(self.ours.value),
            contest.peer,
            self._rate(self.theirs.value),
            f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]{' of its cost' * cost}",
            target * asked,
            ("missed" if self.missed else "met") * asked,
        )

    def _rate(self, seconds: float) -> str:
        amount, unit = self.contest.amount, self.contest.unit
        return same_prefix([amount / seconds if amount else seconds], unit)[0]


def in_turns(
    sides: Mapping[str, Callable[[], T]], rounds: int, after: Callable[[], None] = lambda: None
) -> dict[str, list[T]]:
    """Return what each side gave in each round; `after` is called behind each of them."""
    found: dict[str, list[T]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides)[:: -1 if number % 2 else 1]:
            found[name].append(sides[name]())
        after()
    return found


def ratio(pairs: Iterable[tuple[float, float]]) -> Estimate:
    """Return the median of first over second with its 95 % interval, taken of the logarithms."""
    found = stats.location([math.log(first / second) for first, second in pairs])
    return Estimate(*(math.exp(x) for x in (found.value, found.low, found.high)), "1")


def sampled(queue: Queue, finish: Callable[[], object], seconds: float, each: int = 1) -> Timed:
    """Return what times one call of many, as many as take `seconds`, and waits for the last one.

    A queued one is made of `each` calls. The first ones compile and are not counted.
    """

    def timed(calls: int) -> float:
        start = time.perf_counter()
        queue(calls)
        finish()
        return (time.perf_counter() - start) / calls / each

    for _ in range(_WARM):
        timed(1)
    calls, took = 1, timed(1) * each
    while calls < _MOST and took * calls < min(_ENOUGH, seconds):
        calls *= 2
        took = timed(calls) * each
    calls = min(max(round(seconds / took), 1), _MOST)
    return lambda: timed(calls)


def looped(call: Callable[[], object]) -> Queue:
    """Return what makes a call so many times."""

    def queue(count: int) -> None:
        for _ in range(count):
            call()

    return queue


def _rested(timed: Timed) -> Timed:
    def after_a_rest() -> float:
        time.sleep(_REST)
        return timed()

    return after_a_rest


def figure(found: Mapping[str, Any] | None) -> str:
    """Return a figure with its interval, if it has one: ``35.2 ms [35.1, 35.3]``; else a dash."""
    if not found or found["value"] is None:
        return "-"
    ends = [found[key] for key in ("low", "high") if found[key] is not None]
    if len(ends) == 1:
        return "-"
    value, *interval = same_prefix([found["value"], *ends], found["unit"])
    return f"{value} [{', '.join(interval)}]" if interval else value


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown; no text leaves its cell, whoever wrote it."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(map(cell, row))} |"


def cell(text: str) -> str:
    """Return text that is one line of Markdown, and no markup."""
    return printable(" ".join(text.split())).replace("|", "\\|").replace("<", "&lt;")


def count(text: str) -> int:
    """Return a number of a command line: a whole number from 1 on.

    Raises:
        ArgumentTypeError: it is none; argparse then ends with exit code 2.
    """
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def number(doc: str | None, name: str, default: int) -> int:
    """Return the one number that a script takes, `name` in its `doc`; exit code 2 if wrong."""
    script = Path(sys.argv[0]).stem
    about = (doc or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{script}", description=about)
    parser.add_argument(name, nargs="?", type=count, default=default, help=f"{default} if not said")
    found: int = getattr(parser.parse_args(), name)
    return found

"""Two ways to do one thing, timed in turns, and what their ratio is asked to be."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import turns
from gpumap import stats
from gpumap.model import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable

    Timed = Callable[[], float]  # seconds of one call

PAIRS = 15
_WARM = 2
_REST = 0.1  # seconds between two sides: OpenBLAS' threads look for work for 2^26 cycles, 30 ms


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
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """Medians of both sides, and their ratio."""

    contest: Contest
    ours: Estimate
    theirs: Estimate
    ratio: Estimate

    @property
    def missed(self) -> bool:
        """Return whether the ratio's median is beyond its target."""
        least, most = self.contest.least, self.contest.most
        value = self.ratio.value
        return (least is not None and value < least) or (most is not None and value > most)


def held(contest: Contest, pairs: int = PAIRS) -> Result:
    """Time both sides in turns, `pairs` times."""
    ours, theirs = _rested(contest.ours), _rested(contest.theirs)
    for _ in range(_WARM):
        ours()
        theirs()
    found = [turns.both(ours, theirs, number) for number in range(pairs)]
    fast = [pair[::-1] for pair in found] if contest.most is None else found
    sides = (stats.location([pair[n] for pair in found]) for n in (0, 1))
    return Result(contest, *sides, turns.ratio(fast))


def sampled(job: Callable[[], object], finish: Callable[[], None], seconds: float) -> Timed:
    """Return what times one call of many, as many as take `seconds`; the last one is waited for."""
    for _ in range(_WARM):  # the first one compiles
        job()
        finish()
    start = time.perf_counter()
    job()
    finish()
    calls = max(round(seconds / (time.perf_counter() - start)), 1)

    def timed() -> float:
        start = time.perf_counter()
        for _ in range(calls):
            job()
        finish()
        return (time.perf_counter() - start) / calls

    return timed


def _rested(timed: Timed) -> Timed:
    def after_a_rest() -> float:
        time.sleep(_REST)
        return timed()

    return after_a_rest

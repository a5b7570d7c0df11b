"""One sample: as many iterations as it takes to time well, and when each device did its part."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from gpumap.bench.base import Round, Spans, Taken
from gpumap.model import SHORTEST

if TYPE_CHECKING:
    from gpumap.backends.base import Clock

OVERHEAD = 0.01  # the share of a sample that waiting for its end may take
_SYNC_LOOKS = 5
_DISTURBED = 10  # times as long as enough: more is no busy moment
_MOST_ROUNDS = 1 << 20
_WINDOW = 5  # samples on each side of the warm-up's comparison, where so many fit
_FEWEST = 3
_TESTED = 4  # samples on each side: one order of 70 has all later ones below all earlier ones
STEADY = 0.98  # warm when the last window is no faster than this times the one before


@dataclass(slots=True)
class Series:
    """The samples of one case, as they come."""

    round: Round
    iterations_per_sample: int = 1
    lasting: float = 0.0  # seconds of a sample, with the round before it that does not count
    checking: float = 0.0  # seconds of looking at its results
    warmup: int = 0
    capped: bool = False
    empty_sync: float = 0.0
    shared: bool = False  # its devices are the same hardware, and take it from each other
    taken: dict[int, Taken] = field(default_factory=dict)  # by block, in time order
    throttled: dict[int, str] = field(default_factory=dict)  # by block: what held a device back


def sample(series: Series, clock: Clock) -> Taken:
    """Take one sample. The marks of its first round tell when each device worked.

    The first, because all devices are idle before it: later ones run apart by what has delayed one.
    A sample of several rounds follows one that does not count: else what was measured before it
    would be in it, as cold caches, and more of it the fewer rounds there are.
    """
    work, rounds, spans = series.round, series.iterations_per_sample, Spans()
    if rounds > 1:
        work.queue()
        work.finish()
    work.renew()
    cpu, start = clock.cpu(), clock.now()
    work.queue(spans)
    if rounds > 1:
        work.queue(rounds=rounds - 1)
    queued = clock.now()
    work.finish()
    stop = clock.now()
    spent = clock.cpu()
    return Taken(
        (stop - start) / rounds,
        (queued - start) / rounds,
        None if cpu is None or spent is None else (spent - cpu) / rounds,
        spans.parts(),
        {name: s / rounds for name, s in work.phases().items()},
    )


def calibrate(
    series: Series, clock: Clock, shortest: float = SHORTEST, most: int = _MOST_ROUNDS
) -> None:
    """Raise the rounds of a sample, to `most`, until launch and timer are a small share of it.

    Args:
        series: what is to be sampled.
        clock: the clock that samples are taken on.
        shortest: seconds of a sample, at least.
        most: rounds of a sample, at most.
    """
    waits = _empty_syncs(series.round, clock)
    series.empty_sync = median(waits)  # reported, never subtracted
    enough = max(shortest, min(waits) / OVERHEAD)  # a busy moment lengthens the others
    while series.iterations_per_sample < most:
        seconds = _looked(series, clock)
        if enough <= seconds * series.iterations_per_sample < _DISTURBED * enough:
            seconds = min(seconds, _looked(series, clock))  # or a busy moment would decide
        if seconds * series.iterations_per_sample >= enough:
            return
        if seconds > 0.0:
            wanted = enough / seconds
            series.iterations_per_sample = int(max(wanted * 1.1, series.iterations_per_sample + 1))
        else:
            series.iterations_per_sample *= 2
        series.iterations_per_sample = min(series.iterations_per_sample, most)


def _looked(series: Series, clock: Clock) -> float:
    """Take a sample that does not count; return the seconds of a round, note those of all."""
    start = clock.now()
    seconds = sample(series, clock).seconds
    series.lasting = clock.now() - start
    series.warmup += 1
    return seconds


def warm_up(series: Series, clock: Clock, cap: float) -> None:
    """Take samples that do not count until they get no faster, or for `cap` seconds.

    Two windows of samples are compared, as long as fit into the time. At the cap the series is
    flagged if every sample of the last window is faster than every one before: by chance that is
    so in 1.4 % of runs at most.
    """
    start, window = clock.now(), _WINDOW
    taken: list[float] = []
    while not _steady(taken, window):
        passed = clock.now() - start
        if passed >= cap and series.warmup + len(taken) >= _FEWEST:
            before, after = taken[-2 * window : -window], taken[-window:]
            whole = _TESTED <= window <= len(before)
            series.capped = whole and max(after) < min(before)
            break
        if taken and passed > 0.0:
            window = min(max(int(cap * len(taken) / passed / 2), 1), _WINDOW)
        taken.append(sample(series, clock).seconds)
    series.warmup += len(taken)


def _steady(taken: list[float], window: int) -> bool:
    if len(taken) < 2 * window:
        return False
    return median(taken[-window:]) >= STEADY * median(taken[-2 * window : -window])


def _empty_syncs(work: Round, clock: Clock) -> list[float]:
    """Return what waiting costs when there is nothing to wait for, look by look."""
    looks = []
    for _ in range(_SYNC_LOOKS):
        start = clock.now()
        work.finish()
        looks.append(clock.now() - start)
    return looks

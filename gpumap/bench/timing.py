"""One sample: as many rounds as it takes to time well, and when each device did its part."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from gpumap.bench.base import Round

if TYPE_CHECKING:
    from gpumap.backends.base import Clock, Mark

SHORTEST = 1e-3  # seconds of a sample: a thousand times what a timer resolves
OVERHEAD = 0.01  # the share of a sample that waiting for its end may take
_SYNC_LOOKS = 5
_MOST_ROUNDS = 1 << 20
_WINDOW = 5  # samples on each side of the warm-up's comparison
_FEWEST = 3
STEADY = 0.98  # warm when the last window is no faster than this times the one before


@dataclass(slots=True)
class Series:
    """The samples of one case, as they come."""

    round: Round
    rounds_per_sample: int = 1
    warmup: int = 0
    capped: bool = False
    seconds: list[float] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    spans: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


def sample(series: Series, clock: Clock) -> tuple[float, dict[str, tuple[float, float]]]:
    """Take one sample; return seconds for one round, and each tracked device's span."""
    work, sessions = series.round, series.round.tracked
    start = clock.now()
    begun = {name: session.mark() for name, session in sessions.items()}
    for _ in range(series.rounds_per_sample):
        work.queue()
    ended = {name: session.mark() for name, session in sessions.items()}
    work.finish()
    seconds = (clock.now() - start) / series.rounds_per_sample
    spans = {name: _span(begun[name], ended[name]) for name in sessions}
    return seconds, {name: span for name, span in spans.items() if span is not None}


def calibrate(series: Series, clock: Clock) -> None:
    """Double the rounds of a sample until launch and timer are a small share of it."""
    enough = max(SHORTEST, _idle_wait(series.round, clock) / OVERHEAD)
    while series.rounds_per_sample < _MOST_ROUNDS:
        seconds, _ = sample(series, clock)
        series.warmup += 1
        if seconds * series.rounds_per_sample >= enough:
            return
        if seconds > 0.0:
            wanted = enough / seconds
            series.rounds_per_sample = int(max(wanted * 1.1, series.rounds_per_sample + 1))
            series.rounds_per_sample = min(series.rounds_per_sample, _MOST_ROUNDS)
        else:
            series.rounds_per_sample *= 2


def warm_up(series: Series, clock: Clock, cap: float) -> None:
    """Take samples that do not count until they get no faster; say so if the cap came first."""
    end = clock.now() + cap
    taken: list[float] = []
    while not _steady(taken):
        if clock.now() >= end and series.warmup + len(taken) >= _FEWEST:
            series.capped = True
            break
        taken.append(sample(series, clock)[0])
    series.warmup += len(taken)


def _steady(taken: list[float]) -> bool:
    if len(taken) < 2 * _WINDOW:
        return False
    return median(taken[-_WINDOW:]) >= STEADY * median(taken[-2 * _WINDOW : -_WINDOW])


def _idle_wait(work: Round, clock: Clock) -> float:
    """Return what waiting costs when there is nothing to wait for."""
    looks = []
    for _ in range(_SYNC_LOOKS):
        start = clock.now()
        work.finish()
        looks.append(clock.now() - start)
    return median(looks)


def _span(begun: Mark, ended: Mark) -> tuple[float, float] | None:
    """Return when a device worked, or None where its library cannot tell."""
    start, stop = begun.session.at(begun), ended.session.at(ended)
    return None if start is None or stop is None else (start, max(start, stop))

"""From which size on one thing is faster than another: what was seen, and what models predict.

Pure: from times at some sizes to ranges in which the device wins, and to the size from which on.
There can be more than one crossing; caches make them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from gpumap.fit import FITS, Model, fitted
from gpumap.model import Estimate

_FEWEST = 4  # sizes for a line to be about
_STEP = 1.05  # from size to size where models are asked for a crossing
CLOSE = 1.1  # two sizes so near that no crossing between them is worth a look


@dataclass(frozen=True, slots=True)
class Point:
    """What was seen at a size, in bytes: how many times as fast as the host the device is."""

    nbytes: int
    ratio: Estimate

    @property
    def wins(self) -> bool:
        """Return whether the device is faster, as far as one can tell."""
        return self.ratio.value > 1.0

    @property
    def clear(self) -> bool:
        """Return whether the interval leaves no doubt about who is faster."""
        return not self.ratio.low <= 1.0 <= self.ratio.high


def ranges(points: Sequence[Point]) -> tuple[tuple[int, int | None], ...]:
    """Return the ranges of sizes at which the device was seen to win, of points in order."""
    runs = [(wins, list(found)) for wins, found in groupby(points, key=lambda p: p.wins)]
    last = len(runs) - 1
    return tuple(
        (found[0].nbytes, None if number == last else found[-1].nbytes)
        for number, (wins, found) in enumerate(runs)
        if wins
    )


def gap(points: Sequence[Point]) -> tuple[int, int] | None:
    """Return two neighbouring sizes, far apart and with clear, different winners: look between."""
    for a, b in pairwise(points):
        if a.wins != b.wins and a.clear and b.clear and b.nbytes > CLOSE * a.nbytes:
            return a.nbytes, b.nbytes
    return None


def seen(points: Sequence[Point]) -> Estimate:
    """Return the size from which on the device wins for the first time; infinite for never.

    Its interval goes from the largest size below, at which the host clearly wins, to the smallest
    above at which the device clearly does. Where the device never wins, but the host does not
    clearly everywhere either, it may from there on.
    """
    first = next((n for n, point in enumerate(points) if point.wins), None)
    if first is None:
        return _never(points)
    below = [p.nbytes for p in points[:first] if p.clear]
    above = [p.nbytes for p in points[first:] if p.wins and p.clear]
    low = max(below, default=0) if first else 0
    high = above[0] if above else math.inf
    from_ = points[first].nbytes
    value = math.sqrt(points[first - 1].nbytes * from_) if first else float(from_)
    return Estimate(value, min(float(low), value), max(float(high), value), "B")


def _never(points: Sequence[Point]) -> Estimate:
    """Return infinity, and as its lower end the last size before the first that is in doubt."""
    doubt = next((n for n, point in enumerate(points) if not point.clear), None)
    if doubt is None:
        return Estimate(math.inf, math.inf, math.inf, "B")
    return Estimate(math.inf, float(points[doubt - 1].nbytes) if doubt else 0.0, math.inf, "B")


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds by size: a model where one fits, else straight lines between what was measured."""

    sizes: Sequence[float]
    times: Sequence[float]
    model: Model | None
    miss: float  # how far the model is off at most, as a share

    def seconds(self, size: float) -> float:
        """Return what a size takes; beyond the ends as the last two tell."""
        if self.model is not None:
            return self.model.seconds(size)
        n = min(max(bisect_left(self.sizes, size), 1), len(self.sizes) - 1)
        (a, b), (low, high) = self.sizes[n - 1 : n + 1], self.times[n - 1 : n + 1]
        return max(low + (high - low) * (size - a) / (b - a), 0.0)


def curve(sizes: Sequence[int], times: Sequence[float]) -> Curve | None:
    """Return what tells the time of any size, from that of some; None of too few."""
    import numpy as np

    if len(sizes) < _FEWEST or not all(0.0 < time < math.inf for time in times):
        return None
    model = fitted(sizes, np.asarray(times))
    fits = model.residual <= FITS
    return Curve(sizes, times, model if fits else None, model.residual if fits else 0.0)


def predicted(
    host: Callable[[float], float],
    device: Callable[[float], float],
    first: float,
    last: float,
    miss: float,
) -> Estimate:
    """Return the size from which on the device is predicted to win for the first time.

    Args:
        host: seconds by size.
        device: seconds by size.
        first: the size to begin with, in bytes.
        last: the size to end with.
        miss: how far both may be off, as a share: the interval is where that would move it.
    """
    sides = (1.0, 1.0 - miss, 1.0 + miss)
    found = [_crossing(lambda n, s=side: device(n) * s - host(n), first, last) for side in sides]  # type: ignore[misc]
    value, low, high = found
    return Estimate(value, min(low, value), max(high, value), "B")


def _crossing(difference: Callable[[float], float], first: float, last: float) -> float:
    """Return the first size at which a difference falls below nothing; infinite for none."""
    size = first
    if difference(size) < 0.0:
        return size
    while size < last:
        step = min(size * _STEP, last)
        if difference(step) < 0.0:
            return math.sqrt(size * step)
        size = step
    return math.inf

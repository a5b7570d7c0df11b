"""Break-even sizes, from measured ratios and from fitted models.

Pure: from times at some sizes to ranges in which the device wins, and to the size from which on.
There can be more than one crossing; caches make them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from gpumap.dtypes import np
from gpumap.fit import FITS, Model, fitted
from gpumap.model import Estimate

_FEWEST = 4  # sizes for a line to be about
_STEP = 1.05  # from size to size where models are asked for a crossing
CLOSE = 1.1  # two sizes so near that no crossing between them is worth a look
_HALVINGS = 40  # of the space between two sizes: to within a byte
_LEAST = 1e-300  # of a ratio, for its logarithm


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


def seen(points: Sequence[Point]) -> Estimate:
    """Return the size from which on the device wins for the first time; infinite for never.

    Between two sizes the logarithm of the ratio is a straight line over that of the size: the
    figure is where it crosses zero. The line is a weighted sum of two medians, so at each place it
    has an interval, by the method of variance estimates recovery as two runs have
    (`gpumap.judge.pairs`); the figure's interval holds every place around it whose interval has
    zero in it. A line that bends is in the interval too: its lower end is that of a line over
    the inverse of the size, its upper end that of one over the size. Of times that are a latency
    and a bandwidth the truth is between these two.

    Where the device never wins, but the host does not clearly everywhere either, it may from there
    on.
    """
    first = next((n for n, point in enumerate(points) if point.wins), None)
    if first is None:
        return _never(points)
    pairs = [*pairwise(points)]
    value = _root(*pairs[first - 1], 0) if first else float(points[0].nbytes)
    lost = (_root(a, b, 1) for a, b in reversed(pairs[:first]) if a.clear and not a.wins)
    won = (_root(a, b, -1) for a, b in pairs[max(first - 1, 0) :] if b.clear and b.wins)
    low = next(lost, 0.0)
    high = value if not first and points[0].clear else next(won, math.inf)
    return Estimate(value, min(low, value), max(high, value), "B")


def _root(a: Point, b: Point, side: int) -> float:
    """Return the size between two at which the logarithm of the ratio is zero, nearest to `b`.

    Args:
        a: the smaller size.
        b: the larger one.
        side: 0 for the logarithm itself, -1 and 1 for the lower and the upper end of its interval.
    """
    middles = [_log(point.ratio.value) for point in (a, b)]
    ends = [_log(p.ratio.low if side < 0 else p.ratio.high) for p in (a, b)]
    apart = [side * abs(end - middle) for end, middle in zip(ends, middles, strict=True)]

    def above(share: float) -> bool:
        line = (1.0 - share) * middles[0] + share * middles[1]
        return line + side * math.hypot((1.0 - share) * apart[0], share * apart[1]) > 0.0

    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if above(middle) else (middle, high)
    small, large = float(a.nbytes), float(b.nbytes)
    if side > 0:
        return 1.0 / ((1.0 - high) / small + high / large)
    return (1.0 - high) * small + high * large if side else small * (large / small) ** high


def _log(ratio: float) -> float:
    """Return the logarithm of a ratio or of an end of its interval; always finite."""
    return math.log(min(max(ratio, _LEAST), 1.0 / _LEAST))


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

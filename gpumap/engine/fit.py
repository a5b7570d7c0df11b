"""The cost of a copy as a model: a latency and a bandwidth, or two of each, or none.

T(n) = latency + n / bandwidth (Hockney, Parallel Computing 20(3), 1994); half of the bandwidth is
reached at latency x bandwidth bytes. Relative weights, because the large
sizes would decide alone otherwise and the latency would come out anyhow, also below nothing. Where
one line misses a size by more than 10 %, two are tried: two that part, as drivers move small and
large copies in different ways, and two that meet, where a cache ends.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from gpumap.dtypes import Array, np
from gpumap.engine import stats
from gpumap.engine.stats import enough
from gpumap.model import Estimate, Line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Fitting = Callable[[Array], tuple[Line, ...]]

GOOD = 0.10  # the largest relative residual of a line that fits
FITS = 0.15  # and of a model that is worth anything
_FEWEST = 3  # sizes of a regime: two would fit any line
_BENT = 5  # sizes, for two lines that meet: they have three parameters, and where they meet
_KNOTS = 5  # from one size to the next, where lines may meet: caches end between measured sizes
_RESAMPLES = 1000
_OF_MEDIAN = math.pi / 2  # its variance over that of a mean, of normal noise
_TINY = 1e-300


class Model(NamedTuple):
    """Lines in the order of sizes, how far they miss, and what fits such lines to other times."""

    lines: tuple[Line, ...]
    residual: float  # the largest, as a share of the measured time
    again: Fitting = tuple

    @property
    def fits(self) -> bool:
        """Return whether the model says anything at all."""
        return self.residual <= FITS

    def seconds(self, nbytes: float) -> float:
        """Return what a copy of this size takes."""
        line = [line for line in self.lines if line.start <= nbytes][-1]
        return line.seconds(nbytes)

    def figures(self) -> dict[str, float]:
        """Return latency, peak bandwidth, and the size that reaches a half of it."""
        slope = self.lines[-1].per_byte
        peak = 1.0 / slope if slope > 0.0 else math.inf
        return {
            "latency": self.lines[0].latency,
            "peak_bandwidth": peak,
            "n_half": self._reaching(peak / 2),
        }

    def _reaching(self, bandwidth: float) -> float:
        """Return the smallest size that is moved at this bandwidth."""
        if math.isinf(bandwidth):
            return math.inf
        ends = [*(line.start for line in self.lines[1:]), math.inf]
        for line, end in zip(self.lines, ends, strict=True):
            gain = 1.0 - bandwidth * line.per_byte
            size = max(bandwidth * line.latency / gain, line.start) if gain > 0.0 else math.inf
            if size < end:
                return size
        return math.inf


def fitted(sizes: Sequence[int], times: Array) -> Model:
    """Fit a model to median times.

    Args:
        sizes: bytes, ascending.
        times: seconds, shape (sizes,).
    """
    whole, count = _model(sizes, times, partial(_parted, sizes)), len(sizes)
    if whole.residual <= GOOD or count < _BENT:
        return whole
    inner = sizes[_FEWEST - 1 : count - 1]
    between = (np.geomspace(one, more, _KNOTS)[1:-1] for one, more in pairwise(inner))
    knots = sorted({*map(float, inner), *(float(at) for each in between for at in each)})
    splits = range(_FEWEST, count - _FEWEST + 1)
    ways = [partial(_parted, sizes, at=at) for at in splits]
    ways += [partial(_meeting, sizes, knot=at) for at in knots]
    best = min((_model(sizes, times, way) for way in ways), key=lambda model: model.residual)
    better = best.residual < whole.residual / len(best.lines)
    return best if better and best.residual <= FITS else whole


def intervals(
    sizes: Sequence[int], samples: Array, model: Model, confidence: float, seed: int
) -> dict[str, Estimate]:
    """Return the model's figures with their intervals; of too few blocks without any.

    Lack of fit is included: each resample moves every size up or down by what the model misses it
    beyond noise (Wu's wild bootstrap, Annals of Statistics 1986). Where the line bends, its noise
    alone tells too little.

    Args:
        sizes: bytes, ascending.
        samples: seconds, shape (blocks, sizes).
        model: what was fitted to the medians of `samples`.
        confidence: of each interval.
        seed: of the resampling.
    """
    values = model.figures()
    if not enough(len(samples), confidence):
        return {n: Estimate.without_interval(values[n], unit) for n, unit in _UNITS.items()}
    medians = np.median(samples, axis=0)
    missed = np.log([model.seconds(n) for n in sizes]) - np.log(medians)
    noise = (np.log(samples).std(axis=0) ** 2).mean() * _OF_MEDIAN / len(samples)
    missed *= math.sqrt(max(1.0 - noise / max((missed**2).mean(), _TINY), 0.0))
    rng = np.random.default_rng(seed)

    def figures(times: Array) -> list[float]:
        bent = times * np.exp(missed * rng.choice([-1.0, 1.0], len(missed)))
        return list(Model(model.again(bent), 0.0).figures().values())

    ends = resampled(samples, figures, list(values.values()), confidence, seed)
    both = zip(values.items(), ends, strict=True)
    return {name: Estimate(value, *end, _UNITS[name]) for (name, value), end in both}


_UNITS = {"latency": "s", "peak_bandwidth": "B/s", "n_half": "B"}


def resampled(
    samples: Array,
    figures: Callable[[Array], Sequence[float]],
    values: Sequence[float],
    confidence: float,
    seed: int,
) -> list[tuple[float, float]]:
    """Return intervals of figures that are computed from medians over blocks.

    Whole blocks are resampled: what is measured in one block correlates. The percentiles are
    widened like the interval of a median (`gpumap.engine.stats`), by the autocorrelation of the
    columns and by Student's quantile.

    Args:
        samples: positive, shape (blocks, columns), in time order.
        figures: from the medians of the columns to figures, none below zero.
        values: the figures of the medians of `samples`.
        confidence: of each interval.
        seed: of the resampling.
    """
    n = len(samples)
    picked = np.random.default_rng(seed).integers(0, n, (_RESAMPLES, n))
    drawn = np.array([figures(times) for times in np.median(samples[picked], axis=1)])
    tail = (1.0 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1.0 - tail], axis=0, method="nearest")
    more = median(stats.inflation(list(map(float, column))) for column in samples.T)
    factor = stats.widening(n, n / more, confidence)
    ends = zip(values, map(float, low), map(float, high), strict=True)
    return [_widened(*each, factor) for each in ends]


def _widened(value: float, low: float, high: float, factor: float) -> tuple[float, float]:
    """Return an interval of a figure that is never below zero, stretched about its value."""
    if 0.0 < low <= high < math.inf and 0.0 < value < math.inf:
        low, high = (value * (end / value) ** factor for end in (low, high))
    return min(low, value), max(high, value)


def _model(sizes: Sequence[int], times: Array, way: Fitting) -> Model:
    """Return the model that one way of fitting leads to."""
    model = Model(way(times), 0.0)
    misses = [abs(model.seconds(n) / t - 1.0) for n, t in zip(sizes, times, strict=True)]
    return Model(model.lines, float(max(misses)), way)


def _parted(sizes: Sequence[int], times: Array, at: int | None = None) -> tuple[Line, ...]:
    """Fit one line, or two that part at the size with the number `at`."""
    parts = [slice(0, at), slice(at, None)] if at is not None else [slice(None)]
    return tuple(
        _line(sizes[part], times[part], 0.0 if number == 0 else float(sizes[part][0]))
        for number, part in enumerate(parts)
    )


def _meeting(sizes: Sequence[int], times: Array, knot: float) -> tuple[Line, ...]:
    """Fit two lines that meet at the knot, in bytes; no part is below nothing.

    The second one's latency is where it would begin, and may be below nothing.
    """
    nbytes = np.asarray(sizes, float)
    within = np.ones(len(sizes)), np.minimum(nbytes, knot), np.maximum(nbytes - knot, 0.0)
    parts = np.column_stack(within) / times[:, None]
    kept = [0, 1, 2]
    found = np.linalg.lstsq(parts, np.ones(len(sizes)), rcond=None)[0]
    while found.min() < 0.0:
        kept.pop(int(found.argmin()))
        found = np.linalg.lstsq(parts[:, kept], np.ones(len(sizes)), rcond=None)[0]
    cost = dict.fromkeys((0, 1, 2), 0.0) | dict(zip(kept, map(float, found), strict=True))
    reached = cost[0] + cost[1] * knot
    return Line(cost[0], cost[1], 0.0), Line(reached - cost[2] * knot, cost[2], knot)


def _line(sizes: Sequence[int], times: Array, start: float) -> Line:
    """Return the line with the least squares of relative residuals, neither part below nothing."""
    u, v = 1.0 / times, np.asarray(sizes, float) / times
    uu, vv, uv, su, sv = (float(x) for x in (u @ u, v @ v, u @ v, u.sum(), v.sum()))
    determinant = uu * vv - uv * uv
    latency = (su * vv - sv * uv) / determinant if determinant > 0.0 else -1.0
    per_byte = (uu * sv - uv * su) / determinant if determinant > 0.0 else -1.0
    if latency < 0.0:
        return Line(0.0, sv / vv, start)
    if per_byte < 0.0:
        return Line(su / uu, 0.0, start)
    return Line(latency, per_byte, start)


# --- break-even sizes, from measured ratios
#
# From times at some sizes to ranges in which the device wins, and to the size from which on. There
# can be more than one crossing; caches make them.

_HALVINGS = 40  # of the space between two sizes: to within a byte
_LEAST = 1e-300  # of a ratio, for its logarithm


class Point(NamedTuple):
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


def break_even(points: Sequence[Point]) -> Estimate:
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

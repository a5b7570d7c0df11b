"""The statistics of a sample: exact rank intervals, widened by the measured autocorrelation.

Sources: Hoefler & Belli, SC'15 (doi 10.1145/2807591.2807644) for rank intervals of the median;
the lag-1 correction for small samples after Marriott & Pope, Biometrika 1954; what correlates over
longer times by pairwise blocking after Flyvbjerg & Petersen, J. Chem. Phys. 1989
(doi 10.1063/1.457480). How often the intervals hold the truth is in docs/method.md.
"""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist, fmean, median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROUNDING = 1e-9  # of a value: smaller differences are a float clock's, not the work's
_FEWEST_HEAPED = 20  # values below which two modes cannot be distinguished from chance
_LEAST_GAP = 0.25  # of the middle 80 %: a smaller gap between two modes changes no conclusion
_STRAY = 40  # one value of so many may lie between two modes
_LAG_QUANTILE = 2.33  # of the standard normal: 1 % one-sided
_LAG_CAP = 0.99  # beyond it the widening has no meaning
_MOST_INFLATION = (1 + _LAG_CAP) / (1 - _LAG_CAP)
_FEWEST_GROUPS = 20  # of fewer, a variance is known too badly to widen by it
_LEAST_FREEDOM = 2.0  # below it Student's quantile runs away, and the row is unstable anyway


class Location(NamedTuple):
    """The median of a sample with its interval."""

    value: float
    low: float
    high: float
    n: int
    autocorrelation: float
    effective_n: float
    counted: float  # independent values that the interval's width is taken from


def location(
    values: Sequence[float], confidence: float = 0.95, *, positive: bool = False, slow: bool = True
) -> Location:
    """Return the median of values in time order, with an interval that autocorrelation widens.

    By that between neighbours and over longer times; or, if not `slow`, by the first alone: then a
    slow change counts as part of the value, not as noise. The effective number says in
    both cases what the values are worth with their slow noise.

    Too few values for the confidence (under 6 at 95 %) give no interval: from -inf to inf. Positive
    values, such as times, are widened by factors, as their logarithms would be: they never come to
    zero. No interval goes further beyond the values than they lie apart: so few effective ones tell
    nothing of what was never seen.

    Raises:
        ValueError: there are no values.
    """
    n = len(values)
    if n == 0:
        raise ValueError("no values")
    ordered = sorted(values)
    middle = median(ordered)
    lag, more = _correlation(tuple(values))
    worth = n / more
    counted = worth if slow else n / _of_lag(lag)
    if not enough(n, confidence):
        return Location(middle, -math.inf, math.inf, n, lag, max(worth, 1.0), counted)
    k = _rank(n, confidence)
    low, high = ordered[k - 1], ordered[n - k]
    factor = math.sqrt(n / counted)
    factor *= _student(counted - 1, confidence) / _student(n - 1, confidence)
    if positive and low > 0.0:
        apart = ordered[-1] / ordered[0] if ordered[0] > 0.0 else math.inf
        low = max(_stretched(middle, low, factor), ordered[0] / apart)
        high = min(_stretched(middle, high, factor), ordered[-1] * apart)
    else:
        apart = ordered[-1] - ordered[0]
        low = max(middle - factor * (middle - low), ordered[0] - apart)
        high = min(middle + factor * (high - middle), ordered[-1] + apart)
    return Location(middle, low, high, n, lag, max(worth, 1.0), counted)


def mean(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float]:
    """Return the mean with Student's interval, for as many values as the correlated ones stand for.

    For what adds up, or is mostly 0: the median of a rare thing is that it does not happen. Too few
    values for the confidence give no interval: from -inf to inf.
    """
    n, middle = len(values), fmean(values)
    if not enough(n, confidence):
        return middle, -math.inf, math.inf
    effective = max(n / inflation(values), 2.0)
    deviation = math.sqrt(_squares(values) / (n - 1))
    half = _student(effective - 1, confidence) * deviation / math.sqrt(effective)
    return middle, middle - half, middle + half


def widening(n: int, worth: float, confidence: float = 0.95) -> float:
    """Return by how much an interval of n resampled values is too narrow for what they are worth.

    Resampling n values misses sqrt(n / (n - 1)) of their spread, and Student's quantile.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return math.sqrt(n / max(n - 1, 1) * n / worth) * _student(worth - 1, confidence) / z


def enough(n: int, confidence: float = 0.95) -> bool:
    """Return whether n values can give an interval of this confidence: six can, at 95 %."""
    return 2 * 0.5**n <= 1 - confidence


def inflation(values: Sequence[float]) -> float:
    """Return how many times more values it takes than of independent ones; at least 1.

    That is (1 + r) / (1 - r) with the lag-1 autocorrelation r. Slow noise below fast noise hides
    from r: so neighbours are averaged, and their averages again, while there are 20 of them; the
    largest inflation that one of these scales shows is returned.
    """
    means, size = _ranks(values), 1
    single = _squares(means) / len(means)
    found = [_of_lag(lag1(values))]
    while len(means) >= 2 * _FEWEST_GROUPS:
        means, size = [fmean(pair) for pair in zip(means[::2], means[1::2], strict=False)], 2 * size
        grown = size * _squares(means) / len(means) / single if single > 0.0 else 1.0
        found.append(grown * _of_lag(_lag1(means)))
    return min(max(found), _MOST_INFLATION)


def lag1(values: Sequence[float]) -> float:
    """Return the lag-1 autocorrelation of the ranks, corrected for the sample's size.

    In [0, 0.99]. Of the ranks, as the median is one: a few spikes would drown that of the values.
    """
    return _lag1(_ranks(values))


def correlated(values: Sequence[float]) -> bool:
    """Return whether neighbours are alike beyond chance: a one-sided test of lag 1 at 1 %.

    The lag-1 correlation of n independent ranks is normal with mean -1/n and variance 1/n to
    first order (Wald & Wolfowitz, Ann. Math. Stat. 1943).
    """
    n = len(values)
    return _raw_lag1(_ranks(values)) + 1 / n > _LAG_QUANTILE / math.sqrt(n)


def bimodal(values: Sequence[float], rate: float = 0.001) -> bool:
    """Return whether the values have two modes: a gap in their middle that chance does not leave.

    The largest gap among the middle 60 % is compared with the middle 80 %. A fortieth of the values
    may lie in it: of many, the tails of both modes do. Of n uniform values the gaps are about
    independent and exponential (Pyke, J. R. Stat. Soc. B 1965), and a single mode that is higher
    in its middle leaves smaller ones: so `rate` bounds the false alarms of such samples.
    """
    ordered = sorted(values)
    n = len(ordered)
    if n < _FEWEST_HEAPED:
        return False
    middle = ordered[n // 5 : n - n // 5]
    low, high = ordered[n // 10], ordered[n - 1 - n // 10]
    if _equal(low, high):
        return False
    step = max(n // _STRAY, 1)
    widest = max(b - a for a, b in zip(middle, middle[step:], strict=False))
    chance = -math.log(-math.expm1(math.log1p(-rate) / len(middle))) / (0.8 * n)
    return widest > (high - low) * max(chance, _LEAST_GAP)


@lru_cache(maxsize=512)
def _correlation(values: tuple[float, ...]) -> tuple[float, float]:
    """Return lag 1 and the inflation: the dear part, and the same at every confidence."""
    return lag1(values), inflation(values)


def _equal(low: float, high: float) -> bool:
    """Return whether two values are one, but for rounding."""
    return high - low <= _ROUNDING * max(abs(low), abs(high))


def _raw_lag1(values: Sequence[float]) -> float:
    mean, squares = fmean(values), _squares(values)
    if squares <= 0.0:
        return 0.0
    return math.fsum((a - mean) * (b - mean) for a, b in pairwise(values)) / squares


def _lag1(values: Sequence[float]) -> float:
    n, raw = len(values), _raw_lag1(values)
    corrected = raw + (1 + 4 * raw) / n if _squares(values) > 0.0 else 0.0
    return min(max(corrected, 0.0), _LAG_CAP)


def _of_lag(lag: float) -> float:
    return (1 + lag) / (1 - lag)


def _squares(values: Sequence[float]) -> float:
    """Return the sum of squared deviations; 0 for equal values, whose mean may miss them."""
    if min(values) == max(values):
        return 0.0
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values)


def _ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value; equal ones share the middle of theirs.

    So do all if they differ by rounding alone: the order of such values tells nothing.
    """
    ordered = sorted(values)
    if _equal(ordered[0], ordered[-1]):
        return [(1 + len(ordered)) / 2] * len(ordered)
    first: dict[float, int] = {}
    last: dict[float, int] = {}
    for rank, value in enumerate(ordered, 1):
        first.setdefault(value, rank)
        last[value] = rank
    return [(first[value] + last[value]) / 2 for value in values]


def _student(freedom: float, confidence: float) -> float:
    """Return Student's two-sided quantile, after Abramowitz & Stegun 26.7.5.

    An interval from n correlated values has fewer degrees of freedom, and knows its own width as
    badly as they.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    v = max(freedom, _LEAST_FREEDOM)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / v + second / v**2 + third / v**3


def _stretched(middle: float, edge: float, factor: float) -> float:
    """Return an edge moved away from the middle on the scale of logarithms; always finite."""
    try:
        return min(middle * math.pow(edge / middle, factor), sys.float_info.max)
    except OverflowError:
        return sys.float_info.max


def _rank(n: int, confidence: float) -> int:
    """Return the largest k with 2 P(Bin(n, 1/2) < k) <= 1 - confidence; at least 1."""
    tail, k = 0.0, 0
    term = math.ldexp(1.0, -n) if n < 1000 else 0.0  # noqa: PLR2004 - 2^-n is 0 as a float beyond
    if term == 0.0:  # the normal approximation
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        return max(math.floor((n - z * math.sqrt(n)) / 2), 1)
    while 2 * (tail + term) <= 1 - confidence:
        tail += term
        k += 1
        term *= (n - k + 1) / k
    return max(k, 1)

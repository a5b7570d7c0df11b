"""The statistics of a sample: exact rank intervals, widened by the measured autocorrelation.

Sources: Hoefler & Belli, SC'15 (doi 10.1145/2807591.2807644) for rank intervals of the median;
the lag-1 correction for small samples after Marriott & Pope, Biometrika 1954.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAD_TO_SIGMA = 1.4826  # of a normal distribution
_OUTLIER = 10.0  # robust standard deviations from the median
_LAG_CAP = 0.99  # beyond it the widening has no meaning


@dataclass(frozen=True, slots=True)
class Location:
    """The median of a sample with its interval."""

    value: float
    low: float
    high: float
    n: int
    autocorrelation: float
    effective_n: float


def location(
    values: Sequence[float], confidence: float = 0.95, *, positive: bool = False
) -> Location:
    """Return the median of values in time order, with an interval that autocorrelation widens.

    Too few values for the confidence (under 6 at 95 %) give the whole range. Positive values, such
    as times, are widened by factors, as their logarithms would be: they never come to zero.

    Raises:
        ValueError: there are no values.
    """
    n = len(values)
    if n == 0:
        raise ValueError("no values")
    ordered = sorted(values)
    middle = median(ordered)
    k = _rank(n, confidence)
    low, high = ordered[k - 1], ordered[n - k]
    lag = lag1(values)
    factor = math.sqrt((1 + lag) / (1 - lag))
    if positive and low > 0.0:
        low, high = middle * (low / middle) ** factor, middle * (high / middle) ** factor
    else:
        low, high = middle - factor * (middle - low), middle + factor * (high - middle)
    return Location(middle, low, high, n, lag, n / factor**2)


def enough(n: int, confidence: float = 0.95) -> bool:
    """Return whether n values can give an interval of this confidence: six can, at 95 %."""
    return 2 * 0.5**n <= 1 - confidence


def lag1(values: Sequence[float]) -> float:
    """Return the lag-1 autocorrelation, corrected for the sample's size; in [0, 0.99]."""
    n = len(values)
    mean = math.fsum(values) / n
    centred = [value - mean for value in values]
    variance = math.fsum(c * c for c in centred)
    if variance <= 0.0 or min(values) == max(values):  # rounding alone: the mean may miss them
        return 0.0
    raw = math.fsum(a * b for a, b in pairwise(centred)) / variance
    return min(max(raw + (1 + 4 * raw) / n, 0.0), _LAG_CAP)


def outliers(values: Sequence[float]) -> list[tuple[int, float]]:
    """Return the place of each outlier, and its distance from the median in robust deviations."""
    middle = median(values)
    scale = _MAD_TO_SIGMA * median([abs(value - middle) for value in values])
    if scale <= 0.0:
        return []
    far = ((n, abs(value - middle) / scale) for n, value in enumerate(values))
    return [(n, distance) for n, distance in far if distance > _OUTLIER]


def _rank(n: int, confidence: float) -> int:
    """Return the largest k with 2 P(Bin(n, 1/2) < k) <= 1 - confidence; at least 1."""
    tail, k = 0.0, 0
    term = math.ldexp(1.0, -n) if n < 1000 else 0.0  # noqa: PLR2004 - 2^-n is 0 as a float beyond
    if term == 0.0:
        return _rank_of_many(n, confidence)
    while 2 * (tail + term) <= 1 - confidence:
        tail += term
        k += 1
        term *= (n - k + 1) / k
    return max(k, 1)


def _rank_of_many(n: int, confidence: float) -> int:
    """Return the same by the normal approximation."""
    from statistics import NormalDist

    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return max(math.floor((n - z * math.sqrt(n)) / 2), 1)

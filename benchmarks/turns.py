"""Two ways to do one thing, in turns: what others on the machine do meets both alike."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from gpumap import stats
from gpumap.model import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    T = TypeVar("T")


def both(first: Callable[[], T], second: Callable[[], T], number: int) -> tuple[T, T]:
    """Do both, every other time in reverse, and return what they gave: the first one's first."""
    if number % 2:
        late = second()
        return first(), late
    return first(), second()


def ratio(pairs: Iterable[tuple[float, float]]) -> Estimate:
    """Return the median of first over second with its 95 % interval, taken of the logarithms."""
    found = stats.location([math.log(first / second) for first, second in pairs])
    return Estimate(*(math.exp(x) for x in (found.value, found.low, found.high)), "1")

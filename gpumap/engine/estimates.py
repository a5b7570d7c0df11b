"""Metrics from samples: medians with their intervals, and ratios taken block by block."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpumap.engine import stats
from gpumap.model import Estimate, separate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumap.model import Case, Samples


def located(
    values: Sequence[float],
    unit: str,
    confidence: float,
    *,
    positive: bool = True,
    slow: bool = True,
) -> Estimate:
    """Return the median of values; of too few without an interval (`stats.location`)."""
    found = stats.location(values, confidence, positive=positive, slow=slow)
    return Estimate(found.value, found.low, found.high, unit)


def time_of(samples: Samples, confidence: float) -> Estimate:
    """Return the median time of one iteration, in seconds; its interval is for this run."""
    return located(samples.seconds, "s", confidence, slow=False)


def time_and_rate(case: Case, samples: Samples, confidence: float) -> dict[str, Estimate]:
    """Return the time of one iteration, and the rate of its operations that follows from it."""
    time = time_of(samples, confidence)
    return {"time": time, "rate": per_time(case.work.operations, time, "FLOP/s")}


def per_time(amount: float, time: Estimate, unit: str) -> Estimate:
    """Return the rate of an amount of work, derived from the median time."""
    if not time.has_interval:
        return Estimate.without_interval(_divided(amount, time.value), unit)
    value, low, high = (_divided(amount, t) for t in (time.value, time.high, time.low))
    return Estimate(value, low, high, unit)


def by_block(samples: Samples) -> dict[int, float]:
    """Return the time of one iteration for each block."""
    return dict(zip(samples.blocks, samples.seconds, strict=True))


def ratio(
    over: Mapping[int, float], under: Mapping[int, float], confidence: float
) -> Estimate | None:
    """Return the median of over/under with its interval, one number for each shared block.

    Where each was disturbed in blocks in which the other was not, it is the ratio of two medians.
    """
    if separate(over.keys(), under.keys()):
        sides = (located(list(times.values()), "s", confidence) for times in (over, under))
        return quotient(*sides)
    each = ratios(over, under)
    return located([*each.values()], "1", confidence) if each else None


def gains(
    others: Mapping[str, Mapping[int, float]], mine: Mapping[int, float], confidence: float
) -> dict[str, Estimate]:
    """Return how many times as long others take, by name; of those that can be compared."""
    found = {name: ratio(times, mine, confidence) for name, times in others.items()}
    return {name: gain for name, gain in found.items() if gain is not None}


def quotient(over: Estimate, under: Estimate) -> Estimate | None:
    """Return the ratio of two metrics of separate samples (MOVER, of their logarithms)."""
    if not (over.value > 0.0 < under.value):
        return None
    value = over.value / under.value
    if not (over.has_interval and under.has_interval and over.low > 0.0 < under.low):
        return Estimate.without_interval(value, "1")
    down = math.hypot(math.log(over.value / over.low), math.log(under.high / under.value))
    up = math.hypot(math.log(over.high / over.value), math.log(under.value / under.low))
    return Estimate(value, value * math.exp(-down), value * math.exp(up), "1")


def ratios(over: Mapping[int, float], under: Mapping[int, float]) -> dict[int, float]:
    """Return over/under for each shared block, in order; none where a time is no time at all."""
    shared = [block for block in over if block in under]
    known = all(over[block] > 0.0 < under[block] for block in shared)
    return {block: over[block] / under[block] for block in shared} if known else {}


def difference(
    longer: Mapping[int, float], shorter: Mapping[int, float], confidence: float
) -> Estimate | None:
    """Return the median of longer - shorter in seconds, one number for each shared block."""
    each = [longer[block] - shorter[block] for block in longer if block in shorter]
    return located(each, "s", confidence, positive=False) if each else None


def overlap(samples: Samples, confidence: float) -> Estimate | None:
    """Return how long all devices worked at once, as a share of what the least busy one worked."""
    shares = [_overlap(spans) for spans in zip(*samples.intervals.values(), strict=True)]
    if not shares:
        return None
    found = located(shares, "1", confidence, positive=False)
    if not found.has_interval:
        return found
    return Estimate(found.value, max(found.low, 0.0), min(found.high, 1.0), found.unit)


def _overlap(spans: Sequence[tuple[float, float]]) -> float:
    common = min(stop for _, stop in spans) - max(start for start, _ in spans)
    shortest = min(stop - start for start, stop in spans)
    return min(max(common, 0.0) / shortest, 1.0) if shortest > 0.0 else 0.0


def _divided(amount: float, seconds: float) -> float:
    return amount / seconds if seconds > 0.0 else math.inf

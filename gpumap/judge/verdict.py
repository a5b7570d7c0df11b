"""Is new faster, slower or the same as base? By interval, against a threshold.

What is judged is one ratio for each block, new over base, of times: above one is slower. With d
the threshold and [low, high] the interval of the median of the logarithms,

    regression      low > log(1 + d)
    improvement     high < -log(1 + d)
    same            the interval lies within -log(1 + d) and log(1 + d)
    inconclusive    anything else

and whatever is no number, or too little for an interval, is inconclusive: it is never the same.

Two runs share no blocks, so their ratio is that of two medians, and its interval that of the
difference of the logarithms by the method of variance estimates recovery (Zou & Donner, Statistics
in Medicine 2008, doi 10.1002/sim.3095): the distances of both ends from their medians, squared and
added. Each end keeps its own length, so a skewed interval stays skewed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gpumap import stats
from gpumap.model import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

Word = Literal["regression", "improvement", "same", "inconclusive"]


def judge(ratios: Sequence[float], threshold: float, confidence: float = 0.95) -> Word:
    """Return what the ratios of times, new over base, say against a threshold."""
    found = located(ratios, confidence)
    return "inconclusive" if found is None else word(found.low, found.high, threshold)


def word(low: float, high: float, threshold: float) -> Word:
    """Return what an interval of the logarithm of new over base says; NaN compares with nothing."""
    limit = math.log(1.0 + threshold) if 0.0 <= threshold < math.inf else math.nan
    if not low <= high:
        return "inconclusive"
    if low > limit:
        return "regression"
    if high < -limit:
        return "improvement"
    return "same" if -limit <= low and high <= limit else "inconclusive"


def located(ratios: Sequence[float], confidence: float = 0.95) -> stats.Location | None:
    """Return the median of the logarithms with its interval; None where there is none.

    Blocks that follow each other are alike: six that are worth two independent ones are two.
    """
    if not ratios or not all(0.0 < ratio < math.inf for ratio in ratios):
        return None
    found = stats.location([math.log(ratio) for ratio in ratios], confidence)
    return found if stats.enough(math.floor(found.effective_n), confidence) else None


@dataclass(frozen=True, slots=True)
class Change:
    """The logarithm of new over base, with its interval; zero is no change."""

    value: float
    low: float
    high: float

    def __neg__(self) -> Change:
        """Return the change the other way: of what is better the higher it is."""
        return Change(-self.value, -self.high, -self.low)


def change(base: stats.Location, new: stats.Location) -> Change:
    """Return the difference of two medians of logarithms, each with an interval of its own run."""
    value = new.value - base.value
    low = math.hypot(new.value - new.low, base.high - base.value)
    high = math.hypot(new.high - new.value, base.value - base.low)
    return Change(value, value - low, value + high)


def verdict(
    ratios: Sequence[float],
    threshold: float,
    *,
    rule: str,
    id_: str,
    against: str,
    base: float | None = None,
    confidence: float = 0.95,
) -> Verdict:
    """Return the verdict on the times of the row `id_` against those of the row `against`."""
    found = located(ratios, confidence)
    return Verdict(
        rule=rule,
        text=f"{id_}.time is within {share(threshold)} of {against}.time",
        id=id_,
        metric="time",
        verdict=judge(ratios, threshold, confidence),
        value=math.exp(found.value) if found else None,
        low=math.exp(found.low) if found else None,
        high=math.exp(found.high) if found else None,
        base=base,
        threshold=threshold,
    )


def effective(asked: float, floor: float | None) -> tuple[float, str | None]:
    """Return the threshold that counts, and what is to be said of it.

    It is never below the noise floor that `gpumap selftest` found on this machine: less than that
    nobody can tell here.
    """
    if floor is None:
        stays = f"the threshold is {share(asked)}"
        return asked, f"{stays}: no noise floor is stored here; `gpumap selftest` finds one"
    if not asked >= floor:
        said = f"the threshold is {share(floor)}, this machine's noise floor, not {share(asked)}"
        return floor, said
    return asked, None


def share(value: float) -> str:
    """Return a share as people write it: ``1.25%``."""
    return f"{value:.3%}".rstrip("%").rstrip("0").rstrip(".") + "%"

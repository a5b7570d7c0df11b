"""Is new slower than base by more than d? A pass for each metric, alarms over all of them.

With d the threshold and x the logarithm of new over base, turned so that more is worse,

    pass            the one-sided upper end of x is below log(1 + d)
    improvement     a pass whose upper end is below -log(1 + d)
    regression      the one-sided lower end of x is above log(1 + d), by Holm's procedure
    inconclusive    anything else: too few samples, or too wide an interval

"Nothing became slower" is said of every metric at once, an intersection-union test: each keeps its
own 5 % (Berger, Technometrics 1982, doi 10.2307/1267823). "Something became slower" is said of any:
Holm's procedure holds the probability of one false alarm among all at 5 % (Scandinavian Journal of
Statistics 1979, jstor 4615733). A run that stops early has been looked at up to three times: of the
5 %, each early look spends 0.5 and the last one 4 (Haybittle, Br. J. Radiol. 1971; Peto et al.,
Br. J. Cancer 1976). A group that is measured alone is looked at alone: an alarm at an early look is
corrected for the metrics of all groups, so that together they spend no more.

Two runs share no blocks, so their ratio is that of two medians, and its interval that of the
difference of the logarithms by the method of variance estimates recovery (Zou & Donner, Statistics
in Medicine 2008, doi 10.1002/sim.3095): the distances of both ends from their medians, squared and
added. Each end keeps its own length, so a skewed interval stays skewed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gpumap import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

Word = Literal["pass", "improvement", "regression", "inconclusive"]

LOOKS = 3  # at a run that may stop early
EARLY = 0.005  # one-sided error of each look but the last
LAST = 0.05 - EARLY * (LOOKS - 1)


@dataclass(frozen=True, slots=True)
class Change:
    """The logarithm of new over base, with its interval; zero is no change."""

    value: float
    low: float
    high: float

    def __neg__(self) -> Change:
        """Return the change the other way: of what is better the higher it is."""
        return Change(-self.value, -self.high, -self.low)


# The change of one metric, more is worse, with an interval of this one-sided error at either end;
# None where there are too few samples for it.
Changing = Callable[[float], Change | None]


def passing(found: Change | None, threshold: float) -> Word:
    """Return what a change is called that is no alarm; NaN compares with nothing."""
    limit = _limit(threshold)
    if found is None or not found.low <= found.high < limit:
        return "inconclusive"
    return "improvement" if found.high < -limit else "pass"


def alarms(
    changes: Sequence[Changing], threshold: float, level: float = LAST, others: int = 0
) -> set[int]:
    """Return the numbers of the changes that are alarms, by Holm's procedure.

    Args:
        changes: those that are known so far.
        threshold: the change that counts, as a share.
        level: one-sided error of any false alarm among all.
        others: changes that belong to the same family and are judged elsewhere, or later: none of
            them is taken for an alarm here, so that the level holds for all of them together.
    """
    limit, alarmed = _limit(threshold), set[int]()
    while rest := [n for n in range(len(changes)) if n not in alarmed]:
        found = {n: changes[n](level / (len(rest) + others)) for n in rest}
        more = {n for n, change in found.items() if change is not None and change.low > limit}
        if not more:
            break
        alarmed |= more
    return alarmed


def located(values: Sequence[float], level: float = 0.025) -> stats.Location | None:
    """Return the median of the logarithms; None where there are too few samples for an interval.

    Args:
        values: positive, in time order.
        level: one-sided error at either end.
    """
    if not values or not all(0.0 < value < math.inf for value in values):
        return None
    confidence = 1.0 - 2.0 * level
    found = stats.location([math.log(value) for value in values], confidence)
    return found if stats.enough(found.n) and stats.enough(found.n, confidence) else None


def change(base: stats.Location | None, new: stats.Location | None) -> Change | None:
    """Return the difference of two medians of logarithms, each with an interval of its own run."""
    if base is None or new is None:
        return None
    value = new.value - base.value
    low = math.hypot(new.value - new.low, base.high - base.value)
    high = math.hypot(new.high - new.value, base.value - base.low)
    return Change(value, value - low, value + high)


def share(value: float) -> str:
    """Return a share as people write it: ``1.25%``."""
    return f"{value:.3%}".rstrip("%").rstrip("0").rstrip(".") + "%"


def _limit(threshold: float) -> float:
    return math.log(1.0 + threshold) if 0.0 <= threshold < math.inf else math.nan

"""Is new faster, slower or the same as base? By interval, against a threshold.

What is judged is one ratio for each block, new over base, of times: above one is slower. With d
the threshold and [low, high] the interval of the median of the logarithms,

    regression      low > log(1 + d)
    improvement     high < -log(1 + d)
    same            the interval lies within -log(1 + d) and log(1 + d)
    inconclusive    anything else

and whatever is no number, or too little for an interval, is inconclusive: it is never the same.
"""

from __future__ import annotations

import math
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
        text=f"{id_}.time is within {_share(threshold)} of {against}.time",
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
        given = f"the threshold is {_share(asked)}, as given"
        return asked, f"{given}: no noise floor is stored here; `gpumap selftest` finds one"
    if not asked >= floor:
        said = f"the threshold is {_share(floor)}, this machine's noise floor, not {_share(asked)}"
        return floor, said
    return asked, None


def _share(value: float) -> str:
    return f"{value:.3%}".rstrip("%").rstrip("0").rstrip(".") + "%"

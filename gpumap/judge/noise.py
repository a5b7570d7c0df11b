"""What noise alone does to verdicts: the same work is measured as A and as B, and then judged.

The blocks are split into consecutive runs, each as long as a comparison would be, and each run is
judged as one. All of them should be called the same. The noise floor is the smallest threshold at
which 95 % of the runs are: what reaches beyond it is the larger of the distances at which a run's
interval ends from one, the size of its ratio and half its width. No smaller change can be told from
none on this machine (docs/method.md).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpumap.judge.verdict import judge, located
from gpumap.model import Alarms, Noise

if TYPE_CHECKING:
    from collections.abc import Sequence

THRESHOLDS = (0.01, 0.02, 0.03, 0.05)
RUNS = 12  # of some two seconds each, in a minute for two devices
SHORTEST = 20  # blocks of a run: a comparison looks no earlier
FEWEST = 6  # runs; the worst of fewer says little of what one in twenty does
_SHARE = 0.95  # of the runs, that must be called the same at the noise floor


def split(ratios: Sequence[float], runs: int = RUNS) -> list[Sequence[float]]:
    """Return consecutive runs of equal length, at most `runs`; a rest of blocks belongs to none."""
    length = max(len(ratios) // runs, SHORTEST)
    return [ratios[n : n + length] for n in range(0, len(ratios) - length + 1, length)][:runs]


def alarms(runs: Sequence[Sequence[float]], threshold: float, confidence: float = 0.95) -> Alarms:
    """Return what each run was called at a threshold."""
    words = [judge(run, threshold, confidence) for run in runs]
    return Alarms(
        threshold,
        words.count("regression"),
        words.count("improvement"),
        words.count("same"),
        words.count("inconclusive"),
    )


def floor(runs: Sequence[Sequence[float]], confidence: float = 0.95) -> float | None:
    """Return the smallest threshold at which 95 % of the runs are the same; None if none is."""
    if len(runs) < FEWEST:
        return None
    reach = sorted(_reach(run, confidence) for run in runs)
    found = math.expm1(reach[math.ceil(_SHARE * len(reach)) - 1])
    return found if math.isfinite(found) else None


def noise(
    ratios: Sequence[float], *, id_: str, device: str, name: str, confidence: float = 0.95
) -> Noise:
    """Return what the ratios of B over A, one for each block, tell of a device."""
    runs = split(ratios)
    return Noise(
        id=id_,
        device=device,
        name=name,
        runs=len(runs),
        run_blocks=len(runs[0]) if runs else 0,
        floor=floor(runs, confidence),
        alarms=tuple(alarms(runs, threshold, confidence) for threshold in THRESHOLDS),
    )


def _reach(run: Sequence[float], confidence: float) -> float:
    """Return how far from one a run's interval ends, as a logarithm."""
    found = located(run, confidence)
    return math.inf if found is None else max(abs(found.low), abs(found.high))

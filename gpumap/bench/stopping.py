"""When a group of cases has been measured well enough, and which rows are unstable.

A group is looked at three times, at fixed shares of its time: each further look is a further chance
to stop by luck. At an early look it stops if every verdict that is requested of it is decided at
the level of that look (`gpumap.judge.verdict`); without any, if each row is known well enough: half
of its interval within the precision, and samples worth at least twenty independent ones. Where
cases are compared, the ratios decide; where a case is alone, its time does: then a slow change of
the machine is part of what this run observed, as it is in no ratio.

`unstable` is raised by tests at a stated rate: a row of independent noise has it in 2 % of runs at
most. The procedure's coverage is in docs/method.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap import stats
from gpumap.bench.figures import by_block, ratios
from gpumap.bench.registry import is_control

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.bench.base import Settings
    from gpumap.model import Group, Samples

EARLY_LOOKS = (0.25, 0.5)  # shares of the time for blocks; the last look is at its end
ENOUGH = 20.0  # independent samples
MARKED = 0.05  # the share of marked samples that a row may have
RATE = 0.01  # of false alarms of a test: of marks or correlation in a row, of modes in a group


@dataclass(frozen=True, slots=True)
class Standing:
    """What a row stands on: its ratios to the reference block by block, or its times."""

    values: Sequence[float]
    ratios: bool

    def located(self, confidence: float) -> stats.Location:
        """Return the middle of the values with its interval."""
        return stats.location(self.values, confidence, positive=True, slow=self.ratios)


def deciding(group: Group, samples: Mapping[str, Samples]) -> dict[str, Standing]:
    """Return what each row that was measured stands on."""
    blocks = {id_: by_block(found) for id_, found in samples.items()}
    rows: dict[str, Standing] = {}
    for case in group.cases:
        if case.id in samples:
            each = ratios(blocks.get(case.against or "", {}), blocks[case.id])
            rows[case.id] = Standing(each or samples[case.id].seconds, bool(each))
    return rows


@dataclass(frozen=True, slots=True)
class Outlook:
    """Half of the widest interval that sets the stop, as a look finds it, and whether to stop."""

    width: float | None  # None: there is no such row
    settled: bool


def outlook(group: Group, samples: Mapping[str, Samples], settings: Settings) -> Outlook:
    """Return whether every row that sets the stop is known well enough; a control never sets it."""
    rows = deciding(group, samples)
    asked = [case for case in group.cases if case.id in rows and not is_control(case)]
    compared = [case for case in asked if case.against in rows]
    found = [rows[case.id].located(settings.confidence) for case in compared or asked]
    known = all(done(each, settings.precision) for each in found)
    return Outlook(max(map(half_width, found), default=None), known and not settings.whole)


def done(found: stats.Location, precision: float) -> bool:
    """Return whether the middle of a row is known well enough."""
    return half_width(found) <= precision and found.counted >= ENOUGH


def half_width(found: stats.Location) -> float:
    """Return half the width of an interval, as a share of the median."""
    if found.low <= 0.0:
        return 0.0 if found.low == found.high else math.inf
    return math.log(found.high / found.low) / 2


def unstable(row: Standing, odd: int, rows: int) -> bool:
    """Return whether samples do not represent one value; `odd` are marked, of `rows` in a group."""
    found = stats.location(row.values, positive=True)
    correlated = found.effective_n < ENOUGH and stats.correlated(row.values)
    marked = stats.more_than(odd, found.n, MARKED, RATE)
    return correlated or marked or stats.bimodal(row.values, RATE / rows)

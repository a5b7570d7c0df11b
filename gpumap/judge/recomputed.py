"""What a saved report says of a row, computed once more from its samples and its work.

A digest tells an accidental edit. What `compare` judges has to follow from the samples all the
same: whoever writes the digest anew must not come by with a time or a ratio of his own. The reader
refuses a check that proves nothing.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

from gpumap import stats
from gpumap.bench.registry import find

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.model import Estimate, Measurement, Report

_ROUNDING = 1e-9  # of a figure that is computed once more
_BUDGETS = 10  # that scripted blocks take at most, of which the last may be a long one


def contradiction(report: Report) -> str | None:
    """Return the first row whose figures do not follow from what it was measured by, and why."""
    rows = {row.case.id: row for row in report.measurements if row.status == "ok"}
    for id_, row in rows.items():
        for why in _contradictions(row, rows, report):
            return f"{id_}: {why}"
    return None


def _contradictions(
    row: Measurement, rows: Mapping[str, Measurement], report: Report
) -> Iterator[str]:
    if row.samples is None:
        return
    taken = row.samples.seconds
    each = [seconds * row.samples.iterations_per_sample for seconds in taken]
    # a script has a clock of its own: behind the first block, none begins after the budget
    most = _BUDGETS * report.settings["budget_s"] if report.simulated else report.elapsed
    if sum(each[1:] if report.simulated else each) > most:
        yield "its samples take longer than the whole run"
    found = stats.location(taken, report.settings["confidence"], positive=True, slow=False)
    time = row.metrics.get("time") or row.metrics.get("issue_interval")
    if time is None or not _same(time, (found.value, found.low, found.high)):
        yield "its time is not that of its samples"
    spec, work = find(row.case.bench), row.case.work
    follows = spec.follows if spec is not None else ()
    moved = work.bytes_to_device + work.bytes_to_host
    amounts = {"rate": work.operations, "bandwidth": moved}
    for name, amount in amounts.items():
        ends = [amount / t if t > 0.0 else math.inf for t in (found.value, found.high, found.low)]
        if name in follows and name in row.metrics and not _same(row.metrics[name], ends):
            yield f"its {name} is not the work over the time"
    if "speedup" in follows and "speedup" in row.metrics:
        ratio = _ratio(row, rows.get(row.case.against or ""))
        if ratio is None or not _same(row.metrics["speedup"], (ratio, None, None)):
            yield "its speed-up is not that of the samples of both rows"


def _ratio(row: Measurement, reference: Measurement | None) -> float | None:
    if reference is None or reference.samples is None or row.samples is None:
        return None
    over = dict(zip(reference.samples.blocks, reference.samples.seconds, strict=True))
    pairs = zip(row.samples.blocks, row.samples.seconds, strict=True)
    ratios = [other / s for block, s in pairs if (other := over.get(block)) is not None]
    return median(ratios) if ratios else None


def _same(figure: Estimate, ends: Sequence[float | None]) -> bool:
    """Return whether a figure is what was computed once more; a refused one has nothing to say."""
    if figure.impossible:
        return True
    told = (figure.value, *((figure.low, figure.high) if figure.has_interval else ()))
    pairs = zip(told, ends, strict=False)
    return all(math.isclose(a, b, rel_tol=_ROUNDING) for a, b in pairs if b is not None)

"""Whether the data of a run can be trusted: the colour of its banner, and why."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gpumap.judge.few import few
from gpumap.report import outcomes, plain, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.model import Report

_COLORS = {"good": "good", "below": "unclear", "untrusted": "unclear", "failed": "bad"}


def doubts(report: Report) -> list[str]:
    """Return why figures of a run are not to be trusted: contention, few samples, flags."""
    return [*plain.disturbed(report), *_of_rows(report)]


def _of_rows(report: Report) -> Iterator[str]:
    shown = [] if report.plans else [row for row in rows.shown(report) if row.status == "ok"]
    if thin := sum(map(few, shown)):
        yield f"{thin} of {len(shown)} rows have fewer than 6 samples, and so no interval"
    counts = Counter(flag for row in shown for flag in row.flags)
    for flag, count in counts.most_common():
        yield f"{count} of {len(shown)} rows: {flag}"


def color(report: Report) -> str:
    """Return the class of the banner: green only of good data, red where the run failed."""
    level = report.headline.level if report.headline else "failed"
    if outcomes.of_run(report).state == "failed" and report.status != "inconclusive":
        level = "failed"
    return _COLORS["untrusted" if level == "good" and doubts(report) else level]

"""The answer of a run in a sentence, and whether its data can be trusted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, NamedTuple

from gpumap.judge.few import few
from gpumap.report import outcomes, plain, rows
from gpumap.report.diagnoses import head
from gpumap.report.table import estimate, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.model import Report

Level = Literal["good", "below", "untrusted", "failed"]
_LEVELS: dict[outcomes.State, Level] = {"passed": "good", "skipped": "untrusted"}
_COLORS = {"good": "good", "below": "unclear", "untrusted": "unclear", "failed": "bad"}


class Banner(NamedTuple):
    """The answer of a run: how good it is, and a sentence."""

    level: Level
    text: str


def banner(report: Report) -> Banner:
    """Return the answer of a run."""
    level = _LEVELS.get(outcomes.of_run(report).state, "failed")
    return Banner("untrusted" if report.status == "inconclusive" else level, _text(report))


def _text(report: Report) -> str:
    wrong = [problem.diagnostic.message for problem in report.errors if problem.exit != 0]
    if report.diagnoses:
        return "; ".join(map(head, report.diagnoses))
    if report.verdicts:
        counts = Counter(verdict.verdict for verdict in report.verdicts)
        return ", ".join(f"{count} {word}" for word, count in counts.items())
    if wrong:
        return wrong[0]
    gains = [row for row in rows.shown(report) if "speedup" in row.metrics]
    if gains:
        best = max(gains, key=lambda row: len(row.case.names))
        figure = estimate(best.metrics["speedup"])
        return f"Speed-up of {best.case.bench} {best.case.name} on {named(best.case)}: {figure}"
    return f"{report.kind}: {report.status}"


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
    """Return the class of the banner: no answer is green whose data are poor."""
    level = banner(report).level
    return _COLORS["untrusted" if level == "good" and doubts(report) else level]

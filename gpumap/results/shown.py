"""A report as its formats show it: what all results have in common, beside what one has."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING

from gpumap.model import Estimate, Headline
from gpumap.report import render as text
from gpumap.report.parts import Outcome, Record, Shown
from gpumap.results import spec_of
from gpumap.results.around import warnings
from gpumap.results.outcomes import SHOWN, of_problem, of_run, of_verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.model import Problem, Report, Verdict
    from gpumap.report import Style
    from gpumap.results import ResultSpec


def render(format_: str, report: Report, style: Style) -> str:
    """Return a report in one of FORMATS, ending in a line break unless it is empty."""
    if format_ == "json":
        from gpumap.model.io import written

        return written(report)
    return text(format_, shown(report), style)


def shown(report: Report) -> Shown:
    """Return what formats show of a report."""
    spec, result = spec_of(report), report.result
    about = report.argv[:2] if report.kind == "bench" else (report.kind,)
    return Shown(
        report=report,
        title=" ".join(("gpumap", *(about or (report.kind,)))),
        headline=report.headline or Headline("failed", f"{report.kind}: {report.status}"),
        outcome=of_run(report),
        in_sections=spec.in_sections,
        sections=partial(spec.sections, report, result),
        charts=partial(spec.charts, report, result),
        records=partial(_records, report, spec),
    )


def _records(report: Report, spec: ResultSpec) -> Iterator[Record]:
    """Yield the answer with the test of the run, what is of the result, verdicts and errors."""
    head = report.headline
    cells = {"status": head.level, "reason": head.text} if head else {}
    yield Record("headline", head.row if head else None, cells, _figure(head), of_run(report),
                 f"gpumap {report.kind}")  # fmt: skip
    for line in warnings(report):
        yield Record("warning", cells={"reason": line})
    yield from spec.records(report, report.result)
    for verdict in report.verdicts:
        hints = (p.diagnostic.hint for p in report.errors if _is_of(p, verdict))
        yield _verdict(verdict, of_verdict(verdict, report), next(hints, None))
    for problem in report.errors:
        told = problem.diagnostic.code in spec.in_sections  # a record of the result is its test
        told = told or any(_is_of(problem, verdict) for verdict in report.verdicts)
        yield _error(problem, tested=not told)


def _is_of(problem: Problem, verdict: Verdict) -> bool:
    """Return whether an error says that a limit was not met."""
    return problem.diagnostic.message.startswith(f"limit {verdict.text}: ")


def _figure(found: Headline | Verdict | None) -> dict[str, Estimate]:
    """Return what an answer is about; it repeats a figure, and so has no unit of its own."""
    if found is None or found.metric is None:
        return {}
    if found.value is None:
        return {found.metric: Estimate.refused("")}
    low, high = found.low, found.high
    ends = (-inf if low is None else low, inf if high is None else high)
    return {found.metric: Estimate(found.value, *ends, "")}


def _verdict(found: Verdict, outcome: Outcome, hint: str | None) -> Record:
    """Return the record of a verdict; what is only shown is no test."""
    row = found.id or ""
    return Record(
        "verdict",
        found.id,
        {"status": found.verdict, "reason": found.text},
        _figure(found),
        None if found.verdict == SHOWN else outcome,
        found.text if row in found.text else f"{found.text} {row}",
        hint=hint,
    )


def _error(problem: Problem, *, tested: bool) -> Record:
    """Return the record of an error; one that a verdict is the reason of is in the test of that."""
    found, about = of_problem(problem), problem.diagnostic
    text = f"{found.word}: {found.text}"
    cells = {"names": about.name, "status": problem.exit, "reason": text}
    return Record("error", None, cells, {}, found if tested else None, text, hint=about.hint)

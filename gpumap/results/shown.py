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
from gpumap.results.outcomes import LIMIT, SHOWN, of_problem, of_run, of_verdicts
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.model import Problem, Report, Verdict
    from gpumap.report import Style

_OF_LIMITS = ("limit", "missing", "inconclusive")  # codes of what is an error because of one


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
        records=partial(_records, report),
        machine=partial(_machine, report),
    )


def _machine(report: Report) -> Iterator[tuple[str, str]]:
    """Yield what tells the machine from another one, and how busy it was."""
    found = report.fingerprint
    if found is not None:
        yield "processor", f"{found.cpu}, {counted(found.cores, 'core')}"
        yield "system", found.os
        yield "Python", found.python
        yield "libraries", ", ".join(f"{name} {v}" for name, v in found.libraries.items())
        yield "drivers", ", ".join(f"{name} {v}" for name, v in found.drivers.items())
        yield "links", ", ".join(found.links)
        variables = (f"{k}={v}" for k, v in report.environment.items() if v is not None)
        yield "environment", " ".join(variables)
        yield "fingerprint", found.hash


def _records(report: Report) -> Iterator[Record]:
    """Yield the answer with the test of the run, what is of the result, verdicts and errors."""
    judged = list(zip(report.verdicts, of_verdicts(report), strict=True))
    bad = [verdict for verdict, outcome in judged if outcome.state != "passed"]
    of_limits = [any(_is_of(problem, verdict) for verdict in bad) for problem in report.errors]
    yield _run(report, judged, of_limits)
    for line in warnings(report):
        yield Record("warning", cells={"reason": line})
    yield from spec_of(report).records(report, report.result)
    for verdict, outcome in judged:
        yield _verdict(verdict, outcome, [each for each in report.errors if _is_of(each, verdict)])
    for problem, of_limit in zip(report.errors, of_limits, strict=True):
        yield _error(problem, tested=not of_limit)


def _is_of(problem: Problem, verdict: Verdict) -> bool:
    """Return whether an error says that a limit was not met by a row."""
    found = problem.diagnostic
    told = (
        found.message.startswith(f"limit {verdict.text}: ") and (verdict.id or "") in found.message
    )
    return verdict.rule == LIMIT and found.code in _OF_LIMITS and told


def _run(
    report: Report, judged: Iterable[tuple[Verdict, Outcome]], of_limits: Iterable[bool]
) -> Record:
    """Return the record of the answer; the run has passed where nothing but limits is wrong."""
    errors = zip(report.errors, of_limits, strict=True)
    alone = all(problem.exit == 0 or of_limit for problem, of_limit in errors)
    failed = any(v.rule == LIMIT and outcome.state == "failed" for v, outcome in judged)
    ended = Outcome("passed") if alone and failed else of_run(report)
    head, name = report.headline, f"gpumap {report.kind}"
    cells = {"status": head.level, "reason": head.text} if head else {}
    return Record("headline", head.row if head else None, cells, _figure(head), ended, name,
                  report.elapsed)  # fmt: skip


def _figure(found: Headline | Verdict | None) -> dict[str, Estimate]:
    """Return what an answer is about; it repeats a figure, and so has no unit of its own."""
    if found is None or found.metric is None:
        return {}
    if found.value is None:
        return {found.metric: Estimate.refused("")}
    low, high = found.low, found.high
    ends = (-inf if low is None else low, inf if high is None else high)
    return {found.metric: Estimate(found.value, *ends, "")}


def _verdict(found: Verdict, outcome: Outcome, problems: Sequence[Problem]) -> Record:
    """Return the record of a verdict; what is only shown is no test."""
    row = found.id or ""
    hint = next((problem.diagnostic.hint for problem in problems), None)
    why = "; ".join(of_problem(problem).text for problem in problems) or outcome.text
    return Record(
        "verdict",
        found.id,
        {"status": found.verdict, "reason": found.text},
        _figure(found),
        None if found.verdict == SHOWN else outcome._replace(text=why),
        found.text if row in found.text else f"{found.text} {row}",
        about=(("verdict", outcome.text),),
        hint=hint,
    )


def _error(problem: Problem, *, tested: bool) -> Record:
    """Return the record of an error; one because of a limit is in the test of that."""
    found, about = of_problem(problem), problem.diagnostic
    text = f"{found.word}: {found.text}"
    cells = {"names": about.name, "status": problem.exit, "reason": text}
    return Record("error", None, cells, {}, found if tested else None, text, hint=about.hint)

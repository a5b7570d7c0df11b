"""A report as its formats show it: what all results have in common, beside what one has."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.report import render as text
from gpumap.report.parts import Shown, Test
from gpumap.results import spec_of
from gpumap.results.around import warnings
from gpumap.results.outcomes import of_problem, of_run
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.model import Headline, Problem, Report, Verdict
    from gpumap.report import Style


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
        kind=report.kind,
        title=" ".join(("gpumap", *(about or (report.kind,)))),
        argv=report.argv,
        status=report.status,
        exit_code=report.exit_code,
        simulated=report.simulated,
        started=report.started,
        elapsed=report.elapsed,
        headline=report.headline,
        outcome=of_run(report),
        source=report.source,
        problems=report.errors,
        notes=report.notes,
        in_sections=spec.in_sections,
        sections=partial(spec.sections, report, result),
        charts=partial(spec.charts, report, result),
        doubts=lambda: [*warnings(report), *spec.doubts(report, result)],
        lines=partial(_lines, report),
        tests=partial(_tests, report),
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


# --- lines of figures


def _lines(report: Report) -> Iterator[Mapping[str, Any]]:
    if report.headline is not None:
        yield _answer("headline", report.headline, report.headline.row, report.headline.level)
    for line in warnings(report):
        yield {"record": "warning", "reason": line}
    yield from spec_of(report).lines(report, report.result)
    yield from (_answer("verdict", each, each.id, each.verdict) for each in report.verdicts)
    yield from map(_error, report.errors)


def _answer(
    record: str, found: Headline | Verdict, id_: str | None, status: str
) -> Mapping[str, Any]:
    figure = {key: getattr(found, key) for key in ("metric", "value", "low", "high")}
    return {"record": record, "id": id_, "status": status, "reason": found.text, **figure}


def _error(problem: Problem) -> Mapping[str, Any]:
    found = of_problem(problem)
    return {
        "record": "error",
        "names": problem.diagnostic.name,
        "status": problem.exit,
        "reason": f"{found.word}: {found.text}",
    }


# --- tests


def _tests(report: Report) -> Mapping[str, Sequence[Test]]:
    """Return a test of the run itself, those of its result, of verdicts and of errors."""
    limits: Sequence[Test] = ()
    others: Sequence[Test] = ()
    errors: Sequence[Problem] = report.errors
    ended = of_run(report)
    if report.verdicts:
        from gpumap.results.verdict_tests import judged

        limits, others, errors = judged(report)
    alone = all(problem.exit == 0 for problem in errors)  # then nothing but limits is wrong
    if alone and any(test.outcome.state == "failed" for test in limits):
        ended = ended._replace(state="passed", word="", text="")
    return {
        "run": [Test(f"gpumap {report.kind}", ended, report.elapsed)],
        **spec_of(report).tests(report, report.result),
        "verdicts": [*limits, *others],
        "errors": [_error_test(problem) for problem in errors],
    }


def _error_test(problem: Problem) -> Test:
    outcome = of_problem(problem)
    return Test(f"{outcome.word}: {outcome.text}", outcome, hint=problem.diagnostic.hint)

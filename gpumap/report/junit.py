"""A report as JUnit's XML, as Jenkins, GitLab and others read it.

There is a test for the run itself, for each name of a checked map, each name that doctor looked
at, each round trip, each measured row, each break-even, each verdict and each error. The run's own
fails unless the exit code is 0: a run with another exit code than 0 is never green, and one without
rows never shows no test at all. A limit is one test, whatever rows it selects: the error that it
causes is reported there, and where nothing else is wrong the run has passed and that test alone has
failed. The result of a test is from `gpumap.report.outcomes`: wrong data and gpumap's own errors
are `<error>`, what is worse than it may be is `<failure>`, what was not measured, or was let pass,
is `<skipped>`.

The figures of a row are properties of its test, exact and in SI units: `value [low, high] unit`,
without an interval `value unit`. All text is printable, which XML 1.0 can hold, and all of the
document is ASCII.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from gpumap.escape import printable
from gpumap.model import replace
from gpumap.report import outcomes, plain
from gpumap.report.csv import number
from gpumap.report.outcomes import Outcome, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpumap.model import Diagnosis, Estimate, Measurement, Problem, Report, Verdict
    from gpumap.report import Style

_TAGS = {"failed": "failure", "error": "error", "skipped": "skipped"}
_WORST: tuple[State, ...] = ("passed", "skipped", "failed", "error")
_OF_LIMITS = ("limit", "missing", "inconclusive")  # codes of what is an error because of one
_COUNTED = {"failures": "failed", "errors": "error", "skipped": "skipped"}


@dataclass(frozen=True, slots=True)
class _Test:
    name: str
    outcome: Outcome
    seconds: float = 0.0
    properties: tuple[tuple[str, str], ...] = ()
    hint: str | None = None


def render(report: Report, style: Style) -> str:  # noqa: ARG001 - every format takes a style
    """Return the report as an XML document."""
    suites = {sort: tests for sort, tests in _suites(report).items() if tests}
    every = [test for tests in suites.values() for test in tests]
    about = {"name": "gpumap", "time": f"{report.elapsed:.6f}"}
    counts = _counts(every)
    del counts["skipped"]  # Jenkins' schema has it of suites only
    root = ET.Element("testsuites", about | counts)
    for sort, tests in suites.items():
        name = f"gpumap.{printable(report.kind)}.{sort}"
        seconds = math.fsum(test.seconds for test in tests)
        about = {"name": name, "timestamp": printable(report.started), "time": f"{seconds:.6f}"}
        suite = ET.SubElement(root, "testsuite", about | _counts(tests))
        if sort == "run":
            _properties(suite, _about(report))
        _tests(suite, tests, name)
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="us-ascii", xml_declaration=True)
    return document.decode("ascii") + "\n"


def _suites(report: Report) -> dict[str, list[_Test]]:
    limits, others, errors = _judged(report)
    ended = outcomes.of_run(report)
    alone = all(problem.exit == 0 for problem in errors)  # then nothing but limits is wrong
    if alone and any(test.outcome.state == "failed" for test in limits):
        ended = Outcome("passed")
    run = _Test(f"gpumap {report.kind}", ended, report.elapsed)
    trips = report.selftest.round_trips if report.selftest else ()
    return {
        "run": [run],
        "map": list(_names(report)),
        "diagnoses": [_diagnosis(found) for found in report.diagnoses],
        "round-trips": [
            _Test(f"{trip.backend} {trip.device}", outcomes.of_trip(trip)) for trip in trips
        ],
        "measurements": [
            _Test(row.case.id, outcomes.of_row(row), _seconds(row), tuple(_row_properties(row)))
            for row in report.measurements
        ],
        "break-evens": [
            _Test(each.id, outcomes.of_break_even(each), properties=tuple(_figures(each.metrics)))
            for each in report.break_evens
        ],
        "verdicts": [*limits, *others],
        "errors": [_error(problem) for problem in errors],
    }


def _names(report: Report) -> Iterator[_Test]:
    """Yield the names of a map that `check` found to be true."""
    if report.kind == "check" and report.exit_code in (0, 1):
        passed = Outcome("passed", "ok")
        yield from (_Test(plain.mapped_line(binding), passed) for binding in report.bindings)


def _diagnosis(found: Diagnosis) -> _Test:
    """Return whether a name is used, its causes as properties."""
    causes = tuple((finding.code, outcomes.cause(finding)) for finding in found.findings)
    hint = found.findings[0].fix if found.findings else None
    return _Test(outcomes.whose(found), outcomes.of_diagnosis(found), 0.0, causes, hint)


def _judged(report: Report) -> tuple[list[_Test], list[_Test], list[Problem]]:
    """Return a test for each limit, one for each other verdict, and the errors of no limit."""
    limits: dict[str, list[tuple[Verdict, Outcome]]] = {}
    others = []
    for verdict, outcome in zip(report.verdicts, outcomes.of_verdicts(report), strict=True):
        if verdict.rule == "limit":
            limits.setdefault(verdict.text, []).append((verdict, outcome))
        elif verdict.verdict != outcomes.SHOWN:  # no test: nothing is judged
            others.append(_verdict(verdict, outcome))
    of_limit: dict[str, list[Problem]] = {text: [] for text in limits}
    errors: list[Problem] = []
    for problem in report.errors:
        of_limit.get(_limit_of(problem, limits), errors).append(problem)
    return [_limit(*pair, of_limit[pair[0]]) for pair in limits.items()], others, errors


def _limit_of(problem: Problem, limits: Mapping[str, Sequence[tuple[Verdict, Outcome]]]) -> str:
    """Return the limit that an error is because of, if that has not passed; "" for none."""
    found = problem.diagnostic
    if found.code not in _OF_LIMITS:
        return ""
    bad = (text for text, judged in limits.items() if _worst(judged).state != "passed")
    return next((text for text in bad if found.message.startswith(f"limit {text}: ")), "")


def _limit(
    text: str, judged: Sequence[tuple[Verdict, Outcome]], problems: Sequence[Problem]
) -> _Test:
    """Return a limit on all rows that it selects: as good as the worst of them."""
    reasons = [outcomes.of_problem(problem).text for problem in problems]
    hint = next((problem.diagnostic.hint for problem in problems), None)
    head = f"{text}: "
    rows = (f"{v.id or text}: {outcome.text.removeprefix(head)}" for v, outcome in judged)
    properties = tuple(("verdict", row) for row in rows)
    worst = _worst(judged)
    return _Test(text, replace(worst, text="; ".join(reasons) or worst.text), 0.0, properties, hint)


def _worst(judged: Iterable[tuple[Verdict, Outcome]]) -> Outcome:
    return max((outcome for _, outcome in judged), key=lambda found: _WORST.index(found.state))


def _verdict(verdict: Verdict, outcome: Outcome) -> _Test:
    """Return a verdict against a base, named after what was judged, and of which row."""
    row = verdict.id or ""
    name = verdict.text if row in verdict.text else f"{verdict.text} {row}"
    return _Test(name, outcome, properties=(("verdict", outcome.text),))


def _figures(metrics: Mapping[str, Estimate]) -> Iterator[tuple[str, str]]:
    for name, figure in metrics.items():
        value, low, high = map(number, (figure.value, figure.low, figure.high))
        unit = "" if figure.unit == "1" else f" {figure.unit}"
        ends = f" [{low}, {high}]" if figure.has_interval else ""
        yield name, "impossible" if figure.impossible else f"{value}{ends}{unit}"


def _row_properties(row: Measurement) -> Iterator[tuple[str, str]]:
    yield from _figures(row.metrics)
    if row.flags:
        yield "flags", " ".join(row.flags)
    if row.explanation is not None:
        yield "explanation", f"{row.explanation.cause}: {row.explanation.text}"


def _seconds(row: Measurement) -> float:
    """Return how long the samples of a row took, all of their iterations."""
    if row.samples is None:
        return 0.0
    known = (seconds for seconds in row.samples.seconds if math.isfinite(seconds))
    return math.fsum(known) * row.samples.iterations_per_sample


def _error(problem: Problem) -> _Test:
    outcome = outcomes.of_problem(problem)
    return _Test(f"{outcome.word}: {outcome.text}", outcome, hint=problem.diagnostic.hint)


def _about(report: Report) -> Iterator[tuple[str, str]]:
    yield from (("headline", line) for line in plain.headline(report))
    yield "status", report.status
    yield "exit_code", str(report.exit_code)
    yield "simulated", str(report.simulated).lower()
    if report.source is not None:
        yield "map", report.source.text
    if report.fingerprint is not None:
        yield "fingerprint", report.fingerprint.hash
    yield from ((f"note.{note.code}", note.message) for note in report.notes)


def _tests(suite: ET.Element, tests: Sequence[_Test], classname: str) -> None:
    names = _unique(printable(test.name).strip() for test in tests)
    for test, name in zip(tests, names, strict=True):
        about = {"classname": classname, "name": name, "time": f"{test.seconds:.6f}"}
        element = ET.SubElement(suite, "testcase", about)
        _properties(element, test.properties)
        _outcome(element, test)


def _unique(names: Iterable[str]) -> Iterator[str]:
    """Yield the names, a number after each that was there before: readers join runs by them."""
    times: dict[str, int] = {}
    for name in names:
        found = name
        while found in times:
            times[name] += 1
            found = f"{name} ({times[name]})"
        times[found] = 1
        yield found


def _properties(parent: ET.Element, pairs: Iterable[tuple[str, str]]) -> None:
    found = [(printable(name), printable(value)) for name, value in pairs]
    if found:
        properties = ET.SubElement(parent, "properties")
        for name, value in found:
            ET.SubElement(properties, "property", name=name, value=value)


def _outcome(element: ET.Element, test: _Test) -> None:
    outcome = test.outcome
    if outcome.state == "passed":
        return
    message = printable(outcome.text)
    about = {"type": printable(outcome.word), "message": message}
    why = ET.SubElement(element, _TAGS[outcome.state], about)
    why.text = message if test.hint is None else f"{message}\nfix: {printable(test.hint)}"


def _counts(tests: Sequence[_Test]) -> dict[str, str]:
    states = [test.outcome.state for test in tests]
    counts = {name: str(states.count(state)) for name, state in _COUNTED.items()}  # type: ignore[arg-type]
    return {"tests": str(len(tests)), **counts}

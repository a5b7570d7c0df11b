"""A report as JUnit's XML, as Jenkins, GitLab and others read it.

There is a suite for each sort of records that have an outcome, and in it a test for each. That of
the run itself fails unless the exit code is 0: a run with another exit code than 0 is never green,
and one without rows never shows no test at all. A limit is a test for each row that it selects. The
result of a test is from `gpumap.results.outcomes`: wrong data and
gpumap's own errors are `<error>`, what is worse than it may be is `<failure>`, what was not
measured, or was let pass by a run that ends with 0, is `<skipped>`.

What is known of a part is a property of its test, figures exact and in SI units: `value [low, high]
unit`, without an interval `value unit`. All text is printable, which XML 1.0 can hold, and all of
the document is ASCII.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from gpumap.escape import printable
from gpumap.report.parts import Outcome, Record, Shown, unique

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.report import Style

_SUITES = {
    "headline": "run",
    "diagnosis": "diagnoses",
    "fitness": "preflight",
}  # others are a plural
_TAGS = {"failed": "failure", "error": "error", "skipped": "skipped"}
_COUNTED = {"failures": "failed", "errors": "error", "skipped": "skipped"}


def render(shown: Shown, style: Style) -> str:  # noqa: ARG001 - every format takes a style
    """Return the report as an XML document."""
    report = shown.report
    suites: dict[str, list[Record]] = {}
    for record in shown.records():
        if record.outcome is not None:
            suites.setdefault(_SUITES.get(record.kind, f"{record.kind}s"), []).append(record)
    counts = _counts(test for tests in suites.values() for test in tests)
    del counts["skipped"]  # Jenkins' schema has it of suites only
    root = ET.Element("testsuites", {"name": "gpumap", "time": f"{report.elapsed:.6f}"} | counts)
    for sort, tests in suites.items():
        name = f"gpumap.{printable(report.kind)}.{sort}"
        about = {"name": name, "timestamp": printable(report.started)}
        suite = ET.SubElement(root, "testsuite", about | _counts(tests))
        if sort == "run":
            _properties(suite, _about(shown))
        _tests(suite, tests, name)
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="us-ascii", xml_declaration=True)
    return document.decode("ascii") + "\n"


def _about(shown: Shown) -> Iterator[tuple[str, str]]:
    report = shown.report
    yield "headline", shown.headline.text
    yield "status", report.status
    yield "exit_code", str(report.exit_code)
    yield "simulated", str(report.simulated).lower()
    if report.source is not None:
        yield "map", report.source.text
    if report.fingerprint is not None:
        yield "fingerprint", report.fingerprint.hash
    yield from ((f"note.{note.code}", note.message) for note in report.notes)


def _tests(suite: ET.Element, tests: Sequence[Record], classname: str) -> None:
    names = unique(printable(test.name or test.id or test.kind).strip() for test in tests)
    for test, name in zip(tests, names, strict=True):
        element = ET.SubElement(suite, "testcase", {"classname": classname, "name": name})
        flags = test.cells.get("flags")
        _properties(element, (*_figures(test), *([("flags", flags)] if flags else ()), *test.about))
        _outcome(element, test.outcome, test.hint)


def _figures(test: Record) -> Iterator[tuple[str, str]]:
    """Yield figures, exact, with their intervals; but no answer's, which repeats one."""
    for name, figure in test.figures.items():
        if figure.unit and not figure.impossible:
            unit = "" if figure.unit == "1" else f" {figure.unit}"
            ends = f" [{figure.low}, {figure.high}]" if figure.has_interval else ""
            yield name, f"{figure.value}{ends}{unit}"


def _properties(parent: ET.Element, pairs: Iterable[tuple[str, str]]) -> None:
    found = [(printable(name), printable(value)) for name, value in pairs]
    if found:
        properties = ET.SubElement(parent, "properties")
        for name, value in found:
            ET.SubElement(properties, "property", name=name, value=value)


def _outcome(element: ET.Element, outcome: Outcome | None, hint: str | None) -> None:
    if outcome is None or outcome.state == "passed":
        return
    message = printable(outcome.text)
    about = {"type": printable(outcome.word), "message": message}
    why = ET.SubElement(element, _TAGS[outcome.state], about)
    why.text = message if hint is None else f"{message}\nfix: {printable(hint)}"


def _counts(tests: Iterable[Record]) -> dict[str, str]:
    states = [test.outcome.state for test in tests if test.outcome]
    counts = {name: str(states.count(state)) for name, state in _COUNTED.items()}  # type: ignore[arg-type]
    return {"tests": str(len(states)), **counts}

"""A report as JUnit's XML, as Jenkins, GitLab and others read it.

There is a suite for each sort of tests that a report has, and in it a test for each part. That of
the run itself fails unless the exit code is 0: a run with another exit code than 0 is never green,
and one without rows never shows no test at all. A limit is one test, whatever rows it selects: the
error that it causes is reported there, and where nothing else is wrong the run has passed and that
test alone has failed. The result of a test is from `gpumap.results.outcomes`: wrong data and
gpumap's own errors are `<error>`, what is worse than it may be is `<failure>`, what was not
measured, or was let pass, is `<skipped>`.

What is known of a part is a property of its test, figures exact and in SI units: `value [low, high]
unit`, without an interval `value unit`. All text is printable, which XML 1.0 can hold, and all of
the document is ASCII.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from gpumap.escape import printable
from gpumap.report.parts import unique

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.report import Style
    from gpumap.report.parts import Shown, Test

_TAGS = {"failed": "failure", "error": "error", "skipped": "skipped"}
_FINGERPRINT = "fingerprint"
_COUNTED = {"failures": "failed", "errors": "error", "skipped": "skipped"}


def render(shown: Shown, style: Style) -> str:  # noqa: ARG001 - every format takes a style
    """Return the report as an XML document."""
    suites = {sort: tests for sort, tests in shown.tests().items() if tests}
    every = [test for tests in suites.values() for test in tests]
    about = {"name": "gpumap", "time": f"{shown.elapsed:.6f}"}
    counts = _counts(every)
    del counts["skipped"]  # Jenkins' schema has it of suites only
    root = ET.Element("testsuites", about | counts)
    for sort, tests in suites.items():
        name = f"gpumap.{printable(shown.kind)}.{sort}"
        seconds = math.fsum(test.seconds for test in tests)
        about = {"name": name, "timestamp": printable(shown.started), "time": f"{seconds:.6f}"}
        suite = ET.SubElement(root, "testsuite", about | _counts(tests))
        if sort == "run":
            _properties(suite, _about(shown))
        _tests(suite, tests, name)
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="us-ascii", xml_declaration=True)
    return document.decode("ascii") + "\n"


def _about(shown: Shown) -> Iterator[tuple[str, str]]:
    if shown.headline is not None:
        yield "headline", shown.headline.text
    yield "status", shown.status
    yield "exit_code", str(shown.exit_code)
    yield "simulated", str(shown.simulated).lower()
    if shown.source is not None:
        yield "map", shown.source.text
    yield from ((name, text) for name, text in shown.machine() if name == _FINGERPRINT)
    yield from ((f"note.{note.code}", note.message) for note in shown.notes)


def _tests(suite: ET.Element, tests: Sequence[Test], classname: str) -> None:
    names = unique(printable(test.name).strip() for test in tests)
    for test, name in zip(tests, names, strict=True):
        about = {"classname": classname, "name": name, "time": f"{test.seconds:.6f}"}
        element = ET.SubElement(suite, "testcase", about)
        _properties(element, test.properties)
        _outcome(element, test)


def _properties(parent: ET.Element, pairs: Iterable[tuple[str, str]]) -> None:
    found = [(printable(name), printable(value)) for name, value in pairs]
    if found:
        properties = ET.SubElement(parent, "properties")
        for name, value in found:
            ET.SubElement(properties, "property", name=name, value=value)


def _outcome(element: ET.Element, test: Test) -> None:
    outcome = test.outcome
    if outcome.state == "passed":
        return
    message = printable(outcome.text)
    about = {"type": printable(outcome.word), "message": message}
    why = ET.SubElement(element, _TAGS[outcome.state], about)
    why.text = message if test.hint is None else f"{message}\nfix: {printable(test.hint)}"


def _counts(tests: Sequence[Test]) -> dict[str, str]:
    states = [test.outcome.state for test in tests]
    counts = {name: str(states.count(state)) for name, state in _COUNTED.items()}  # type: ignore[arg-type]
    return {"tests": str(len(tests)), **counts}

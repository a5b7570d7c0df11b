"""What `doctor` found, as every format shows it: a text for each name, tests, figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.judge import answers
from gpumap.judge.headline import Question
from gpumap.report.parts import Record, Section, Text
from gpumap.results import ResultSpec
from gpumap.results.outcomes import of_diagnosis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.model import Diagnosed, Diagnosis, Finding, Report

_WORDS = {"used": "used", "partly": "partly used", "not used": "not used"}
_NOTHING = "nothing-to-diagnose"  # a note that is a part of the answer


def whose(found: Diagnosis) -> str:
    """Return the entry that a diagnosis is of."""
    if found.interpreter is not None:
        return f"{found.name or ''} of {found.interpreter}"
    if found.name is None:
        return "the map"
    return f"{found.name}->{found.requested or ''}"


def finding_lines(found: Diagnosis) -> Iterator[str]:
    """Yield what was found of a name: the cause, the causes behind it, and what was seen."""
    for number, finding in enumerate(found.findings):
        yield f"{'also: ' if number else ''}{cause(finding)}"
        yield f"  fix: {finding.fix}"
    if found.name is not None:
        yield f"evidence: {found.evidence}"


def cause(finding: Finding) -> str:
    """Return a cause in a line, its code first."""
    likely = " (likely)" if finding.certainty == "likely" else ""
    return f"{finding.code} {finding.cause}{likely}: {finding.text}"


def _remarks(report: Report, result: Diagnosed) -> Iterator[str]:
    """Yield what stands below: that it was cut off, or where a cause is explained."""
    if report.status == "interrupted":
        yield "interrupted: this is what was known by then"
    yield from (note.message for note in report.notes if note.code == _NOTHING)
    causes = [one.findings[0].code for one in result.diagnoses if one.findings]
    if causes:
        yield f"`gpumap explain {causes[0]}` says more"


def sections(report: Report, result: Diagnosed, verbose: bool) -> Iterator[Section]:  # noqa: ARG001, FBT001
    """Yield a text for each name, and where its cause is explained."""
    texts = []
    for n, found in enumerate(result.diagnoses):
        title = f"{whose(found)}: {_WORDS[found.verdict]}"
        lines = tuple(finding_lines(found))
        texts.append(Text(lines, title, found.verdict, headed=True, gap=n > 0))
    remarks = Text(tuple(_remarks(report, result)), look="bold", gap=True)
    yield Section("diagnoses", (*texts, remarks))


def records(report: Report, result: Diagnosed) -> Iterator[Record]:  # noqa: ARG001 - of any result
    """Yield a name's verdict with what was seen, and each cause."""
    for found in result.diagnoses:
        cells = {"names": found.name, "status": found.verdict}
        causes = tuple((finding.code, cause(finding)) for finding in found.findings)
        hint = found.findings[0].fix if found.findings else None
        whole = Record("diagnosis", found.requested, cells, found.figures, of_diagnosis(found),
                       whose(found), about=causes, hint=hint)  # fmt: skip
        yield whole
        for one in found.findings:
            reason = {"reason": f"{one.code} {one.cause}: {one.text}"}
            yield Record(whole.kind, whole.id, cells | reason)


SPEC = ResultSpec(
    sections,
    Question(answers.doctor, "diagnosed", lambda _, result: bool(result.diagnoses)),
    records,
    in_sections=("diagnosis", _NOTHING),
)

"""What `doctor` found, as every format shows it: a text for each name, examples, tests, figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.figures import estimate
from gpumap.judge import answers
from gpumap.judge.headline import Question
from gpumap.model import EQUAL_WITHIN
from gpumap.report.parts import Record, Section, Text
from gpumap.report.table import Table
from gpumap.results import ResultSpec
from gpumap.results.outcomes import of_diagnosis

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.model import Diagnosed, Diagnosis, Example, Finding, Report

EXAMPLES = ("workload", "calls", "device", "host", "copies", "outcome")
_WORDS = {"used": "used", "partly": "partly used", "not used": "not used"}
_REMARKS = ("works-here", "nothing-to-diagnose")  # notes that are a part of the answer


def verdict_line(found: Diagnosis) -> str:
    """Return a name and its verdict."""
    return f"{whose(found)}: {_WORDS[found.verdict]}"


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


def examples(found: Iterable[Diagnosis]) -> Iterator[Table]:
    """Yield the examples of each name."""
    for one in found:
        if one.examples:
            title = f"calls of Theano's users on {one.name or ''}, x moved for each"
            yield Table(title, EXAMPLES, tuple(map(_example, one.examples)), _fixes(one.examples))


def _remarks(report: Report, result: Diagnosed) -> Iterator[str]:
    """Yield what stands below: that it was cut off, what works here, where a cause is explained."""
    if report.status == "interrupted":
        yield "interrupted: this is what was known by then"
    yield from (note.message for note in report.notes if note.code in _REMARKS)
    if (code := _decisive(report, result)) is not None:
        yield f"`gpumap explain {code}` says more"


def _decisive(report: Report, result: Diagnosed) -> str | None:
    """Return the cause of the first name that decides the exit code; else the first of all."""
    deciding = {p.diagnostic.name for p in report.errors if p.exit == report.exit_code}
    found = [one for one in result.diagnoses if one.findings]
    found.sort(key=lambda one: one.name not in deciding)
    return found[0].findings[0].code if found else None


def _example(one: Example) -> tuple[str, ...]:
    shares = one.shares
    copies = "-" if shares is None else f"{shares.upload + shares.download:.0%}"
    what = f"{one.found.code} {one.found.cause}" if one.found else _outcome(one)
    times = (estimate(one.device), estimate(one.host))
    return (one.words, str(one.calls), *times, copies, what)


def _outcome(one: Example) -> str:
    """Return how the device compares with the host, in words."""
    more, less = sorted((one.device.value, one.host.value), reverse=True)
    times = f"{more / less:.3g}" if less > 0.0 else "any number of"
    way = "faster" if one.device.value < one.host.value else "slower"
    return {
        "faster": f"{times} times as fast as the host",
        "equal": f"as fast as the host, within {EQUAL_WITHIN - 1:.0%}",
        "slower": f"the host is {times} times as fast",
        "unclear": f"cannot tell: too noisy ({times}x {way} by medians)",
    }[one.outcome]


def _fixes(examples: Iterable[Example]) -> tuple[str, ...]:
    """Return each cause once, with the figures of the first call that it holds for, and its fix."""
    found: dict[str, Finding] = {}
    for one in examples:
        if one.found is not None:
            found.setdefault(one.found.code, one.found)
    return tuple(text for one in found.values() for text in (cause(one), f"  fix: {one.fix}"))


def sections(report: Report, result: Diagnosed, verbose: bool) -> Iterator[Section]:  # noqa: ARG001, FBT001
    """Yield a text for each name, then the examples, and what works here."""
    texts = [
        Text(
            tuple(finding_lines(found)), verdict_line(found), found.verdict, headed=True, gap=n > 0
        )
        for n, found in enumerate(result.diagnoses)
    ]
    remarks = Text(tuple(_remarks(report, result)), look="bold", gap=True)
    yield Section("diagnoses", (*texts, *examples(result.diagnoses), remarks))


def records(report: Report, result: Diagnosed) -> Iterator[Record]:  # noqa: ARG001 - of any result
    """Yield a name's verdict with what was seen, each cause, and its examples."""
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
        yield from (_record(found, example) for example in found.examples)


def _record(found: Diagnosis, example: Example) -> Record:
    code = example.found.code if example.found else None
    cells = {"names": found.name, "case": example.workload, "status": example.outcome,
             "reason": code}  # fmt: skip
    figures = {"device": example.device, "host": example.host}
    return Record("example", found.requested, cells, figures)


SPEC = ResultSpec(
    sections,
    Question(answers.doctor, "diagnosed", lambda _, result: bool(result.diagnoses)),
    records,
    in_sections=("diagnosis", *_REMARKS),
)

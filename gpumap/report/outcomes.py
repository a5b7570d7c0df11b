"""What of a report passed, failed, broke or was skipped: for formats that know no other words.

It fails closed: what is not known to be good has not passed, and a run whose exit code is not 0
has failed whatever its parts say. What the run let pass (its exit code is 0, `--inconclusive=pass`,
`--allow-missing`) counts as skipped: it has neither passed nor failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gpumap.errors import Exit
from gpumap.model import EQUAL_WITHIN
from gpumap.report.table import Table, estimate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.model import (
        BreakEven,
        Diagnosis,
        Example,
        Finding,
        Measurement,
        Problem,
        Report,
        RoundTrip,
        Verdict,
    )


State = Literal["passed", "failed", "error", "skipped"]

_BROKEN = (Exit.WRONG_DATA, Exit.INTERNAL)  # not a worse result: none at all
_WRONG = ("wrong-data", "over-ceiling", "diverged")  # what a row fails with exit code 4 for
_GOOD = ("pass", "improvement")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a part of a report ended: a state, the report's own word for it, and text."""

    state: State
    word: str = ""
    text: str = ""


def of_run(report: Report) -> Outcome:
    """Return how the run ended: green only if its exit code is 0 and something was done."""
    code, status = report.exit_code, report.status
    if code != 0:
        return Outcome("error" if code in _BROKEN else "failed", status, f"exit code {code}")
    if report.plans:
        return Outcome("skipped", "dry-run", "a dry run: nothing was measured")
    nothing = report.measurements and all(row.status == "skipped" for row in report.measurements)
    if report.status == "skipped" or nothing:
        done = "checked" if report.kind == "check" else "measured"
        return Outcome("skipped", "skipped", f"nothing was {done}")
    if report.status == "inconclusive":  # no verdict was asked for
        return Outcome("skipped", status, f"exit code {code}")
    state: State = "passed" if report.status == "ok" else "failed"
    return Outcome(state, status, f"exit code {code}")


def of_row(row: Measurement) -> Outcome:
    """Return how a measurement ended; what was measured with a wrong result is an error."""
    reason = row.reason
    code = reason.code if reason else row.status
    text = reason.text if reason else row.status
    if code in _WRONG or (row.check is not None and not row.check.passed):
        return Outcome("error", code, text)
    if row.status == "ok":
        return Outcome("passed", "ok", " ".join(row.flags))
    return Outcome("skipped" if row.status == "skipped" else "failed", code, text)


def of_break_even(found: BreakEven) -> Outcome:
    """Return how a decision ended; which answer it gave is neither good nor bad."""
    if found.reason is None and not found.decided:
        return Outcome("skipped", "undecided", f"no size was looked at: {found.why_stopped}")
    if found.reason is None:
        return Outcome("passed", "ok")
    code, text = found.reason.code, found.reason.text
    return Outcome("error" if code in _WRONG else "failed", code, text)


def of_diagnosis(found: Diagnosis) -> Outcome:
    """Return whether a name is used; partly is not."""
    if found.verdict == "used":
        return Outcome("passed", "used")
    first = found.findings[0]
    return Outcome("failed", first.cause, f"{first.code} {first.text}")


def of_trip(trip: RoundTrip) -> Outcome:
    """Return whether bytes came back from a device as they were sent."""
    if trip.reason is None:
        return Outcome("passed", "ok")
    code = trip.reason.code
    return Outcome("error" if code in _WRONG else "failed", code, trip.reason.text)


def of_verdicts(report: Report) -> Iterator[Outcome]:
    """Yield what each verdict of a report means to its run."""
    let_pass = {"skipped", *_let_pass(report)}
    for verdict in report.verdicts:
        word = verdict.verdict
        state: State = "failed"
        if word in _GOOD:
            state = "passed"
        elif report.exit_code == 0 or word in let_pass:
            state = "skipped"
        yield Outcome(state, word, f"{verdict.text}: {word}{_figures(verdict)}")


def of_problem(problem: Problem) -> Outcome:
    """Return what an error of the run is; its hint is not in the text."""
    found = problem.diagnostic
    entry = "" if found.entry is None else f"entry {found.entry}: "
    state: State = "error" if problem.exit in _BROKEN else "failed"
    if problem.exit == 0:  # said, and let pass
        state = "skipped"
    return Outcome(state, found.code, entry + found.message)


def _let_pass(report: Report) -> set[str]:
    """Return the verdicts that a run let pass: its error of that name is there, and counts not."""
    counted = {problem.diagnostic.code for problem in report.errors if problem.exit != 0}
    said = {problem.diagnostic.code for problem in report.errors if problem.exit == 0}
    return said - counted


def _figures(verdict: Verdict) -> str:
    """Return a verdict's figures: ``, 1.52 [1.5, 1.55], limit 1.8``; nothing for what is None."""
    found = ""
    if verdict.value is not None:
        found += f", {verdict.value:.4g}"
    if verdict.low is not None and verdict.high is not None:
        found += f" [{verdict.low:.4g}, {verdict.high:.4g}]"
    if verdict.limit is not None:
        found += f", limit {verdict.limit:.4g}"
    if verdict.threshold is not None:
        found += f", threshold {verdict.threshold:.2%}"
    return found


EVERY_TITLE = "Every row"
EVERY = ("id", "status", "flags or reason", "time")


def every(measurements: Sequence[Measurement]) -> Table:
    """Return the rows; those that were not measured with the reason."""
    return Table(EVERY_TITLE, EVERY, tuple(map(_row, measurements)), ())


def _row(row: Measurement) -> tuple[str, ...]:
    outcome = of_row(row)
    why = outcome.text if row.status == "ok" else f"{outcome.word}: {outcome.text}"
    time = row.metrics.get("time") or row.metrics.get("issue_interval")
    return row.case.id, row.status, why, estimate(time)


EXAMPLES = ("workload", "calls", "device", "host", "copies", "outcome")
_WORDS = {"used": "used", "partly": "partly used", "not used": "not used"}
_IN_RESULT = ("works-here", "nothing-to-diagnose")  # notes that are a part of the answer


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
        yield f"seen: {found.evidence}"


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


def doctor_remarks(report: Report) -> Iterator[str]:
    """Yield what stands below: that it was cut off, what works here, where a cause is explained."""
    if report.status == "interrupted":
        yield "interrupted: this is what was known by then"
    yield from (note.message for note in report.notes if note.code in _IN_RESULT)
    if (code := _decisive(report)) is not None:
        yield f"`gpumap explain {code}` says more"


def _decisive(report: Report) -> str | None:
    """Return the cause of the first name that decides the exit code; else the first of all."""
    deciding = {p.diagnostic.name for p in report.errors if p.exit == report.exit_code}
    found = [one for one in report.diagnoses if one.findings]
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

"""What doctor found, as lines and tables: a name, its verdict, the causes, the examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.model import EQUAL_WITHIN
from gpumap.report.table import Table, estimate
from gpumap.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.model import Diagnosis, Example, Finding, Report

COLUMNS = ("workload", "calls", "device", "host", "copies", "outcome")
_WORDS = {"used": "used", "partly": "partly used", "not used": "not used"}
_IN_RESULT = ("works-here", "nothing-to-diagnose")  # notes that are a part of the answer


def head(found: Diagnosis) -> str:
    """Return a name and its verdict."""
    return f"{whose(found)}: {_WORDS[found.verdict]}"


def whose(found: Diagnosis) -> str:
    """Return the entry that a diagnosis is of."""
    if found.interpreter is not None:
        return f"{printable(found.name or '')} of {printable(found.interpreter)}"
    if found.name is None:
        return "the map"
    return f"{printable(found.name)}->{printable(found.requested or '')}"


def lines(found: Diagnosis) -> Iterator[str]:
    """Yield what was found of a name: the cause, the causes behind it, and what was seen."""
    for number, finding in enumerate(found.findings):
        yield f"{'also: ' if number else ''}{cause(finding)}"
        yield f"  fix: {printable(finding.fix)}"
    if found.name is not None:
        yield f"seen: {printable(found.evidence)}"


def cause(finding: Finding) -> str:
    """Return a cause in a line, its code first."""
    likely = " (likely)" if finding.certainty == "likely" else ""
    return f"{finding.code} {finding.cause}{likely}: {printable(finding.text)}"


def tables(found: Iterable[Diagnosis]) -> Iterator[Table]:
    """Yield the examples of each name."""
    for one in found:
        if one.examples:
            title = f"calls of Theano's users on {printable(one.name or '')}, x moved for each"
            yield Table(title, COLUMNS, tuple(map(_row, one.examples)), _fixes(one.examples))


def remarks(report: Report) -> Iterator[str]:
    """Yield what stands below: that it was cut off, what works here, where a cause is explained."""
    if report.status == "interrupted":
        yield "interrupted: this is what was known by then"
    yield from (printable(note.message) for note in report.notes if note.code in _IN_RESULT)
    if (code := _decisive(report)) is not None:
        yield f"`gpumap explain {code}` says more"


def _decisive(report: Report) -> str | None:
    """Return the cause of the first name that decides the exit code; else the first of all."""
    deciding = {p.diagnostic.name for p in report.errors if p.exit == report.exit_code}
    found = [one for one in report.diagnoses if one.findings]
    found.sort(key=lambda one: one.name not in deciding)
    return found[0].findings[0].code if found else None


def _row(one: Example) -> tuple[str, ...]:
    shares = one.shares
    copies = "-" if shares is None else f"{shares.upload + shares.download:.0%}"
    what = f"{one.found.code} {one.found.cause}" if one.found else _outcome(one)
    times = (estimate(one.device), estimate(one.host))
    return (printable(one.words), str(one.calls), *times, copies, what)


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
    return tuple(
        text for one in found.values() for text in (cause(one), f"  fix: {printable(one.fix)}")
    )

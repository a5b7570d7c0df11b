"""Outcomes and verdicts: what of a report passed, failed, broke or was skipped.

It fails closed: what is not known to be good has not passed, and a run whose exit code is not 0
has failed whatever its parts say. What the run let pass (its exit code is 0, `--inconclusive=pass`,
`--allow-missing`) counts as skipped: it has neither passed nor failed.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

from gpumap import units
from gpumap.errors import Exit
from gpumap.figures import estimate
from gpumap.model import EQUAL_WITHIN
from gpumap.model.maps import UNITS
from gpumap.report.table import Table
from gpumap.text import NAME, middle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpumap.model import (
        BreakEven,
        Diagnosis,
        Example,
        Finding,
        Measurement,
        Problem,
        Reason,
        Report,
        RoundTrip,
        Verdict,
    )


State = Literal["passed", "failed", "error", "skipped"]

_BROKEN = (Exit.WRONG_DATA, Exit.INTERNAL)  # not a worse result: none at all
_WRONG = ("wrong-data", "over-ceiling", "diverged")  # what a row fails with exit code 4 for
_GOOD = ("pass", "improvement")
SHOWN = "shown"  # the verdict of what a gate does not judge


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
    if report.status == "inconclusive":  # no verdict was requested
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
    return _by_reason(found.reason)


def of_trip(trip: RoundTrip) -> Outcome:
    """Return whether bytes came back from a device as they were sent."""
    return _by_reason(trip.reason)


def _by_reason(reason: Reason | None) -> Outcome:
    """Return how something ended that has passed without a reason why not."""
    if reason is None:
        return Outcome("passed", "ok")
    state: State = "error" if reason.code in _WRONG else "failed"
    return Outcome(state, reason.code, reason.text)


def of_diagnosis(found: Diagnosis) -> Outcome:
    """Return whether a name is used; partly is not."""
    if found.verdict == "used":
        return Outcome("passed", "used")
    first = found.findings[0]
    return Outcome("failed", first.cause, f"{first.code} {first.text}")


def of_verdicts(report: Report) -> Iterator[Outcome]:
    """Yield what each verdict of a report means to its run."""
    counted = {problem.diagnostic.code for problem in report.errors if problem.exit != 0}
    codes = {problem.diagnostic.code for problem in report.errors if problem.exit == 0}
    let_pass = {"skipped", *(codes - counted)}
    for verdict in report.verdicts:
        word = verdict.verdict
        state: State = "failed"
        if word in _GOOD:
            state = "passed"
        elif word == SHOWN or report.exit_code == 0 or word in let_pass:
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
    return row.case.id, row.status, why, estimate(row.time)


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


_LIMIT = "limit"
_CONTROL = "vs control"
_NAMES = "names"  # the key of an id
_WRITTEN = 3  # names of a row: of more their number
COLUMNS = {
    "limits": ("limit", "row", "figure", "verdict"),
    "changes": ("row", "metric", "new/base", _CONTROL, "verdict"),
}
_WORST = ("regression", "missing", "inconclusive", "new", "improvement", "pass", "shown")
_NOUNS = ("regression", "improvement")  # words that have a plural
_FORGIVEN = "what is inconclusive was let pass: --inconclusive=pass"


def judged(report: Report, *, verbose: bool = False) -> Iterator[Table]:
    """Yield a table of the verdicts on limits, and one of those on changes, where there are any.

    `verbose`: with the whole id of each row.
    """
    called: Mapping[str, str] = {} if verbose else _called(report.verdicts)
    limits = [verdict for verdict in report.verdicts if verdict.rule == _LIMIT]
    others = [verdict for verdict in report.verdicts if verdict.rule != _LIMIT]
    if limits:
        yield _limits(report, limits, called)
    if others:
        yield _changes(report, sorted(others, key=rank), called)
    if report.accepted:
        rows = tuple(
            (a.when, a.reason, ", ".join(_counted(n, w) for w, n in a.verdicts.items()) or "-")
            for a in report.accepted
        )
        yield Table("accepted in the place of a base", ("when", "reason", "verdicts"), rows, ())


def _called(verdicts: Iterable[Verdict]) -> dict[str, str]:
    """Return a short name of each row, by its id: its case, its names, and what tells it apart."""
    from gpumap.judge.limits import split_id

    rows = {v.id: split_id(v.id) for v in verdicts if v.id}
    keys = {
        key: {found.get(key) for _, found in rows.values()}
        for _, own in rows.values()
        for key in own
    }
    apart = sorted(key for key, values in keys.items() if len(values) > 1 and key != _NAMES)
    named = {
        id_: " ".join((head, *_names(found), *(f"{k}={found[k]}" for k in apart if k in found)))
        for id_, (head, found) in rows.items()
    }
    count = Counter(named.values())  # names that are alike when cut have their ids
    return {id_: text for id_, text in named.items() if count[text] == 1}


def _names(found: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of a row, if it has any, for a cell."""
    if names := found.get(_NAMES):
        every = re.split(r"([+>])", names)
        count = (len(every) + 1) // 2
        short = "".join(middle(unquote(part), NAME) for part in every)
        yield short if count <= _WRITTEN else f"{count} devices"


def _limits(report: Report, verdicts: Sequence[Verdict], called: Mapping[str, str]) -> Table:
    rows = (
        (
            v.text,
            called.get(v.id or "", v.id or "-"),
            _figure(v, UNITS.get(v.metric, "1")),
            v.verdict,
        )
        for v in verdicts
    )
    return Table("limits", COLUMNS["limits"], tuple(rows), _remarks(report, verdicts))


def _changes(report: Report, verdicts: Sequence[Verdict], called: Mapping[str, str]) -> Table:
    from gpumap.judge.pairs import share

    rows: list[tuple[str, ...]] = [
        (
            called.get(v.id or "", v.id or "-"),
            v.metric,
            _figure(v, "1"),
            estimate(v.relative),
            v.verdict,
        )
        for v in verdicts
    ]
    limits = {v.threshold for v in verdicts if v.threshold is not None}
    title = f"changes, at a threshold of {share(max(limits))}" if limits else "changes"
    heads = COLUMNS["changes"]
    if not any(v.relative for v in verdicts):
        place = heads.index(_CONTROL)
        heads, *rows = ((*cells[:place], *cells[place + 1 :]) for cells in (heads, *rows))
    counts = Counter[str](verdict.verdict for verdict in verdicts)
    words = (word for word in (*_WORST, "skipped") if counts[word])
    total = ", ".join(_counted(counts[word], word) for word in words)  # 2 regressions, 64 pass
    return Table(
        title, heads, tuple(rows), (total, *_reasons(verdicts), *_remarks(report, verdicts))
    )


def rank(verdict: Verdict) -> int:
    """Return where a change stands: what is worst first; of one word as they come."""
    return _WORST.index(verdict.verdict) if verdict.verdict in _WORST else len(_WORST)


def _counted(count: int, word: str) -> str:
    noun = f"{word}s" if word in _NOUNS and count > 1 else word
    return f"{count} {noun}"


def _reasons(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield each reason once, with the number of those that it holds for."""
    from gpumap.judge.compare import why

    reasons = Counter((v.verdict, why(v)) for v in verdicts if why(v) is not None)
    yield from (f"{_counted(count, word)}: {why_}" for (word, why_), count in reasons.items())
    if any(v.relative for v in verdicts):
        yield f"{_CONTROL}: new/base of the row over that of the control product beside it"


def _figure(verdict: Verdict, unit: str) -> str:
    """Return a verdict's figure with its interval, if it has one; a dash where it has no figure."""
    if verdict.value is None:
        return "-"
    ends = [end for end in (verdict.low, verdict.high) if end is not None]
    value, *interval = units.same_prefix((verdict.value, *ends), unit)
    return f"{value} [{', '.join(interval)}]" if interval else value


def _remarks(report: Report, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    unclear = any(verdict.verdict == "inconclusive" for verdict in verdicts)
    return (_FORGIVEN,) if unclear and report.settings.get("inconclusive") == "pass" else ()

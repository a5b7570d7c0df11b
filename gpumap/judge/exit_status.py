"""From outcomes and verdicts to one exit code and status: what a report says to a CI gate.

Many outcomes, one exit code: never a count. A verdict that is no pass is an error of the report.
What was let pass, because the user said so, is one too, of exit code 0: said, and never a pass. A
run that could not take place passes nothing either: where `if_absent` allows it, the report and its
limits are `skipped`. Requested rows of too few samples, or with a refused ratio, leave a run
inconclusive; its exit code is 0 all the same, unless a verdict on them was asked for: by a limit, a
base, or `strict`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gpumap import units
from gpumap.errors import Diagnostic, Exit
from gpumap.model import Problem, replace

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from gpumap.judge.compare import Against
    from gpumap.judge.limits import Limit, Row
    from gpumap.model import BreakEven, Group, Measurement, Plan, Report, Verdict

# What a script must hear about first: wrong data before all, a wrong question ends alone.
_ORDER = (
    Exit.INTERNAL,
    Exit.QUESTION,
    Exit.WRONG_DATA,
    Exit.INTERRUPTED,
    Exit.TIMEOUT,
    Exit.ABSENT,
    Exit.NO,
    Exit.INCONCLUSIVE,
)

STATUS = {
    Exit.OK: "ok",
    Exit.NO: "no",
    Exit.QUESTION: "error",
    Exit.ABSENT: "absent",
    Exit.WRONG_DATA: "wrong-data",
    Exit.INCONCLUSIVE: "inconclusive",
    Exit.INTERNAL: "internal",
    Exit.TIMEOUT: "timeout",
    Exit.INTERRUPTED: "interrupted",
}
SKIPPED = "skipped"  # the status of a report whose devices are absent, where that is allowed
_ABSENT = ("absent", Exit.ABSENT)  # to be busy, lost or out of memory is something else
_PASSED = 0  # the exit code of what is said, and let pass
_ABOVE = "see above"
# Metrics that follow from a case's own samples and those of its reference.
_OWN = ("time", "rate", "speedup", "device_time", "overlap", "time_observed", "speedup_observed",
        "undisturbed")  # fmt: skip
_LONGER = "raise --budget, and keep the machine idle"
_PLANNED = "--dry-run lists the rows that there would be"
_ASK_LESS = "see what holds it back (`gpumap explain` has each cause), or ask for less"


def exit_code(outcomes: Iterable[int]) -> Exit:
    """Return the one exit code that stands for all outcomes; OK if there are none."""
    found = set(outcomes)
    return next((code for code in _ORDER if code in found), Exit.OK)


def status(code: Exit, rows: Iterable[Measurement], break_evens: Iterable[BreakEven] = ()) -> str:
    """Return the status of a run; without an error, what was requested may be inconclusive."""
    if code == Exit.OK and _inconclusive(rows, break_evens):
        code = Exit.INCONCLUSIVE
    return STATUS[code]


def _inconclusive(rows: Iterable[Measurement], break_evens: Iterable[BreakEven] = ()) -> int:
    """Return how many rows and break-evens that were requested leave a run inconclusive."""
    found, ends = tuple(rows), tuple(break_evens)
    if not found and not ends:  # as a check has none, and need not load what judges them
        return 0
    from gpumap.judge.ceilings import unanswered, undecided

    return len(undecided(found)) + sum(map(unanswered, ends))


class Gate(NamedTuple):
    """What a report must satisfy besides being correct, and how inconclusive results count."""

    limits: tuple[Limit, ...] = ()
    inconclusive: Literal["fail", "pass"] = "fail"
    if_absent: Literal["fail", "skip"] = "fail"
    against: Against | None = None  # a base that the report is held against too
    strict: bool = False  # warnings and inconclusive results are failures

    @property
    def settings(self) -> dict[str, Any]:
        """Return its part of the report's settings."""
        beside = self.against.settings if self.against else {}
        own = {"inconclusive": self.inconclusive, "if_absent": self.if_absent}
        return {**own, "strict": self.strict, **beside}


def gated(report: Report, gate: Gate) -> Report:
    """Return a finished report with its verdicts, and the status and exit code they lead to."""
    if report.plans:
        return replace(report, notes=(*report.notes, *_not_judged(gate)))
    found: tuple[Verdict, ...] = ()
    if gate.limits:
        from gpumap.judge.limits import verdicts

        found = verdicts(gate.limits, report)
    if gate.if_absent == "skip" and is_absent(report):
        return skipped(report, found)
    report = replace(report, notes=(*report.notes, *_undecided(report)))
    strict = _strict(report) if gate.strict else ()
    return concluded(report, gate, found, (*problems(found, report), *strict))


def decided(gate: Gate, rows: Sequence[Measurement]) -> bool | None:
    """Return whether every verdict on these rows is known at an early look; None: there is none.

    Nothing is decided of rows that would leave the run inconclusive, by too few samples say.

    Args:
        gate: what is requested.
        rows: of a group that is still measured, with intervals of the level of that look.
    """
    found: list[str] = []
    if gate.limits:
        from gpumap.judge import limits

        found += limits.early(gate.limits, rows)
    if gate.against is not None and not gate.against.terms.other_machine:
        from gpumap.judge import compare

        found += compare.early(gate.against.base, rows, gate.against.terms.threshold)
    return "inconclusive" not in found and not _inconclusive(rows) if found else None


def judged(plan: Plan, gate: Gate) -> Plan:
    """Return a plan of the cases that a gate judges, with what they are compared with.

    It is the whole plan where there is no gate, or where it judges a figure that is made of others.
    """
    selectors = [limit.selector for limit in gate.limits]
    if not (selectors or gate.against) or any(s.metric not in _OWN for s in selectors):
        return plan
    found = {row.case.id for row in gate.against.base.measurements} if gate.against else set()
    cases = {case.id: case for case in plan.cases}
    found |= {id_ for id_ in cases for selector in selectors if selector.selects(id_)}
    found |= {str(cases[id_].against) for id_ in found & cases.keys()}
    groups = tuple(_only(group, found) for group in plan.groups)
    left = tuple(group for group in groups if group.cases)
    return replace(plan, groups=left) if left else plan


def _only(group: Group, wanted: Container[str]) -> Group:
    """Return a group without the cases that are not wanted."""
    kept = [place for place, case in enumerate(group.cases) if case.id in wanted]
    order = (tuple(kept.index(p) for p in places if p in kept) for places in group.order)
    return replace(
        group,
        cases=tuple(group.cases[place] for place in kept),
        order=tuple(places for places in order if places),
        first=0,  # they matter alike
    )


def concluded(
    report: Report, gate: Gate, found: Iterable[Verdict], wrong: Iterable[Problem]
) -> Report:
    """Return a report with more verdicts and errors, and the exit code that stands for all."""
    errors = (*report.errors, *wrong)
    if gate.inconclusive == "pass":
        errors = tuple(
            Problem(replace(each.diagnostic, severity="warning"), _PASSED)
            if each.exit == Exit.INCONCLUSIVE
            else each
            for each in errors
        )
    code = exit_code(problem.exit for problem in errors)
    return replace(
        report,
        verdicts=(*report.verdicts, *found),
        errors=errors,
        exit_code=code,
        status=status(code, report.measurements, report.break_evens),
    )


def is_absent(report: Report) -> bool:
    """Return whether nothing was measured because a device or backend is not there, and only so."""
    untouched = all(row.status == "skipped" for row in report.measurements)
    why = {(problem.diagnostic.code, problem.exit) for problem in report.errors}
    return untouched and report.selftest is None and why == {_ABSENT}


def skipped(report: Report, found: Iterable[Verdict]) -> Report:
    """Return the report of a run that could not take place: it passes nothing, and fails nothing.

    Its errors say what is not there; their exit code is 0, as is the report's.
    """
    let = (replace(problem.diagnostic, severity="note") for problem in report.errors)
    return replace(
        report,
        verdicts=(*report.verdicts, *(replace(v, verdict="skipped") for v in found)),
        errors=tuple(Problem(diagnostic, _PASSED) for diagnostic in let),
        exit_code=Exit.OK,
        status=SKIPPED,
    )


def problems(found: Iterable[Verdict], report: Report) -> tuple[Problem, ...]:
    """Return what each limit that was not met, or not judged, means for the exit code."""
    if not (found := tuple(found)):
        return ()
    from gpumap.judge.limits import rows_of
    from gpumap.judge.selectors import id_of

    rows = {id_of(row): row for row in rows_of(report)}
    every = ((verdict, rows.get(verdict.id or "")) for verdict in found)
    return tuple(_problem(verdict, row) for verdict, row in every if verdict.verdict != "pass")


def _problem(verdict: Verdict, row: Row | None) -> Problem:
    if verdict.verdict == "inconclusive":
        return Problem(_maybe(verdict, row), Exit.INCONCLUSIVE)
    return Problem(_no(verdict, row), Exit.NO)


def _no(verdict: Verdict, row: Row | None) -> Diagnostic:
    """Return what is said of a limit that was not met, or not judged."""
    asked = f"limit {verdict.text}"
    if verdict.id is None:
        return Diagnostic("missing", f"{asked}: no row that was measured has this", hint=_PLANNED)
    if verdict.value is not None:
        return Diagnostic("limit", f"{asked}: {_found(verdict)}", hint=_ASK_LESS)
    what, fix = _why_not(row)
    return Diagnostic("missing", f"{asked}: {verdict.id} {what}", hint=fix)


def _why_not(row: Row | None) -> tuple[str, str]:
    """Return why a row has no figure, and the fix."""
    if row is None:
        return "has no fit: too few sizes of its sweep were measured", _LONGER
    from gpumap.model import Fit, Measurement

    if isinstance(row, Fit):
        return "does not fit its size sweep, so it has no metrics", _LONGER
    if row.reason is None:
        return "has no such figure", _LONGER
    word = row.status if isinstance(row, Measurement) else "failed"
    said = f"{word}: {row.reason.text}"
    return said, "if that cannot be changed, select other rows by their keys"


def _maybe(verdict: Verdict, row: Row | None) -> Diagnostic:
    """Return what is said of a limit that the figures are too uncertain for."""
    from gpumap.model import Measurement

    figure = row.metrics.get(verdict.metric or "") if row is not None else None
    if figure is not None:
        said = _found(verdict)
    elif isinstance(row, Measurement) and row.reason is not None:
        said = f"{verdict.id} was left out: {row.reason.text}"
    else:
        said = f"{verdict.id}: no time was left for what this is made of"
    return Diagnostic("inconclusive", f"limit {verdict.text}: {said}", hint=_LONGER)


def _found(verdict: Verdict) -> str:
    if verdict.value is None:
        return f"{verdict.id} has an impossible {verdict.metric}, above its ceiling"
    ends = [end for end in (verdict.low, verdict.high) if end is not None]
    from gpumap.model.figures import UNITS

    value, *interval = units.together((verdict.value, *ends), UNITS[verdict.metric])
    shown = f"[{', '.join(interval)}]" if interval else "of too few samples for an interval"
    return f"{verdict.id} has {value} {shown}"


def _undecided(report: Report) -> tuple[Diagnostic, ...]:
    """Return the warning that rows are not good enough to conclude anything from."""
    count = _inconclusive(report.measurements, report.break_evens)
    if not count:
        return ()
    rows = "1 row has" if count == 1 else f"{count} rows have"
    message = f"{rows} fewer than 6 samples, no time, or an impossible ratio"
    return (Diagnostic("inconclusive", message, hint=_LONGER, severity="warning"),)


def _strict(report: Report) -> Iterator[Problem]:
    """Yield what makes a failure of warnings, and of a run that is inconclusive."""
    for note in report.notes:
        if note.code == "inconclusive":
            said = Diagnostic("inconclusive", f"--strict: {note.message}", hint=note.hint)
            yield Problem(said, Exit.INCONCLUSIVE)
    count = sum(note.severity == "warning" and note.code != "inconclusive" for note in report.notes)
    if count:
        said = Diagnostic("strict", f"--strict: {count} warning{'s' * (count > 1)}", hint=_ABOVE)
        yield Problem(said, Exit.NO)


def _not_judged(gate: Gate) -> tuple[Diagnostic, ...]:
    """Return the note of a dry run: it has no figures."""
    if not gate.limits:
        return ()
    message = "a dry run measures nothing: no limit is judged"
    return (Diagnostic("limit", message, hint="leave --dry-run away", severity="note"),)

"""From outcomes and verdicts to one exit code and status: what a report says to a CI gate.

Many outcomes, one exit code: never a count. A verdict that is no pass is an error of the report.
What the user lets pass is one too, of exit code 0: reported, and never a pass. A
run that could not take place passes nothing either: where `if_absent` allows it, the report and its
limits are `skipped`. Requested rows of too few samples, or with a refused ratio, leave a run
inconclusive; its exit code is 0 all the same, unless a verdict on them was requested: by a limit or
a baseline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gpumap.errors import Diagnostic, Exit, Severity
from gpumap.judge.inconclusive import undecided
from gpumap.judge.phrases import interval, value, verdict_figure
from gpumap.model import Problem, replace
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from gpumap.judge.compare import Baseline
    from gpumap.judge.limits import Limit
    from gpumap.model import Group, Measurement, Plan, Report, Verdict

# By priority for a script: wrong data first of all results; a usage error has no other.
STATUS = {
    Exit.INTERNAL: "internal",
    Exit.QUESTION: "error",
    Exit.WRONG_DATA: "wrong-data",
    Exit.INTERRUPTED: "interrupted",
    Exit.TIMEOUT: "timeout",
    Exit.ABSENT: "absent",
    Exit.NO: "no",
    Exit.INCONCLUSIVE: "inconclusive",
    Exit.OK: "ok",
}
SKIPPED = "skipped"  # the status of a report whose devices are absent, where that is allowed
_ABSENT = ("absent", Exit.ABSENT)  # a busy, lost or full device is not absent
# Metrics that follow from a case's own samples and those of its reference.
_OWN = ("time", "rate", "speedup", "overlap", "time_observed", "speedup_observed", "undisturbed")
_LONGER = "raise --budget, and keep the machine idle"
_PLANNED = "--dry-run lists the rows that there would be"
_ASK_LESS = "see what holds it back (`gpumap explain` has each cause), or request less"


def exit_code(outcomes: Iterable[int]) -> Exit:
    """Return the one exit code of all outcomes; OK if there are none."""
    codes = set(outcomes)
    return next((code for code in STATUS if code in codes), Exit.OK)


def status(code: Exit, rows: Iterable[Measurement]) -> str:
    """Return the status of a run; without an error, what was requested may be inconclusive."""
    if code == Exit.OK and undecided(rows):
        code = Exit.INCONCLUSIVE
    return STATUS[code]


class Gate(NamedTuple):
    """What a report must satisfy besides being correct, and how inconclusive results count."""

    limits: tuple[Limit, ...] = ()
    inconclusive: Literal["fail", "pass"] = "fail"
    if_absent: Literal["fail", "skip"] = "fail"
    against: Baseline | None = None  # a baseline that the report is compared with

    @property
    def settings(self) -> dict[str, Any]:
        """Return the gate's part of the report's settings."""
        terms = self.against.settings if self.against else {}
        return {"inconclusive": self.inconclusive, "if_absent": self.if_absent, **terms}


def gated(report: Report, gate: Gate) -> Report:
    """Return a finished report with its verdicts, and the status and exit code they lead to."""
    if report.plans:  # a dry run has no figures
        return report
    from gpumap.judge.limits import verdicts

    found = verdicts(gate.limits, report)
    if gate.if_absent == "skip" and is_absent(report):
        return skipped(report, found)
    report = replace(report, notes=(*report.notes, *_warnings(report)))
    return concluded(report, found, problems(found, report), gate.inconclusive)


def by_headline(gate: Gate) -> bool:
    """Return whether a gate judges what headlines claim, and nothing that was chosen instead."""
    if gate.limits:
        return False
    against = gate.against
    return against is None or not (against.terms.judge or against.base.settings.get("cases"))


def decided(gate: Gate, cases: Sequence[str], rows: Sequence[Measurement]) -> bool | None:
    """Return whether every verdict on these rows is final at an early look; None without any.

    Nothing is decided of rows that would leave the run inconclusive, by too few samples say.

    Args:
        gate: what is requested.
        cases: that the run was asked for by name; none: its own choice.
        rows: of a group that is still measured, with intervals of the level of that look.
    """
    answers: list[str] = []
    if gate.limits:
        from gpumap.judge import limits

        answers += limits.early(gate.limits, rows)
    if gate.against is not None:
        from gpumap.judge import compare

        answers += compare.early(gate.against.base, rows, gate.against.terms, cases)
    return "inconclusive" not in answers and not undecided(rows) if answers else None


def judged(plan: Plan, gate: Gate) -> Plan:
    """Return the plan of the cases that a gate judges, with their reference cases.

    It is the whole plan where there is no gate, or where it judges a figure that is made of others.
    """
    selectors = [limit.selector for limit in gate.limits]
    if not (selectors or gate.against) or any(s.metric not in _OWN for s in selectors):
        return plan
    ids = {row.case.id for row in gate.against.base.measurements} if gate.against else set()
    cases = {case.id: case for case in plan.cases}
    ids |= {id_ for id_ in cases for selector in selectors if selector.selects(id_, cases[id_])}
    ids |= {str(cases[id_].against) for id_ in ids & cases.keys()}
    groups = tuple(_only(group, ids) for group in plan.groups)
    left = tuple(group for group in groups if group.cases)
    return replace(plan, groups=left) if left else plan


def _only(group: Group, ids: Container[str]) -> Group:
    """Return a group with the cases of these ids only."""
    positions = [position for position, case in enumerate(group.cases) if case.id in ids]
    order = (tuple(positions.index(p) for p in block if p in positions) for block in group.order)
    return replace(
        group,
        cases=tuple(group.cases[position] for position in positions),
        order=tuple(block for block in order if block),
        first=sum(any(p in positions for p in block) for block in group.order[: group.first]),
    )


def concluded(
    report: Report, verdicts: Iterable[Verdict], wrong: Iterable[Problem], inconclusive: str
) -> Report:
    """Return a report with more verdicts and errors, and the exit code of all.

    Args:
        report: that is finished.
        verdicts: on its figures.
        wrong: errors, one for each verdict that is no pass.
        inconclusive: ``pass``: errors of exit code 5 become warnings.
    """
    errors = (*report.errors, *wrong)
    if inconclusive == "pass":
        errors = tuple(
            _let_pass(each, "warning") if each.exit == Exit.INCONCLUSIVE else each
            for each in errors
        )
    code = exit_code(problem.exit for problem in errors)
    return replace(
        report,
        verdicts=(*report.verdicts, *verdicts),
        errors=errors,
        exit_code=code,
        status=status(code, report.measurements),
    )


def _let_pass(problem: Problem, severity: Severity) -> Problem:
    """Return an error as what is reported, and may pass."""
    return Problem(replace(problem.diagnostic, severity=severity), Exit.OK)


def is_absent(report: Report) -> bool:
    """Return whether nothing was measured, only because a device or backend is absent."""
    untouched = all(row.status == "skipped" for row in report.measurements)
    why = {(problem.diagnostic.code, problem.exit) for problem in report.errors}
    return untouched and why == {_ABSENT}


def skipped(report: Report, verdicts: Iterable[Verdict]) -> Report:
    """Return the report of a skipped run: it passes nothing, and fails nothing.

    Its errors say what is not there; their exit code is 0, as is the report's.
    """
    return replace(
        report,
        verdicts=(*report.verdicts, *(replace(v, verdict="skipped") for v in verdicts)),
        errors=tuple(_let_pass(problem, "note") for problem in report.errors),
        exit_code=Exit.OK,
        status=SKIPPED,
    )


def problems(verdicts: Iterable[Verdict], report: Report) -> tuple[Problem, ...]:
    """Return a problem for each limit that was missed or not judged."""
    rows = {row.case.id: row for row in report.measurements}
    return tuple(
        _problem(verdict, rows.get(verdict.id or ""))
        for verdict in verdicts
        if verdict.verdict != "pass"
    )


def _problem(verdict: Verdict, row: Measurement | None) -> Problem:
    """Return what a limit that did not pass is to a run."""
    message = f"limit {verdict.text}: {_why(verdict, row)}"
    if verdict.verdict == "inconclusive":
        return Problem(Diagnostic("inconclusive", message, hint=_LONGER), Exit.INCONCLUSIVE)
    if verdict.value is not None:
        return Problem(Diagnostic("limit", message, hint=_ASK_LESS), Exit.NO)
    return Problem(Diagnostic("missing", message, hint=_PLANNED), Exit.NO)


def _why(verdict: Verdict, row: Measurement | None) -> str:
    """Return what a row has, or why it has no figure."""
    if verdict.id is None:
        return "no row that was measured has this"
    if (figure := verdict_figure(verdict)) is not None:
        known = interval(figure) if figure.has_interval else "too few samples for an interval"
        return f"{verdict.id} has {value(figure)} ({known})"
    if row is not None and row.reason is not None:
        return f"{verdict.id} {row.status}: {row.reason.text}"
    return f"{verdict.id} has no such figure, or one that is impossible"


def _warnings(report: Report) -> tuple[Diagnostic, ...]:
    """Return the warning that requested rows are inconclusive."""
    count = len(undecided(report.measurements))
    if not count:
        return ()
    message = f"{counted(count, 'row')} with fewer than 6 samples, no time, or an impossible ratio"
    return (Diagnostic("inconclusive", message, hint=_LONGER, severity="warning"),)

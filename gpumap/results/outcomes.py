"""Outcomes: what of a report passed, failed, broke or was skipped.

It fails closed: what is not known to be good has not passed, and a run whose exit code is not 0
has failed whatever its parts say. What the run let pass (its exit code is 0, `--inconclusive=pass`,
`--allow-missing`) counts as skipped: it has neither passed nor failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.errors import Exit
from gpumap.figures import estimate
from gpumap.judge.phrases import verdict_figure
from gpumap.report.parts import Outcome, State

if TYPE_CHECKING:
    from gpumap.model import Diagnosis, Measurement, Problem, Report, Verdict

_BROKEN = (Exit.WRONG_DATA, Exit.INTERNAL)  # not a worse result: none at all
_WRONG = ("wrong-data", "over-ceiling", "diverged")  # what a row fails with exit code 4 for
_GOOD = ("pass", "improvement")
LIMIT = "limit"  # the rule of a verdict on a limit
SHOWN = "shown"  # the verdict of what a gate does not judge


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


def of_diagnosis(found: Diagnosis) -> Outcome:
    """Return whether a name is used; partly is not."""
    if found.verdict == "used":
        return Outcome("passed", "used")
    first = found.findings[0]
    return Outcome("failed", first.cause, f"{first.code} {first.text}")


def of_verdict(verdict: Verdict, report: Report) -> Outcome:
    """Return what a verdict of a report means to its run."""
    word = verdict.verdict
    state: State = "failed"
    if word in _GOOD:
        state = "passed"
    elif word in (SHOWN, "skipped") or report.exit_code == 0:
        state = "skipped"
    limit = "" if verdict.threshold is None else f"threshold {verdict.threshold:.2%}"
    found = filter(None, (word, figure(verdict), limit))
    return Outcome(state, word, f"{verdict.text}: {', '.join(found)}")


def of_problem(problem: Problem) -> Outcome:
    """Return what an error of the run is; its hint is not in the text."""
    found = problem.diagnostic
    entry = "" if found.entry is None else f"entry {found.entry}: "
    state: State = "error" if problem.exit in _BROKEN else "failed"
    if problem.exit == 0:  # said, and let pass
        state = "skipped"
    return Outcome(state, found.code, entry + found.message)


def figure(verdict: Verdict) -> str:
    """Return a verdict's figure with its interval, if it has one; nothing without a figure."""
    found = verdict_figure(verdict)
    return "" if found is None else estimate(found)

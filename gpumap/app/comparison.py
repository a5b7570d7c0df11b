"""A report compared with a base: verdicts, what they mean for the exit code, what is to be said."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.bench.registry import follows
from gpumap.engine.stopping import LAST
from gpumap.errors import Diagnostic, Exit, GpumapError, QuestionError
from gpumap.judge.claims import check_patterns
from gpumap.judge.compare import (
    JUDGED,
    SUSPICIOUS,
    Baseline,
    compare,
    figure,
    pooled,
    unjudged,
    why,
)
from gpumap.judge.exit_status import SKIPPED, concluded
from gpumap.judge.pairs import comparable, share
from gpumap.judge.several_reports import (
    broken,
    contradiction,
    fingerprints,
    machines,
    surroundings,
    unlike,
)
from gpumap.model import Compared, Problem, Verdict, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gpumap.app.output import Output
    from gpumap.app.program import Program
    from gpumap.app.recording import Draft
    from gpumap.judge.compare import Terms
    from gpumap.judge.exit_status import Gate
    from gpumap.model import Fingerprint, Report

_PASSED = 0  # the exit code of what is said, and let pass
_MEASURE = "measure it again, on a machine that is not disturbed"
_MEASURE_BY_STATUS = {
    "absent": "measure it where its devices are: `gpumap check` tells whether they are there",
    "skipped": "measure it where its devices are: `gpumap check` tells whether they are there",
    "timeout": "measure it again, with a longer --timeout or fewer --cases",
    "interrupted": "measure it again, and let it come to its end",
    "wrong-data": "fix the device first: no speed of wrong data can be compared",
}
_MEASURE_WHAT = "measure it by `gpumap bench` or `gpumap transfer-cost`"
_MEASURE_DRY = "measure it without --dry-run"
_REGRESSION = "find what changed; if it is meant: gpumap compare BASE NEW --accept REASON"
_DEVICE = "measure the base again on this machine as it is now; gpumap doctor looks for a cause"
_SAME_ROWS = "measure the same rows"
_MISSING = f"{_SAME_ROWS}, or let it pass: gpumap compare BASE NEW --allow-missing"
_IDLE = "raise --budget, and keep the machine idle"
_MAYBE = f"{_IDLE}; --confirm measures more samples"
_MACHINE = (
    "measure a base on this machine; `gpumap compare BASE NEW --other-machine` shows the ratios "
    "without verdicts"
)

_NOTHING = Problem(
    Diagnostic(
        "nothing-judged",
        "nothing was judged: no figure was measured in both reports",
        hint="compare two reports of one command line",
    ),
    Exit.NO,
)
NO_LIMIT = 1e6  # seconds: what is measured once more has a time limit of its own
_REASON = 'say why: --accept "the new BLAS is slower at small sizes"'


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of a comparison."""

    verdicts: tuple[Verdict, ...]
    problems: tuple[Problem, ...]
    notes: tuple[Diagnostic, ...]


def base_of(path: Path, terms: Terms) -> Baseline:
    """Return a saved report as the base of a run, and the terms of the comparison.

    Raises:
        SourceError: it cannot be read.
        QuestionError: nothing can be concluded from it.
    """
    from gpumap.model import io

    base = io.read(path)
    refuse_broken(base, "base", forged=True)
    check_patterns(comparable(base), terms.judge)
    return Baseline(str(path), base, terms)


def judged(base: Report, new: Report, terms: Terms, program: Program) -> Judged:
    """Return the verdicts on a report against a base.

    Raises:
        QuestionError: they cannot be compared.
    """
    refuse_broken(base, "base")
    refuse_broken(new, "new")
    apart = _machines(base, new, terms)
    # with a second look at more samples, each look spends half of the error
    level = LAST / 2 if terms.confirm else LAST
    measure = partial(compare, base, threshold=terms.threshold, level=level, judge=terms.judge)
    found = measure(new)
    unsure: list[Diagnostic] = []
    if apart:
        found = replace(found, verdicts=unjudged(found.verdicts))
        message = f"no verdicts: the base is of another machine: {'; '.join(apart)}"
        unsure.append(Diagnostic("other-machine", message, severity="warning"))
    elif terms.confirm and any(v.verdict in SUSPICIOUS for v in found.verdicts):
        more, unsure = _more(base, new, terms, program)
        found = measure(more) if more else found
    judged = conclusion(found.verdicts, terms, () if apart else found.remarks)
    why = notes_of(f"{each}: this may be why they differ" for each in surroundings(base, new))
    return replace(judged, notes=(*judged.notes, *unsure, *why))


def conclusion(verdicts: tuple[Verdict, ...], terms: Terms, remarks: Sequence[str]) -> Judged:
    """Return verdicts with what they mean for the exit code."""
    words = (*JUDGED, "skipped")  # of another machine every change is shown, without a verdict
    compared = any(verdict.verdict in words for verdict in verdicts)
    problems = tuple(_problems(verdicts, terms))
    problems = problems if compared else (*problems, _NOTHING)
    return Judged(verdicts, problems, tuple(notes_of(remarks)))


def with_comparison(report: Report, against: Baseline, gate: Gate, program: Program) -> Report:
    """Return a report that was just measured, with its verdicts against a base.

    A run that did not come to its end keeps its exit code, and is not compared.
    """
    if _ended_early(report):
        message = f"not compared with the base: {broken(report) or 'nothing was measured'}"
        return replace(report, notes=(*report.notes, _note(message)))
    try:
        found = judged(against.base, report, against.terms, program)
    except GpumapError as error:
        wrong = [Problem(diagnostic, error.exit_code) for diagnostic in error.diagnostics]
        return concluded(report, gate, (), wrong)
    except KeyboardInterrupt:
        stopped = Problem(Diagnostic("interrupted", "interrupted"), Exit.INTERRUPTED)
        return concluded(report, gate, (), [stopped])
    report = replace(report, notes=(*report.notes, *found.notes))
    return concluded(report, gate, found.verdicts, found.problems)


def refuse_broken(report: Report, which: str, *, forged: bool = False) -> None:
    """Refuse a report of which nothing can be concluded.

    Args:
        report: that is compared.
        which: of the two.
        forged: it was saved, so its figures must follow from its samples too.

    Raises:
        QuestionError: it is one.
    """
    why = broken(report) or (contradiction(report, follows) if forged else None)
    if why is not None:
        message = f"the {which} report cannot be compared: {why}"
        raise QuestionError((Diagnostic("not-comparable", message, hint=_fix(report)),))


def _fix(report: Report) -> str:
    """Return what makes a report that can be compared of one that cannot."""
    from gpumap.app.remeasure import COMMANDS

    if report.plans:
        return _MEASURE_DRY
    if report.status in _MEASURE_BY_STATUS:
        return _MEASURE_BY_STATUS[report.status]
    return _MEASURE if report.kind in COMMANDS else _MEASURE_WHAT


def _ended_early(report: Report) -> bool:
    """Return whether a run has told already that there is nothing to compare."""
    over = (Exit.OK, Exit.NO, Exit.INCONCLUSIVE)
    return bool(report.plans) or report.status == SKIPPED or report.exit_code not in over


def _machines(base: Report, new: Report, terms: Terms) -> tuple[str, ...]:
    """Return what differs between the machines, where that is allowed."""
    refuse_mixed(unlike(base, simulated=new.simulated))
    apart = machines(base, new)
    _refuse_other_machine(apart, terms)
    return apart


def refuse_early(against: Baseline, fingerprint: Fingerprint | None, *, simulated: bool) -> None:
    """Refuse a base that a run cannot be compared with, before it takes its time.

    Args:
        against: the base.
        fingerprint: of the machine and the devices that will be measured; None: not known yet.
        simulated: whether these are a script's.

    Raises:
        QuestionError: it is of another machine, or one of both is simulated.
    """
    refuse_mixed(unlike(against.base, simulated=simulated))
    if fingerprint is not None:
        _refuse_other_machine(fingerprints(against.base.fingerprint, fingerprint), against.terms)


def refuse_mixed(why: str | None) -> None:
    """Refuse to compare a script with hardware.

    Raises:
        QuestionError: there is a reason.
    """
    if why is not None:
        hint = "compare reports of the same kind of devices"
        raise QuestionError((Diagnostic("not-comparable", why, hint=hint),))


def _refuse_other_machine(apart: Sequence[str], terms: Terms) -> None:
    if apart and not terms.other_machine:
        message = f"the base is of another machine: {'; '.join(apart)}"
        raise QuestionError((Diagnostic("other-machine", message, hint=_MACHINE),))


def _more(
    base: Report, new: Report, terms: Terms, program: Program
) -> tuple[Report | None, list[Diagnostic]]:
    """Return new with the samples of a second run added; None where it could not be measured."""
    from gpumap.app.remeasure import measured_again

    try:
        fresh = measured_again(new, program)
        refuse_broken(fresh, "fresh")
        _machines(base, fresh, replace(terms, other_machine=False))
    except GpumapError as error:
        return None, [replace(d, severity="warning") for d in error.diagnostics]
    return pooled(new, fresh), [
        _note(f"judged with the samples of a second run at {fresh.started}")
    ]


def _problems(verdicts: Sequence[Verdict], terms: Terms) -> Iterator[Problem]:
    """Yield what each verdict that is no pass means for the exit code."""
    for verdict in verdicts:
        if verdict.verdict == "regression":
            hint = _DEVICE if verdict.reason == "device-slower" else _REGRESSION
            found = Diagnostic("regression", _verdict_text(verdict, "a regression"), hint=hint)
            yield Problem(found, Exit.NO)
        elif verdict.verdict in ("missing", "new"):
            found = Diagnostic("missing", verdict.text, hint=_MISSING)
            if verdict.verdict == "new":
                found = Diagnostic("new", verdict.text, hint=_MISSING)
            if terms.allow_missing:
                let = replace(found, severity="warning", hint=_SAME_ROWS)
                yield Problem(let, _PASSED)
            else:
                yield Problem(found, Exit.NO)
        elif verdict.verdict == "inconclusive":
            hint = _IDLE if terms.confirm else _MAYBE  # a second run has measured more already
            message = _verdict_text(verdict, "inconclusive", terms.threshold)
            yield Problem(Diagnostic("inconclusive", message, hint=hint), Exit.INCONCLUSIVE)


def _verdict_text(verdict: Verdict, word: str, threshold: float = 0.0) -> str:
    """Return ``dot.one[...].time is 1.12 [1.10, 1.15] of base, a regression at 5%``, and why."""
    of_base = " of base" if verdict.value is not None else ""
    what = f"{verdict.id}.{verdict.metric} is {figure(verdict)}{of_base}"
    reason = why(verdict)
    at = share(verdict.threshold or threshold)
    return f"{what}, {word} at {at}{f': {reason}' if reason else ''}"


def notes_of(remarks: Iterator[str] | Sequence[str]) -> list[Diagnostic]:
    """Return remarks as notes of a comparison."""
    return [_note(remark) for remark in remarks]


def _note(message: str) -> Diagnostic:
    return Diagnostic("compared", message, severity="note")


# --- two saved reports


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """Which reports are compared, by which terms, and whether the new one becomes the base."""

    base: Path | None
    new: Path | None
    accept: str | None
    terms: Terms
    inconclusive: Any
    output: Output
    ab: tuple[str, str] | None = None  # two commands in the place of both reports


def compare_reports(program: Program, request: CompareRequest) -> None:
    """Judge a saved report against another one."""
    from gpumap.app.recording import Recording
    from gpumap.model import io

    if request.accept is not None and not request.accept.strip():
        raise QuestionError("--accept has no reason", _REASON)
    assert request.base is not None
    assert request.new is not None
    pair = {
        "base": str(request.base),
        "new": str(request.new),
        "inconclusive": request.inconclusive,
    }
    with Recording(
        "compare", Compared(), program, request.output, pair, time_limit=NO_LIMIT
    ) as record:
        before, after = io.read(request.base), io.read(request.new)
        for report, which in ((before, "base"), (after, "new")):
            refuse_broken(report, which, forged=True)
        check_patterns(comparable(before), request.terms.judge)
        pair |= Baseline(str(request.base), before, request.terms).settings
        show_machine(record.draft, after)
        found = judged(before, after, request.terms, program)
        record.draft.remarks += found.notes
        if request.accept is not None:
            found = _accepted(record.draft, request.base, before, after, found, request.accept)
        record.judge = partial(with_verdicts, found=found, inconclusive=request.inconclusive)


def show_machine(draft: Draft, new: Report) -> None:
    """Let the report be of the machine and the map of one that was saved."""
    from gpumap.model import Resolution

    draft.source, draft.map = new.source, new.map
    draft.devices, draft.backends = new.devices, new.backends
    draft.fingerprint = new.fingerprint
    if new.map is not None:
        draft.resolution = Resolution(new.map, new.bindings)


def with_verdicts(report: Report, *, found: Judged, inconclusive: Any) -> Report:
    """Return the report with its verdicts, and the exit code that they come to."""
    from gpumap.judge.exit_status import Gate

    return concluded(report, Gate(inconclusive=inconclusive), found.verdicts, found.problems)


def _accepted(
    draft: Draft, path: Path, base: Report, new: Report, found: Judged, reason: str
) -> Judged:
    """Write the new report over the base, with an entry that says why; then all of it may pass.

    Raises:
        QuestionError: nothing was judged, so it is of something else.
        SourceError: it cannot be written; the old file is as it was.
    """
    from collections import Counter

    from gpumap.app.recording import stamp
    from gpumap.files import write_atomic
    from gpumap.model import Acceptance
    from gpumap.model.io import written

    if any(problem.diagnostic.code == "nothing-judged" for problem in found.problems):
        hint = "accept a report of the same command line; another one is a new base: copy it"
        raise QuestionError("the base has nothing of what would be accepted", hint)
    counts = Counter(verdict.verdict for verdict in found.verdicts)
    entry = Acceptance(stamp(datetime.now(UTC)), reason, dict(counts), base.started, new.started)
    whole = replace(new, accepted=(*base.measured.accepted, entry))
    write_atomic(path, written(whole))
    message = f"{path} is now {new.started}: {reason}"
    draft.remarks.append(Diagnostic("accepted", message, severity="note"))
    passed = (replace(p.diagnostic, severity="warning") for p in found.problems)
    return replace(found, problems=tuple(Problem(diagnostic, 0) for diagnostic in passed))

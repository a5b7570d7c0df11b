"""A report compared with a base: verdicts, what they mean for the exit code, what is to be said."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpumap.app.recording import Draft, Recording
from gpumap.errors import Diagnostic, Exit, GpumapError, QuestionError
from gpumap.judge.claims import check_patterns
from gpumap.judge.comparability import broken, machines, surroundings
from gpumap.judge.compare import JUDGED, Baseline, Terms, agreed, compare, why
from gpumap.judge.exit_status import SKIPPED, Gate, concluded
from gpumap.judge.pairs import comparable, share
from gpumap.model import Compared, Problem, Report, Resolution, Verdict, io, replace
from gpumap.results.outcomes import figure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from gpumap.app.output import Output
    from gpumap.app.program import Program

_MEASURE = "measure it to its end by `gpumap bench` or `gpumap transfer-cost`, on sound devices"
_REGRESSION = "find what changed (notes say what differs); if it is meant, NEW is the next base"
_REFUSED = ("not-comparable", "other-machine")
_MISSING = "measure the same rows, or let it pass: gpumap compare BASE NEW --allow-missing"
_IDLE = "raise --budget, and keep the machine idle"
_MACHINE = (
    "measure a base on this machine with this map; `gpumap report BASE NEW` shows both side by side"
)


def base_of(path: Path, terms: Terms) -> Baseline:
    """Return a saved report as the base of a run, and the terms of the comparison.

    Raises:
        SourceError: it cannot be read.
        QuestionError: nothing can be concluded from it.
    """
    base = io.read(path)
    if base.status != SKIPPED:  # where the device is absent still, nothing is compared
        refuse_broken(base, "base")
        check_patterns(comparable(base), terms.judge)
    return Baseline(str(path), base, terms)


def judged(base: Report, new: Report, terms: Terms) -> tuple[Verdict, ...]:
    """Return the verdicts on a report against a base.

    Raises:
        QuestionError: they cannot be compared.
    """
    refuse_broken(base, "base")
    refuse_broken(new, "new")
    refuse_unlike(base, simulated=new.simulated, apart=machines(base, new))
    return compare(base, new, terms.threshold, judge=terms.judge)


def problems_of(verdicts: Sequence[Verdict], terms: Terms) -> tuple[Problem, ...]:
    """Return what verdicts mean for the exit code."""
    problems = tuple(_problems(verdicts, terms))
    if any(verdict.verdict in JUDGED for verdict in verdicts):
        return problems
    message = "nothing was judged: no figure was measured in both reports"
    hint = "compare two reports of one command line"
    return (*problems, Problem(Diagnostic("nothing-judged", message, hint=hint), Exit.NO))


def with_comparison(report: Report, against: Baseline, gate: Gate) -> Report:
    """Return a report that was just measured, with its verdicts against a base.

    A run that did not come to its end keeps its exit code, and is not compared.
    """
    if report.status == SKIPPED or any(p.diagnostic.code in _REFUSED for p in report.errors):
        return report  # before anything was measured
    if report.plans or report.exit_code not in (Exit.OK, Exit.NO, Exit.INCONCLUSIVE):
        message = f"not compared with the base: {broken(report) or 'nothing was measured'}"
        return replace(report, notes=(*report.notes, note(message)))
    try:
        verdicts = judged(against.base, report, against.terms)
    except GpumapError as error:
        wrong = [Problem(diagnostic, error.exit_code) for diagnostic in error.diagnostics]
        return concluded(report, (), wrong, gate.inconclusive)
    notes = (*report.notes, *differences(surroundings(against.base, report)))
    problems = problems_of(verdicts, against.terms)
    return concluded(replace(report, notes=notes), verdicts, problems, gate.inconclusive)


def refuse_broken(report: Report, which: str) -> None:
    """Refuse a report of which nothing can be concluded; `which`: of the two.

    Raises:
        QuestionError: it is one.
    """
    if (why := broken(report)) is not None:
        message = f"the {which} report cannot be compared: {why}"
        raise QuestionError((Diagnostic("not-comparable", message, hint=_MEASURE),))


def refuse_unlike(base: Report, *, simulated: bool, apart: Sequence[str] = ()) -> None:
    """Refuse to compare a script with hardware, or what ran on other machines or devices.

    Args:
        base: the base.
        simulated: whether the devices that it is compared with are a script's.
        apart: what differs between the machines.

    Raises:
        QuestionError: they are.
    """
    if base.simulated != simulated:
        hint = "compare reports of the same kind of devices"
        message = "one is simulated and the other is real"
        raise QuestionError((Diagnostic("not-comparable", message, hint=hint),))
    if apart:
        message = f"the base is of another machine, or of other devices: {'; '.join(apart)}"
        raise QuestionError((Diagnostic("other-machine", message, hint=_MACHINE),))


def _problems(verdicts: Sequence[Verdict], terms: Terms) -> Iterator[Problem]:
    """Yield what each verdict that is no pass means for the exit code."""
    for verdict in verdicts:
        if verdict.verdict == "regression":
            message = _verdict_text(verdict, "a regression")
            yield Problem(Diagnostic("regression", message, hint=_REGRESSION), Exit.NO)
        elif verdict.verdict in ("missing", "new"):
            found = Diagnostic("missing", verdict.text, hint=_MISSING)
            if verdict.verdict == "new":
                found = Diagnostic("new", verdict.text, hint=_MISSING)
            if terms.allow_missing:
                yield Problem(replace(found, severity="warning", hint=None), Exit.OK)
            else:
                yield Problem(found, Exit.NO)
        elif verdict.verdict == "inconclusive":
            message = _verdict_text(verdict, "inconclusive")
            yield Problem(Diagnostic("inconclusive", message, hint=_IDLE), Exit.INCONCLUSIVE)


def _verdict_text(verdict: Verdict, word: str) -> str:
    """Return ``dot.one[...].time is 1.12 [1.10, 1.15] of base, a regression at 5%``, and why."""
    ratio = f"{figure(verdict)} of base" if verdict.value is not None else "not known"
    at = f" at {share(verdict.threshold)}" if verdict.threshold is not None else ""
    reason = f": {why(verdict)}" if verdict.reason else ""
    return f"{verdict.id}.{verdict.metric} is {ratio}, {word}{at}{reason}"


def note(message: str) -> Diagnostic:
    """Return a note of a comparison."""
    return Diagnostic("compared", message, severity="note")


def differences(every: Iterable[str]) -> list[Diagnostic]:
    """Return what differs between two runs, and may be why their figures do, as notes."""
    return [Diagnostic("differs", f"differs: {each}", severity="note") for each in every]


# --- two saved reports


class CompareRequest(NamedTuple):
    """Which reports are compared, and by which terms.

    `confirm`: measure NEW once more; `ab`: two commands in place of both reports.
    """

    base: Path | None
    new: Path | None
    threshold: float
    allow_missing: bool
    judge: tuple[str, ...]
    inconclusive: str
    output: Output
    confirm: bool = False
    ab: tuple[str, str] | None = None

    @property
    def terms(self) -> Terms:
        """Return the terms of the comparison."""
        return Terms(self.threshold, self.allow_missing, self.judge)


def compare_reports(program: Program, request: CompareRequest) -> None:
    """Judge a saved report against another one."""
    assert request.base is not None
    assert request.new is not None
    pair = {
        "base": str(request.base),
        "new": str(request.new),
        "inconclusive": request.inconclusive,
        "confirm": request.confirm,
    }
    # what is measured once more has a time limit of its own
    with Recording(Draft("compare", Compared(), program, pair), request.output) as record:
        baseline, after = base_of(request.base, request.terms), io.read(request.new)
        pair |= baseline.settings
        show_machine(record.draft, after)
        verdicts, notes = _verdicts(baseline.base, after, request, program)
        record.draft.remarks += [*notes, *differences(surroundings(baseline.base, after))]
        wrong = problems_of(verdicts, request.terms)
        record.judge = lambda report: concluded(report, verdicts, wrong, request.inconclusive)


def _verdicts(
    base: Report, new: Report, request: CompareRequest, program: Program
) -> tuple[tuple[Verdict, ...], list[Diagnostic]]:
    """Return the verdicts, confirmed by a second run if that was requested, with notes."""
    verdicts = judged(base, new, request.terms)
    if not (request.confirm and any(each.verdict == "regression" for each in verdicts)):
        return verdicts, []
    from gpumap.app.remeasure import measure, once_more

    try:
        fresh = measure(once_more(new), program)
        again = judged(base, fresh, request.terms)
    except GpumapError as error:
        why = "; ".join(each.message for each in error.diagnostics)
        hint = "measure it yourself, and compare that"
        return verdicts, [Diagnostic("not-confirmed", why, hint=hint, severity="warning")]
    confirmed = note(f"a regression is one only if a second run at {fresh.started} shows it too")
    return agreed([verdicts, again]), [confirmed]


def show_machine(draft: Draft, new: Report) -> None:
    """Let the report be of the machine and the map of one that was saved."""
    draft.source, draft.map = new.source, new.map
    draft.devices, draft.backends = new.devices, new.backends
    draft.fingerprint = new.fingerprint
    if new.map is not None:
        draft.resolution = Resolution(new.map, new.bindings)

"""A report held against a base: verdicts, what they mean for the exit code, what is to be said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpumap.errors import Diagnostic, Exit, GpumapError, QuestionError
from gpumap.judge.comparable import broken, fingerprints, machines, mixed, surroundings, unlike
from gpumap.judge.compare import JUDGED, SUSPICIOUS, compare, confirmed, figure, told, unjudged
from gpumap.judge.gate import SKIPPED, concluded
from gpumap.judge.verdict import share
from gpumap.model import Problem, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.commands.program import Program
    from gpumap.judge.compare import Against, Terms
    from gpumap.judge.gate import Gate
    from gpumap.model import Fingerprint, Report

_PASSED = 0  # the exit code of what is said, and let pass
_MEASURE = "measure it again, on a machine that is not disturbed"
_MEASURE_BY_STATUS = {
    "absent": "measure it where its devices are: `gpumap check` tells whether they are there",
    "skipped": "measure it where its devices are: `gpumap check` tells whether they are there",
    "timeout": "measure it again, with a longer --timeout or fewer --cases",
    "interrupted": "measure it again, and let it come to its end",
    "wrong-data": "mend the device first: no speed of wrong data can be compared",
}
_MEASURE_WHAT = "measure it by `gpumap bench` or `gpumap transfer-cost`"
_MEASURE_DRY = "measure it without --dry-run"
_REGRESSION = "find what changed; if it is meant: gpumap compare BASE NEW --accept REASON"
_SAME_ROWS = "measure the same rows"
_MISSING = f"{_SAME_ROWS}, or let it pass with --allow-missing"
_IDLE = "raise --budget, and keep the machine idle"
_TAKE = "take the base again, with a longer --budget and on a quieter machine"
_MAYBE = f"{_IDLE}; --confirm measures it once more"
_MACHINE = "measure a base on this machine; --other-machine shows the ratios without verdicts"


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of a comparison."""

    verdicts: tuple[Verdict, ...]
    problems: tuple[Problem, ...]
    notes: tuple[Diagnostic, ...]


def judged(base: Report, new: Report, terms: Terms, program: Program) -> Judged:
    """Return the verdicts on a report against a base.

    Raises:
        QuestionError: they cannot be compared.
    """
    refuse_broken(base, "base")
    refuse_broken(new, "new")
    apart = _machines(base, new, terms)
    floors, spoilt = _floors(new, program)
    found = compare(base, new, terms.threshold, {} if apart else floors)
    notes = [] if apart else [*_notes(found.remarks), *spoilt]
    notes += _notes(f"{said}: this may be why they differ" for said in surroundings(base, new))
    notes += _shaky(base)
    if apart:
        verdicts = unjudged(found.verdicts)
        notes.append(_other(apart))
    else:
        verdicts, unsure = _confirmed(found.verdicts, base, new, terms, floors, program)
        notes += unsure
    compared = any(verdict.value is not None or verdict.verdict in JUDGED for verdict in verdicts)
    problems = tuple(_problems(verdicts, terms))
    return Judged(verdicts, problems if compared else (*problems, _nothing()), tuple(notes))


def held(report: Report, against: Against, gate: Gate, program: Program) -> Report:
    """Return a report that was just measured, with its verdicts against a base.

    A run that did not come to its end keeps its exit code, and is not compared.
    """
    if _ended_early(report):
        said = f"not compared with the base: {broken(report) or 'nothing was measured'}"
        return replace(report, notes=(*report.notes, _note(said)))
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


def refuse_broken(report: Report, which: str) -> None:
    """Refuse a report of which nothing can be concluded.

    Raises:
        QuestionError: it is one.
    """
    if (why := broken(report)) is not None:
        message = f"the {which} report cannot be compared: {why}"
        raise QuestionError((Diagnostic("not-comparable", message, hint=_mended(report)),))


def _mended(report: Report) -> str:
    """Return what makes a report that can be compared of one that cannot."""
    from gpumap.commands.again import COMMANDS

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
    _refuse_mixed(mixed(base, new))
    apart = machines(base, new)
    _refuse_apart(apart, terms)
    return apart


def refuse_early(against: Against, fingerprint: Fingerprint | None, *, simulated: bool) -> None:
    """Refuse a base that a run cannot be held against, before it takes its time.

    Args:
        against: the base.
        fingerprint: of the machine and the devices that will be measured; None: not known yet.
        simulated: whether these are a script's.

    Raises:
        QuestionError: it is of another machine, or one of both is simulated.
    """
    _refuse_mixed(unlike(against.base, simulated=simulated))
    if fingerprint is not None:
        _refuse_apart(fingerprints(against.base.fingerprint, fingerprint), against.terms)


def _refuse_mixed(why: str | None) -> None:
    if why is not None:
        hint = "compare reports of the same kind of devices"
        raise QuestionError((Diagnostic("not-comparable", why, hint=hint),))


def _refuse_apart(apart: Sequence[str], terms: Terms) -> None:
    if apart and not terms.other_machine:
        message = f"the base is of another machine: {'; '.join(apart)}"
        raise QuestionError((Diagnostic("other-machine", message, hint=_MACHINE),))


def _floors(new: Report, program: Program) -> tuple[Mapping[str, float], list[Diagnostic]]:
    """Return the noise floors of a machine, and what is wrong with where they are kept."""
    from gpumap import cache

    assert new.fingerprint is not None
    floors, spoilt = cache.load(program.env, new.fingerprint.hash)
    return floors, [spoilt] if spoilt else []


def _confirmed(
    first: Sequence[Verdict],
    base: Report,
    new: Report,
    terms: Terms,
    floors: Mapping[str, float],
    program: Program,
) -> tuple[tuple[Verdict, ...], list[Diagnostic]]:
    """Return the verdicts, what is suspicious by fresh data where that is wished."""
    from gpumap.commands.again import measured_again

    if not terms.confirm or not any(verdict.verdict in SUSPICIOUS for verdict in first):
        return tuple(first), []
    try:
        fresh = measured_again(new, program)
        refuse_broken(fresh, "fresh")
        _machines(base, fresh, replace(terms, other_machine=False))
    except GpumapError as error:
        found = (replace(d, severity="warning") for d in error.diagnostics)
        return confirmed(first, None), list(found)
    again = compare(base, fresh, terms.threshold, floors)
    said = f"measured once more at {fresh.started}, and what was suspicious is judged by that alone"
    return confirmed(first, again.verdicts), [_note(said)]


def _problems(verdicts: Sequence[Verdict], terms: Terms) -> Iterator[Problem]:
    """Yield what each verdict that is no pass means for the exit code."""
    for verdict in verdicts:
        if verdict.verdict == "regression":
            yield Problem(_regression(verdict), Exit.NO)
        elif verdict.verdict in ("missing", "new"):
            found = _lonely(verdict)
            if terms.allow_missing:
                let = replace(found, severity="warning", hint=_SAME_ROWS)
                yield Problem(let, _PASSED)
            else:
                yield Problem(found, Exit.NO)
        elif verdict.verdict == "inconclusive":
            yield Problem(_maybe(verdict), Exit.INCONCLUSIVE)


def _regression(verdict: Verdict) -> Diagnostic:
    return Diagnostic("regression", _said(verdict, "a regression"), hint=_REGRESSION)


def _maybe(verdict: Verdict) -> Diagnostic:
    hint = _MAYBE if verdict.confirmed is None else _IDLE  # it was measured once more already
    return Diagnostic("inconclusive", _said(verdict, "inconclusive"), hint=hint)


def _said(verdict: Verdict, word: str) -> str:
    """Return ``dot.one[...].time is 1.12 [1.10, 1.15] of base, a regression at 5%``, and why."""
    of_base = " of base" if verdict.value is not None else ""
    what = f"{verdict.id}.{verdict.metric} is {figure(verdict)}{of_base}"
    return f"{what}, {word} at {share(verdict.threshold or 0.0)}{told(verdict)}"


def _lonely(verdict: Verdict) -> Diagnostic:
    if verdict.verdict == "new":
        return Diagnostic("new", verdict.text, hint=_MISSING)
    return Diagnostic("missing", verdict.text, hint=_MISSING)


def _nothing() -> Problem:
    message = "nothing was judged: no figure was measured in both reports"
    hint = "compare two reports of one command line"
    return Problem(Diagnostic("nothing-judged", message, hint=hint), Exit.NO)


def _other(apart: Sequence[str]) -> Diagnostic:
    message = f"no verdicts: the base is of another machine: {'; '.join(apart)}"
    return Diagnostic("other-machine", message, severity="warning")


def _notes(remarks: Iterator[str] | Sequence[str]) -> list[Diagnostic]:
    return [_note(remark) for remark in remarks]


def _note(message: str, hint: str | None = None) -> Diagnostic:
    return Diagnostic("compared", message, hint=hint, severity="note")


def _shaky(base: Report) -> Iterator[Diagnostic]:
    """Yield a note where no row of a base can be trusted to tell one figure."""
    rows = [r for r in base.measurements if r.status == "ok" and r.case.bench != "anchor"]
    if rows and all("unstable" in row.flags for row in rows):
        yield _note("every row of the base is unstable: it can tell little", _TAKE)

"""From evidence to one diagnosis for each name: every cause of the table is tried."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from gpumap.doctor.causes import RULES, table
from gpumap.doctor.causes.configuration import has_gpu
from gpumap.doctor.causes.work import shown
from gpumap.doctor.evidence import Named
from gpumap.errors import Diagnostic, Exit
from gpumap.judge.exit_status import exit_code
from gpumap.model import Diagnosis, Finding, Kind, replace
from gpumap.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.doctor.causes.cause import Cause, Shown
    from gpumap.doctor.evidence import Evidence, Measured
    from gpumap.model import DoctorVerdict, Estimate, Example

_USED: Final = "used"
_WORSE = ("not used", "partly")  # what is named first
_OF_WORK = ("GM3", "GM4")  # the groups of the machine and of the work
_MOST = 0.5  # of an example's time
_TIMES = 1.5  # as long as one pass: that much can be seen
_NEAR = 2.0  # launches: computing that takes no more is launching


def diagnoses(known: Evidence) -> tuple[Diagnosis, ...]:
    """Return the diagnosis of each name; of a map that cannot be read one without a name."""
    if known.problems:
        nobody = Named("", "", Kind.CPU)
        return (replace(_diagnosis(known, nobody), name=None, requested=None),)
    return tuple(_diagnosis(known, named) for named in known.names)


def nothing_asked(known: Evidence, every: Iterable[Diagnosis]) -> bool:
    """Return whether only cores that doctor chose itself were examined, and they work.

    There is no map and no GPU. What slows such a core down is no fault of a set-up; a broken
    setting, a core that fails and one that was not examined stay a diagnosis.
    """
    if known.source is not None or known.problems or has_gpu(known):
        return False
    found = [finding.code for one in every for finding in one.findings]
    slow = all(RULES[code].exit is Exit.NO and code.startswith(_OF_WORK) for code in found)
    return slow and all(named.kind is Kind.CPU for named in known.names)


def exits(every: Iterable[Diagnosis]) -> Iterable[tuple[Diagnosis, Exit]]:
    """Yield each diagnosis that is no good news, with the exit code that it stands for."""
    for diagnosis in every:
        if diagnosis.findings:
            yield diagnosis, exit_code(table()[one.code].rule.exit for one in diagnosis.findings)


def _diagnosis(known: Evidence, named: Named) -> Diagnosis:
    held = [each for each in _holding(known, named) if each[0].rule.verdict != _USED]
    if any(_absence(cause, named) and not cause.rule.last for cause, _ in held):
        held = [each for each in held if not each[0].rule.last]
    held.sort(key=lambda each: (not _absence(each[0], named), _WORSE.index(each[0].rule.verdict)))
    verdict: DoctorVerdict = held[0][0].rule.verdict if held else _USED
    measured = named.measured
    return Diagnosis(
        named.name,
        named.asked,
        verdict,
        _evidence(named),
        tuple(_finding(cause, found) for cause, found in held),
        dict(measured.figures),
        tuple(_judged(example, measured) for example in measured.examples),
    )


def _holding(known: Evidence, named: Named) -> Iterator[tuple[Cause, Shown]]:
    every = ((code, rule.test(known, named)) for code, rule in RULES.items())
    yield from ((table()[code], found) for code, found in every if found is not None)


def notes(known: Evidence) -> Iterator[Diagnostic]:
    """Yield what is worth knowing of names that are used all the same."""
    for named in known.names:
        for cause, found in _holding(known, named):
            if cause.rule.verdict == _USED:
                note = _finding(cause, found)
                code, said = cause.key, f"{note.code} {note.text}"
                yield Diagnostic(code, said, hint=note.fix, severity="note", name=named.name)


def _absence(cause: Cause, named: Named) -> bool:
    """Return whether a cause says why a name has no device: fixing others then changes nothing."""
    return named.absent is not None and cause.rule.exit in (Exit.ABSENT, Exit.QUESTION)


def _finding(cause: Cause, found: Shown) -> Finding:
    text, fix = (each.format_map(found.words) for each in (cause.text, cause.fix))
    return Finding(cause.code, cause.key, text, fix, dict(found.figures))


def _evidence(named: Named) -> str:
    """Return what was seen of a device, in a line."""
    if named.device is None:
        return "no device"
    what = f"{printable(named.device.name)}, {named.device.backend}"
    product = named.measured.figures.get("product")
    if product is None:
        return what
    return f"{what}; a product of 512 x 512 takes {shown(product)}; every result was verified"


# --- examples


def _judged(example: Example, measured: Measured) -> Example:
    """Return an example with what such calls suffer from, if anything."""
    if example.workload == "chain":
        return replace(example, found=_unfused(measured))
    if example.outcome != "slower":
        return example
    return replace(example, found=_losing(example, measured))


def _losing(example: Example, measured: Measured) -> Finding | None:
    """Return why calls on the device take longer than on the host."""
    shares, launch = example.shares, measured.figures.get("launch")
    if shares is None:
        return None
    copies = shares.upload + shares.download
    figures = {"device": example.device, "host": example.host}
    if copies >= _MOST:
        code, why = "GM402", f"copies are {copies:.0%} of it"
    elif (
        launch
        and shares.compute * example.device.value > _NEAR * launch.value
        and (shares.compute >= _MOST)
    ):
        code, why = "GM406", f"computing is {shares.compute:.0%} of it"
    else:
        code, why = "GM401", f"launching and waiting are {1.0 - copies:.0%} of it"
    text = f"the host wins: {why}{_from(measured.figures.get('break_even'))}"
    cause = table()[code]
    return Finding(code, cause.key, text, cause.fix, figures)


def _from(figure: Estimate | None) -> str:
    """Return from which size on the device pays, where it clearly does at some."""
    if figure is None or figure.value < figure.high == math.inf:
        return ""
    if figure.value == math.inf:
        return "; no size was seen at which the device pays"
    return f"; the device breaks even at {shown(figure)} of x"


def _unfused(measured: Measured) -> Finding | None:
    every, one = (measured.figures.get(key) for key in ("elementwise", "one_pass"))
    if every is None or one is None or every.low <= _TIMES * one.high:
        return None
    cause = table()["GM408"]
    text = cause.text.format(count=4, all=shown(every), one=shown(one))
    return Finding(cause.code, cause.key, text, cause.fix, {"elementwise": every, "one_pass": one})

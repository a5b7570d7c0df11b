"""What a map and its devices answer: `check`, `devices` and `doctor`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gpumap.judge.phrases import ENDS, About, capital, every, fix, names, said, sentence, verb
from gpumap.model import Kind
from gpumap.text import middle
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumap.model import Device, Diagnosis, Headline, Level, Report

_DEVICE = 28  # characters of a device's name
_FEW = 3  # that are written out
_PAIR = 2
_BEFORE = {
    **ENDS,
    "wrong-data": "Round trip of 4 KiB failed: ",
    "error": "Not checked: ",
    "absent": "Not checked: ",
}
_SHARED = "shared-hardware"

# --- check


def check(report: Report) -> Headline:
    """Answer whether a map is true."""
    wrong = [p.diagnostic for p in report.errors if p.exit != 0]
    if wrong:
        return _unmapped(report)
    bindings = report.bindings
    if not bindings:
        count = len(report.map.entries) if report.map else 0
        entries = f"The map is well-formed ({counted(count, 'name')})"
        return said(report, "untrusted", (f"{entries}; no device was looked for (--syntax-only).",))
    whole = f"{capital(every(len(bindings)))} {verb(bindings, 'is', 'are')} mapped"
    if any(note.code == _SHARED for note in report.notes):
        return _sharing(report, whole)
    if not report.settings.get("opened", True):
        return said(report, "untrusted", (f"{whole}; no device was opened (--no-open).",))
    if len(bindings) <= _FEW:
        listed = ", ".join(f"{middle(b.name)} = {_called(b.device)}" for b in bindings)
    else:
        kinds = Counter(middle(b.device.name, _DEVICE) for b in bindings)
        listed = ", ".join(f"{count} x {name}" for name, count in kinds.items())
    return said(report, "good", (f"{whole}: {listed}.", _right(len(bindings))))


def _right(count: int) -> str:
    return f"4 KiB went {'there' if count == 1 else 'to each'} and back, verified."


def _called(device: Device) -> str:
    identity = device.pci or device.uuid
    return middle(device.name, _DEVICE) + (f" ({identity})" if identity else "")


def _sharing(report: Report, whole: str) -> Headline:
    bindings, holders = report.bindings, Counter[str]()
    holders.update(element for b in bindings for element in b.device.hardware)
    sharing = [b for b in bindings if any(holders[each] > 1 for each in b.device.hardware)]
    who = " and ".join(middle(b.name) for b in sharing)
    shown = who if len(sharing) <= _PAIR else names(sharing, between=", ")
    what = "hardware" if len({b.device.id for b in sharing}) > 1 else "one device"
    text = f"{whole}, but {shown} share {what}."
    more = "A second name brings no second device; use --distinct to refuse this."
    return said(report, "below", (text, more))


def _unmapped(report: Report) -> Headline:
    """Return how many names are not mapped, and the first reasons."""
    wrong = [p.diagnostic for p in report.errors if p.exit != 0]
    placed = {found.entry for found in wrong if found.entry is not None}
    total = len(report.map.entries) if report.map else 0
    first = wrong[0]
    if report.status == "error" and total == 0 and placed:
        errors = "; ".join(f"entry {e.entry}: {e.message}" for e in wrong[:_FEW])
        return said(report, "failed", (f"The map has {counted(len(wrong), 'error')}: {errors}.",))
    more = (f"{counted(len(wrong) - 1, 'more error')}.",) * (len(wrong) > 1)
    if first.code == "strict":
        warned = next((n.message for n in report.notes if n.severity == "warning"), "")
        return said(report, "failed", (sentence(f"{first.message}: {warned}"), *more))
    if placed and total and report.exit_code in (2, 3):
        are = "is" if len(placed) == 1 else "are"
        some = f"{len(placed)} of {counted(total, 'name')} {are} not"
        if len(placed) == total:
            some = "The name is not" if total == 1 else f"None of {total} names is"
        why = f"{some} mapped: {sentence(first.message)}"
        return said(report, "failed", (why, *fix(first.hint)))
    before = _BEFORE.get(report.status, "")
    return said(report, "failed", (sentence(f"{before}{first.message}"), *fix(first.hint), *more))


# --- devices


def devices(report: Report) -> Headline:
    """Answer what can be used, and how to map it."""
    unanswered = [probe for probe in report.backends if probe.code is not None]
    if unanswered:
        probe = unanswered[0]
        text = f"Cannot tell whether {probe.name} has devices: {sentence(probe.reason or '-')}"
        return said(report, "untrusted", (text,))
    gpus = _distinct(d for d in report.devices if not d.in_host_memory)
    others = _distinct(d for d in report.devices if d.in_host_memory and d.kind is not Kind.CPU)
    cores = _distinct(d for d in report.devices if d.kind is Kind.CPU)
    counts = ((gpus, "GPU"), (others, "OpenCL device"), (cores, "core"))
    usable = " and ".join(counted(count, noun) for count, noun in counts if count)
    text = report.source.text if report.source else ""
    scripted = " --backend fake" if any(d.backend == "fake" for d in report.devices) else ""
    how = f'Map them with: gpumap check "{text}"{scripted}'
    if gpus or others:
        one = gpus + others + cores == 1
        return said(report, "good", (f"{usable} {'is' if one else 'are'} usable.", how))
    fixes = [p.fix for p in report.backends if p.fix and not p.usable]
    more = f"Add one: {fixes[0]}" if fixes else how
    first = f"No GPU or OpenCL device is usable; {usable} {'is' if cores == 1 else 'are'}."
    return said(report, "below", (first, more))


def _distinct(found: Iterable[Device]) -> int:
    """Return how many devices there are; one that two backends drive counts once."""
    seen: list[frozenset[str]] = []
    for device in found:
        who = device.hardware or frozenset((device.id,))
        if not any(who & other for other in seen):
            seen.append(who)
    return len(seen)


# --- doctor

_UNTOLD = ("GM409", "GM535", "GM537")  # causes by which nothing is known of the device


def doctor(report: Report) -> Headline:
    """Answer whether each name's device is used, and why not."""
    found = report.diagnoses
    if not found:
        first = "Nothing to diagnose: no map is given and this machine has no GPU."
        return said(report, "untrusted", (first, "The CPU works."))
    bad = [each for each in found if each.findings]
    if not bad:
        if found[0].interpreter is not None:
            listed = ", ".join(middle(each.name or "") for each in found)
            return said(
                report, "good", (f"{listed} {'uses' if len(found) == 1 else 'use'} the GPU.",)
            )
        used = [middle(each.name or "the map") for each in found]
        listed = f": {', '.join(used)}" if len(found) <= _FEW else ""
        text = f"{capital(every(len(found)))} are used{listed}."
        return said(report, "good", (f"{used[0]} is used." if len(found) == 1 else text,))
    worst = next((each for each in bad if each.verdict == "not used"), bad[0])
    return _diagnosed(report, worst, len(bad) - 1)


def _diagnosed(report: Report, worst: Diagnosis, others: int) -> Headline:
    finding = worst.findings[0]
    level: Level = "failed" if worst.verdict == "not used" else "below"
    if finding.code in _UNTOLD or finding.cause == "no-time":
        level = "untrusted"
    whose = middle(worst.name) if worst.name is not None else "The map"
    how = {"not used": "not used", "partly": "used in part"}.get(worst.verdict, worst.verdict)
    first = f"{whose} is {how}: {finding.text} ({finding.code})."
    if worst.interpreter is not None:
        likely = "likely " if finding.certainty == "likely" else ""
        first = f"{whose} uses no GPU: {likely}{finding.text} ({finding.code})."
    if level == "untrusted":
        first = f"{whose}: cannot tell; {finding.text} ({finding.code})."
    more = (f"{counted(others, 'other name')} has causes too.",) * (others == 1)
    more += (f"{others} other names have causes too.",) * (others > 1)
    subject = About(cause=finding.cause)
    return said(report, level, (first, f"Fix: {sentence(finding.fix)}", *more), subject)

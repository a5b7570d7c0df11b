"""Headlines of commands without a benchmark: maps, devices, self-tests, predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.judge.phrases import (
    ENDS,
    FEW,
    About,
    answer,
    capital,
    every,
    fix,
    interval,
    longer,
    percent,
    sentence,
    value,
    verb,
)
from gpumap.kinds import KINDS, Kind
from gpumap.text import middle
from gpumap.units import amount, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumap import model
    from gpumap.model import Device, Headline, Level, Report

_NAME = 28  # characters of a device's name, or of a row of a table
_BEFORE = {
    **ENDS,
    "wrong-data": "Round trip of 4 KiB failed: ",
    "error": "Not checked: ",
    "absent": "Not checked: ",
}
_SHARED = "shared-hardware"
_SPLIT = 0.5  # of the ideal: what stays below is not worth the devices
FEWEST = 5  # comparisons of a self-test

# --- check


def check(report: Report, _: model.Checked) -> Headline:
    """Answer whether a map is true."""
    if any(problem.exit != 0 for problem in report.errors):
        return _unmapped(report)
    bindings = report.bindings
    if not bindings:
        count = len(report.map.entries) if report.map else 0
        entries = f"The map is well-formed ({counted(count, 'name')})"
        text = f"{entries}; no device was looked for (--syntax-only)."
        return answer(report, "untrusted", (text,))
    whole = f"{capital(every(len(bindings)))} {verb(bindings, 'is', 'are')} mapped"
    shared = next((note.message for note in report.notes if note.code == _SHARED), None)
    if shared is not None:
        but = f"{whole}, but {shared.partition(' (')[0]}."
        return answer(report, "below", (but, "Use --distinct to refuse this."))
    if not report.settings.get("opened", True):
        return answer(report, "untrusted", (f"{whole}; no device was opened.",))
    if len(bindings) <= FEW:
        whole += ": " + ", ".join(f"{middle(b.name)} = {_called(b.device)}" for b in bindings)
    there = "it" if len(bindings) == 1 else "each"
    return answer(report, "good", (f"{whole}.", f"4 KiB went to {there} and back, verified."))


def _called(device: Device) -> str:
    identity = device.pci or device.uuid
    return middle(device.name, _NAME) + (f" ({identity})" if identity else "")


def _unmapped(report: Report) -> Headline:
    """Return the first reason why a map is not true, its fix, and how many more there are."""
    wrong = [p.diagnostic for p in report.errors if p.exit != 0]
    first, placed = wrong[0], {error.entry for error in wrong if error.entry is not None}
    total = len(report.map.entries) if report.map else 0
    before, more = _BEFORE.get(report.status, ""), ""
    if placed and total and report.exit_code in (2, 3):
        some = f"{len(placed)} of {counted(total, 'name')}" if total > 1 else "The name"
        before = f"{some} {verb(placed, 'is', 'are')} not mapped: "
    elif len(wrong) > 1:
        more = f"{counted(len(wrong) - 1, 'more error')}."
    message, hint = first.message, first.hint if total else None
    if first.code == "strict":
        warned = next((n.message for n in report.notes if n.severity == "warning"), "")
        message, hint = f"{message}: {warned}", None
    return answer(report, "failed", (sentence(f"{before}{message}"), fix(hint), more))


# --- devices


def devices(report: Report, _: model.Listed) -> Headline:
    """Answer what can be used, and how to map it."""
    nouns = dict.fromkeys(row.noun for row in KINDS.values())
    counts = {n: _distinct(d for d in report.devices if _noun(d) == n) for n in nouns}
    cores = counts[KINDS[Kind.CPU].noun] = _cores(report.devices)
    usable = " and ".join(counted(count, noun) for noun, count in counts.items() if count)
    be = "is" if sum(counts.values()) == 1 else "are"
    unanswered = [probe for probe in report.backends if probe.code is not None]
    if unanswered:
        who = " and ".join(probe.name for probe in unanswered)
        have = verb(unanswered, "has", "have")
        text = f"Cannot tell whether {who} {have} devices: {sentence(unanswered[0].reason or '-')}"
        return answer(report, "untrusted", (f"{usable} {be} usable.", text))
    how = f"Map {'it' if be == 'is' else 'them'} with: {check_line(report)}"
    if sum(counts.values()) > cores:
        return answer(report, "good", (f"{usable} {be} usable.", how))
    ways = [probe for probe in report.backends if probe.fix and not probe.usable]
    ways.sort(key=lambda probe: probe.version is None)  # what is installed needs the least
    more = f"Add one: {ways[0].fix}" if ways else how
    first = f"No GPU or OpenCL device is usable; {usable} {'is' if cores == 1 else 'are'}."
    return answer(report, "below", (first, more))


def check_line(report: Report) -> str:
    """Return the command that checks the map that lists every device, by the backend asked."""
    text = report.source.text if report.source else ""
    kinds = {entry.ref.kind for entry in report.map.entries} if report.map else set()
    requested = report.backends[0].name if len(report.backends) == 1 else ""
    usual = all(kind.row.backends[0] == requested for kind in kinds)
    option = f" --backend {requested}" if requested and not usual else ""
    return f'gpumap check "{text}"{option}'


def _noun(device: Device) -> str:
    """Return what people call a device; one of OpenCL with memory of its own is a GPU to them."""
    own_memory = not device.kind.row.accelerators and not device.in_host_memory
    return "GPU" if own_memory else device.kind.row.noun


def _cores(devices: Iterable[Device]) -> int:
    """Return how many cores there are; a device may have all of them."""
    found = [device for device in devices if device.kind.row.cores]
    return len({each for device in found for each in device.hardware}) or _distinct(found)


def _distinct(candidates: Iterable[Device]) -> int:
    """Return how many devices there are; one that two backends drive counts once."""
    counted_hardware: list[frozenset[str]] = []
    for device in candidates:
        who = device.hardware or frozenset((device.id,))
        if not any(who & other for other in counted_hardware):
            counted_hardware.append(who)
    return len(counted_hardware)


# --- doctor

_UNKNOWN = ("GM409", "GM535", "GM537")  # causes by which nothing is known of the device


def doctor(report: Report, result: model.Diagnosed) -> Headline:
    """Answer whether each name's device is used, and why not."""
    diagnoses = result.diagnoses
    if not diagnoses:
        first = "Nothing to diagnose: no map is given and this machine has no GPU."
        why = 'Why one is not used: gpumap doctor "dev0->cuda0".'
        return answer(report, "untrusted", (first, "The CPU works.", why))
    bad = [each for each in diagnoses if each.findings]
    if not bad:
        used = [middle(each.name or "the map") for each in diagnoses]
        listed = f": {', '.join(used)}" if len(used) <= FEW else ""
        text = f"{capital(every(len(used)))} are used{listed}."
        text = f"{used[0]} is used." if len(used) == 1 else text
        if diagnoses[0].interpreter is not None:
            text = f"{', '.join(used)} {verb(used, 'uses', 'use')} the GPU."
        return answer(report, "good", (text,))
    worst = next((each for each in bad if each.verdict == "not used"), bad[0])
    return _diagnosed(report, worst, bad)


def _diagnosed(report: Report, worst: model.Diagnosis, bad: Sequence[model.Diagnosis]) -> Headline:
    finding = worst.findings[0]
    level: Level = "failed" if worst.verdict == "not used" else "below"
    if finding.code in _UNKNOWN or finding.cause == "no-time":
        level = "untrusted"
    whose = middle(worst.name) if worst.name is not None else "The map"
    how = "is used in part" if worst.verdict == "partly" else f"is {worst.verdict}"
    how = "uses no GPU" if worst.interpreter is not None else how
    how = "may be used or not" if level == "untrusted" else how
    likely = "likely " if finding.certainty == "likely" else ""
    first = f"{whose} {how}: {likely}{finding.text} ({finding.code})."
    unused, others = all(each.verdict == "not used" for each in bad), len(bad) - 1
    be, have = ("is", "has") if others == 1 else ("are", "have")
    too = f"{be} not used either" if unused else f"{have} causes too"
    more = f"{counted(others, 'other name')} {too}." if others else ""
    subject = About(cause=finding.cause)
    return answer(report, level, (first, f"Fix: {sentence(finding.fix)}", more), subject)


# --- selftest


def selftest(report: Report, tested: model.Tested) -> Headline | None:
    """Answer whether this machine measures truthfully; None where errors left nothing to judge."""
    alarms = tested.alarms
    if report.errors and not alarms:
        return None
    false, runs = sum(each.false for each in alarms), sum(each.runs for each in alarms)
    if min((each.runs for each in alarms), default=0) < FEWEST:
        text = f"No conclusion: {counted(runs, 'comparison')} in this time; more are needed."
        return answer(report, "untrusted", (text, f"Repeat with {longer(report)}."))
    unclear, limit = sum(each.inconclusive for each in alarms), f"{alarms[0].threshold * 100:g} %"
    subject = About(max(alarms, key=lambda each: each.false + each.inconclusive).id)
    quiet = "Use a larger --threshold, or a quieter machine."
    if false or unclear:
        what = f"{false} false alarms" if false else f"noise hides them in {unclear}"
        text = f"Differences of {limit} cannot be told apart from noise here: {what}"
        text += f" of {counted(runs, 'comparison')}."
        return answer(report, "below", (text, quiet), subject)
    none = f"gave 0 false alarms in {runs} at {limit}, and every round trip is right."
    what = middle(alarms[0].name) if len(alarms) == 1 else "each device"
    text = f"This machine measures truthfully: comparing {what} with itself {none}"
    return answer(report, "good", (text,), subject)


# --- predict


def predict(report: Report, predicted: model.Predicted) -> Headline:
    """Answer what more devices would give, or what a published table says of them."""
    if predicted.published is not None:
        return _published(report, predicted.published)
    result = predicted.prediction
    assert result is not None
    most = max(forecast.devices for forecast in result.forecasts)
    last = [forecast for forecast in result.forecasts if forecast.devices == most]
    if any("speedup" in forecast.metrics for forecast in last):
        return _gained(report, result, max(last, key=lambda each: each.metrics["speedup"].value))
    best = min(last, key=lambda each: each.metrics["comm"].value)
    comm = best.metrics["comm"]
    text = f"Exchanging {amount(result.nbytes)} between {most} devices should take {value(comm)}"
    more = "--compute gives the time of a step, and so a speed-up."
    subject = About(metric="comm", figure=comm)
    return answer(report, "good", (f"{text} with {best.algorithm}.", more), subject)


def _gained(report: Report, result: model.Prediction, best: model.Forecast) -> Headline:
    """Return how many times as fast a step is, and what keeps it from more."""
    gain, share = best.metrics["speedup"], best.metrics["comm"].value / best.metrics["time"].value
    text = f"{counted(best.devices, 'device')} should train {value(gain)} times as fast as one"
    if gain.low < gain.high and gain.has_interval:
        text += f" ({interval(gain).removeprefix('CI ')})"
    text += f" with {best.algorithm}"
    subject, computed = About(metric="speedup", figure=gain), "Computed, not measured."
    if gain.value >= _SPLIT * best.devices:
        return answer(report, "good", (f"{text}.", computed), subject)
    why = f"exchanging {amount(result.nbytes)} takes {percent(share)} of a step"
    return answer(report, "below", (f"{text}: {why}.", computed), subject)


def _published(report: Report, table: model.Published) -> Headline:
    best = max(table.cells, key=lambda cell: (cell.devices, cell.metrics["speedup"].value))
    gain = best.metrics["speedup"]
    what = f"{middle(best.row, _NAME)} on {counted(best.devices, 'device')}"
    text = f"{what} trained {value(gain)} times as fast as on one (as published)."
    level: Level = "good" if gain.value >= _SPLIT * best.devices else "below"
    return answer(report, level, (text,), About(metric="speedup", figure=gain))

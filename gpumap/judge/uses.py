"""What a program did with the devices of its map, in sentences: used, not used, cannot tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units
from gpumap.judge.phrases import capital, every, percent, said
from gpumap.text import middle
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.model import Headline, Level, Report, Use, Utilisation

_FEW = 3  # names that are written out
_IDLE = 0.5  # of the time
_ENOUGH = 10  # kernels, from which on waits are judged
_MANY = 0.9  # waits for each kernel, from which on a program waits after each call
WHY = {  # of a device: why nothing can be said of it
    "host-threads": "its driver works in the program's own threads",
    "no-address": "its driver reports no PCI address",
    "no-driver": "NVML did not respond",
    "no-permission": "the open files of its processes may not be read",
    "hidden-processes": "processes on it cannot be seen from here",
    "opened-idle": "it was open, and never busy for 1 % of the time",
    "compute-driver": "AMD's compute driver does not report which process works",
    "short-lived": "processes that lived between two looks took CPU time on some core",
    "too-short": "the program ended before the first look",
}


def sentences(found: Utilisation) -> tuple[Level, tuple[str, ...]]:
    """Return whether the devices were used, and how well; a device that was not comes first."""
    unused = [use for use in found.uses if use.verdict == "not-used"]
    unknown = [use for use in found.uses if use.verdict == "unknown"]
    used = [use for use in found.uses if use.verdict == "used"]
    if unused:
        verb = "was" if len(unused) == 1 else "were"
        rest = (_unclear(unknown),) if unknown else _idle(used, found)
        return "below", (f"{_names(unused)} {verb} not used.", *rest)
    if unknown:
        return "untrusted", (_unclear(unknown),)
    level: Level = "good"
    if reasons := _reasons(used):
        level = "below"
    shares = [(use, use.busy) for use in used if use.busy is not None]
    listed = ", ".join(f"{middle(use.name)} {percent(share)}" for use, share in shares[:_FEW])
    if shares and max(share for _, share in shares) < _IDLE:
        level = "below"
    verb = "was" if len(used) == 1 else "were"
    busy = f": {listed} of {seconds(found.elapsed)}" if listed else ""
    text = f"{capital(every(len(used), 'device'))} {verb} used{busy}."
    return level, (text, *reasons, *_moved(used))


def utilisation(report: Report, found: Utilisation) -> Headline:
    """Return the headline of a program that was traced from outside."""
    level, text = sentences(found)
    if found.code:
        end = f"signal {-found.code}" if found.code < 0 else f"exit code {found.code}"
        first = f"The program ended with {end} after {seconds(found.elapsed)}."
        return said(report, "failed", (first, "What was recorded until then follows.", *text))
    return said(report, level, text)


def seconds(time: float) -> str:
    """Return a time with its unit: ``42.0 s``."""
    return units.together((time,), "s")[0]


def _names(uses: Sequence[Use]) -> str:
    if len(uses) > _FEW:
        return f"{len(uses)} devices"
    return " and ".join(middle(use.name) for use in uses)


def _unclear(unknown: Sequence[Use]) -> str:
    first = unknown[0]
    why = f": {WHY[first.why]}" if first.why else ""
    outside = f". From outside: {percent(first.busy)} busy" if first.busy else ""
    return f"Cannot tell whether {_names(unknown)} {_verb(unknown)} used{why}{outside}."


def _verb(uses: Sequence[Use]) -> str:
    return "was" if len(uses) == 1 else "were"


def _idle(used: Sequence[Use], found: Utilisation) -> Iterator[str]:
    """Yield that the device with the most work rested most of the time, and why if that shows."""
    shares = [(use.busy, use) for use in used if use.busy is not None]
    if shares:
        share, use = max(shares, key=lambda pair: pair[0])
        others = use.foreign or 0.0
        if others >= _IDLE:
            yield f"Other programs had {percent(others)} of the time of {middle(use.name)}."
        elif share < _IDLE:
            idle = f"{middle(use.name)} was idle for {percent(1.0 - share)}"
            yield f"{idle} of {seconds(found.elapsed)}."
        else:
            yield f"{middle(use.name)} was busy for {percent(share)} of {seconds(found.elapsed)}."
    yield from _reasons(used)


def _reasons(used: Sequence[Use]) -> list[str]:
    """Return what the counts of a layer say of how the program drives its devices."""
    found = []
    for use in used:
        many = (use.kernels or 0) >= _ENOUGH
        if many and use.waits is not None and use.waits >= _MANY * (use.kernels or 0):
            waits = counted(use.waits, "wait")
            found.append(f"The program waits after each call on {middle(use.name)} ({waits}).")
        if use.copying is not None and use.copying > (use.computing or 0.0):
            times = f"{seconds(use.copying)} of copies, {seconds(use.computing or 0.0)} of kernels"
            found.append(f"{middle(use.name)} copies more than it computes ({times}).")
    return found


def _moved(used: Sequence[Use]) -> Iterator[str]:
    up = [use.bytes_to_device for use in used if use.bytes_to_device is not None]
    down = [use.bytes_to_host for use in used if use.bytes_to_host is not None]
    if up and down:
        sizes = units.memory(sum(up)), units.memory(sum(down))
        yield f"{sizes[0]} went up, {sizes[1]} came down."

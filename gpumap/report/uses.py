"""What a program did with each device of its map, and on how many names, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units
from gpumap.judge.programs import WHY, seconds, shares
from gpumap.report.table import Table, estimate
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpumap.model import Scaled, Scaling, Use, Utilisation

COLUMNS = (
    "name", "device", "used", "busy", "peak", "memory", "to device", "to host", "first use",
    "longest idle", "kernels", "waits", "kernel time", "copy time",
)  # fmt: skip
_RIGHT = COLUMNS[3:]
STEPS = ("names", "time", "speed-up", "busy", "memory", "n")
_NONE = "-"
_NOTABLE = 0.05  # of the time of cores that other programs had


def table(found: Utilisation, refs: Mapping[str, str]) -> Table:
    """Return a row for each name, without columns of which nothing is known.

    Args:
        found: what was seen.
        refs: the devices by their ids, as a map writes them.
    """
    rows = tuple(_row(use, refs.get(use.device, use.device)) for use in found.uses)
    title = f"use of devices in {seconds(found.elapsed)}"
    return Table(title, COLUMNS, rows, tuple(_remarks(found)), right=_RIGHT).full().printable()


def _row(use: Use, device: str) -> tuple[str, ...]:
    return (
        use.name,
        device,
        {"used": "yes", "not-used": "no", "unknown": "cannot tell"}[use.verdict],
        _share(use.busy),
        _share(use.peak),
        units.memory(use.memory),
        units.memory(use.bytes_to_device),
        units.memory(use.bytes_to_host),
        _NONE if use.first is None else f"{use.first:.1f} s",
        _NONE if use.idle is None else f"{use.idle:.1f} s",
        _NONE if use.kernels is None else f"{use.kernels:,}",
        _NONE if use.waits is None else f"{use.waits:,}",
        _NONE if use.computing is None else seconds(use.computing),
        _NONE if use.copying is None else seconds(use.copying),
    )


def _share(share: float | None) -> str:
    return _NONE if share is None else f"{share:.0%}"


def _remarks(found: Utilisation) -> Iterator[str]:
    where = "from outside" if found.command else "between samples"
    yield (
        f"{found.cpu:.1f} s of CPU time, {units.memory(found.memory)} of host memory at most; "
        f"seen {where} at {counted(found.looks, 'look')}"
    )
    for use in found.uses:
        if use.verdict == "unknown" and use.why:
            yield f"{use.name}: cannot tell, {WHY[use.why]}"
        if use.foreign is not None and use.foreign >= _NOTABLE:
            yield f"{use.name}: other programs had {use.foreign:.0%} of its time"
        if use.power is not None or use.throttle:
            power = () if use.power is None else (f"{use.power:.0f} W at most",)
            held = (f"limited by: {', '.join(use.throttle)}",) if use.throttle else ()
            yield f"{use.name}: {'; '.join((*power, *held))}"
    if found.unseen >= _NOTABLE:
        yield f"{found.unseen:.2f} s of CPU time belong to no core: of threads between two looks"


def scaled(found: Scaling) -> Table:
    """Return a row for each number of names that a program was measured on."""
    rows = tuple(map(_step, found.steps))
    remarks = ("median of n runs [95 % interval]; busy: in the last of them, seen from outside",)
    return Table("a program on so many names", STEPS, rows, remarks, right=STEPS[1:])


def _step(step: Scaled) -> tuple[str, ...]:
    failed = step.code is not None
    return (
        str(len(step.names)),
        f"failed, code {step.code}" if failed and step.time is None else estimate(step.time),
        estimate(step.speedup),
        shares(step),
        units.memory(max((run.memory for run in step.runs), default=None)),
        str(len(step.runs)),
    )

"""The use of devices by a program as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.judge.phrases import texts
from gpumap.report.parts import Record
from gpumap.report.table import Table
from gpumap.results.records import known
from gpumap.units import counted, time_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpumap.model import Use, Utilisation

USES = ("name", "device", "used", "busy", "longest idle")


def used(found: Utilisation, refs: Mapping[str, str]) -> Table:
    """Return a row for each name, without columns of which nothing is known.

    Args:
        found: what was seen.
        refs: the devices by their ids, as a map writes them.
    """
    rows = tuple(_use(use, refs.get(use.device, use.device)) for use in found.uses)
    title = f"use of devices in {time_of(found.elapsed)}"
    return Table(title, USES, rows, tuple(_uses_remarks(found)), right=USES[3:]).full()


def _use(use: Use, device: str) -> tuple[str, ...]:
    return (
        use.name,
        device,
        {"used": "yes", "not-used": "no", "unknown": "cannot tell"}[use.verdict],
        "-" if use.busy is None else f"{use.busy:.0%}",
        "-" if use.idle is None else f"{use.idle:.1f} s",
    )


def _uses_remarks(found: Utilisation) -> Iterator[str]:
    yield f"{found.cpu:.1f} s of CPU time; seen from outside at {counted(found.looks, 'look')}"
    for use in found.uses:
        if use.verdict == "unknown" and use.why:
            yield f"{use.name}: cannot tell, {texts('unseen')[use.why]}"


def of_use(use: Use) -> Record:
    """Return the record of how busy a device was, seen from outside."""
    cells = {"names": use.name, "devices": use.device, "status": use.verdict, "reason": use.why}
    return Record("use", None, cells, {"busy": known(use.busy, "1")})

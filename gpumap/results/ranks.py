"""Ranks of a job as a table: which process has which device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.report.table import Table
from gpumap.results.mapped import place
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Rank

RANKS = ("rank", "local", "host", "process", "name", "device", "identity", "NUMA", "cores")


def table(ranks: Sequence[Rank]) -> Table:
    """Return a row for each rank."""
    rows = tuple(map(_rank, ranks))
    machines = counted(len({rank.host for rank in ranks}), "machine")
    return Table(f"{len(rows)} ranks on {machines}", RANKS, rows, ())


def _rank(rank: Rank) -> tuple[str, ...]:
    process = (str(rank.number), str(rank.local), rank.host, str(rank.process))
    if rank.binding is None:
        return (*process, *["-"] * (len(RANKS) - len(process)))
    device = rank.binding.device
    identity = device.uuid or device.pci or "-"
    return (*process, rank.binding.name, str(device.ref), identity, *place(device))

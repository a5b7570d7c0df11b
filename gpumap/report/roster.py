"""Which rank of a job sits on which device of which machine, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.report.table import Table
from gpumap.text import printable
from gpumap.units import ranges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.model import Rank, Report

_COLUMNS = ("rank", "local", "host", "process", "name", "device", "identity", "NUMA", "cores")
_NONE = "-"


def tables(report: Report) -> Iterator[Table]:
    """Yield the table, where the process was one of several; all of its text is printable."""
    if not report.ranks:
        return
    rows = tuple(tuple(map(printable, _row(rank))) for rank in report.ranks)
    hosts = len({rank.host for rank in report.ranks})
    machines = "1 machine" if hosts == 1 else f"{hosts} machines"
    yield Table(f"{len(rows)} ranks on {machines}", _COLUMNS, rows, ())


def _row(rank: Rank) -> tuple[str, ...]:
    process = (str(rank.number), str(rank.local), rank.host, str(rank.process))
    if rank.binding is None:
        return (*process, *[_NONE] * (len(_COLUMNS) - len(process)))
    device = rank.binding.device
    node = _NONE if device.numa_node is None else str(device.numa_node)
    cores = ranges(device.cores) or _NONE
    identity = device.uuid or device.pci or _NONE
    return (*process, rank.binding.name, str(device.ref), identity, node, cores)

"""Where processes really run: what the kernel says of each, beside what was planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.machine.numa import memory_taken_of
from gpumap.machine.tree import cpu_list
from gpumap.units import ranges

if TYPE_CHECKING:
    from gpumap.launch.places import Place

_KEY = "Cpus_allowed_list:"


def cores_of(process: int) -> tuple[int, ...] | None:
    """Return the cores that a process may run on; None: nobody knows."""
    try:
        with open(f"/proc/{process}/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            lines = file.read().splitlines()
    except OSError:
        return None
    return next((cpu_list(x.removeprefix(_KEY)) for x in lines if x.startswith(_KEY)), None)


def contradiction(place: Place, process: int, *, memory: bool) -> str | None:
    """Return how a process is bound otherwise than planned; None: it is as planned.

    Its memory is looked at where the kernel took that rule.
    """
    seen = cores_of(process)
    if seen != place.cores:
        where = "nobody knows where" if seen is None else f"on {ranges(seen)}"
        return f"was to run on {ranges(place.cores)}, and runs {where}"
    if place.memory is not None and memory:
        nodes = memory_taken_of(process)
        if nodes is not None and nodes != (place.memory,):
            taken = ranges(nodes) or "any"
            return f"was to take memory of node {place.memory}, and takes that of {taken}"
    return None

"""The call of mpirun that starts each rank of a map with its own variables, on its own cores.

One application context for each rank, joined by ":", so that ranks are places in the map. What a
context needs stands in its own command (``env``, ``taskset``): the options of Open MPI, MPICH and
Intel MPI for that have little in common.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpumap.launch.proof import ranges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumap.launch.places import Place

SEPARATOR = ":"
# Open MPI binds to cores of its own choice, and refuses more ranks than it has counted cores.
_OPEN_MPI = ("--bind-to", "none", "--oversubscribe")


def without_memory(places: Sequence[Place]) -> tuple[Place, ...]:
    """Return places as mpirun can give them: nothing tells its ranks of memory."""
    why = "memory is not bound: by mpirun"
    return tuple(
        p if p.memory is None else replace(p, memory=None, why=f"{p.why}; {why}") for p in places
    )


def call(
    program: str,
    version: str,
    ranks: Sequence[tuple[Place, Mapping[str, str]]],
    command: Sequence[str],
) -> tuple[str, ...]:
    """Return the words of the call.

    Args:
        program: mpirun.
        version: what it says of itself.
        ranks: the place and the variables of each.
        command: what each runs.
    """
    words = [program, *(_OPEN_MPI if _is_open_mpi(version) else ())]
    for number, (place, variables) in enumerate(ranks):
        words += [SEPARATOR] if number else []
        words += ["-np", "1", "env", *(f"{key}={value}" for key, value in variables.items())]
        words += ["taskset", "-c", ranges(place.cores)] if place.cores else []
        words += command
    return tuple(words)


def _is_open_mpi(version: str) -> bool:
    return "Open MPI" in version or "OpenRTE" in version

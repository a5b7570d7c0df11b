"""The call of mpirun: application contexts, joined by ":".

One context for each rank of a map makes its ranks places in the map. What such a context needs is
in its own command (``env``, ``taskset``): the options of Open MPI, MPICH and Intel MPI for that
have little in common.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpumap.units import ranges

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


@dataclass(frozen=True, slots=True)
class Context:
    """A command, how many ranks of it there are, and on which host; None: wherever mpirun likes."""

    command: tuple[str, ...]
    ranks: int = 1
    host: str | None = None


def placed(
    ranks: Sequence[tuple[Place, Mapping[str, str]]], command: Sequence[str]
) -> tuple[Context, ...]:
    """Return a context for each rank: `command` with its variables, on its cores."""
    return tuple(
        Context(
            (
                "env",
                *(f"{key}={value}" for key, value in variables.items()),
                *(("taskset", "-c", ranges(place.cores)) if place.cores else ()),
                *command,
            )
        )
        for place, variables in ranks
    )


def call(program: str, version: str, contexts: Sequence[Context]) -> tuple[str, ...]:
    """Return the words of the call.

    Args:
        program: mpirun.
        version: what it says of itself.
        contexts: what it starts, in the order of the ranks.
    """
    open_mpi = "Open MPI" in version or "OpenRTE" in version
    words = [program, *(_OPEN_MPI if open_mpi else ())]
    for number, context in enumerate(contexts):
        words += [SEPARATOR] if number else []
        words += ["-host", context.host] if context.host is not None else []
        words += ["-np", str(context.ranks), *context.command]
    return tuple(words)

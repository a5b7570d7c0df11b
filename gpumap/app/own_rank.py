"""Rank of this process among several, and its entry of the map."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gpumap.distributed.ranks import launched
from gpumap.errors import Diagnostic, QuestionError
from gpumap.model import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.app.program import Program
    from gpumap.distributed.ranks import Launch
    from gpumap.model import ContextMap

OURS = "gpumap run"  # as the launcher of its processes
TURN = 5.0  # seconds in which rank 0 reports a common error, and the launcher ends the others


def several(program: Program) -> Launch | None:
    """Return which of several ranks this process is; None where it runs alone."""
    launch = launched(program.env)
    if launch is None or launch.size == 1:
        return None
    # `gpumap run` sets the variables of torchrun, which itself leaves one more
    ours = _ours(program) and "TORCHELASTIC_RUN_ID" not in program.env
    return replace(launch, by=OURS) if ours and launch.by == "torchrun" else launch


def rank_of(program: Program) -> tuple[Launch | None, tuple[Diagnostic, ...]]:
    """Return the launch of this process as a rank, and a warning where that is unclear.

    RANK and WORLD_SIZE stand in many a container that no launcher has started.
    """
    try:
        return several(program), ()
    except QuestionError as error:
        return None, tuple(replace(d, severity="warning") for d in error.diagnostics)


def check_single_process(program: Program, command: str) -> tuple[Diagnostic, ...]:
    """Return a note where other processes measure at the same time.

    Raises:
        QuestionError: they are ranks that the user has started for one measurement.
    """
    launch, doubts = rank_of(program)
    if launch is None:
        return doubts
    if not _ours(program):
        fix = "start it without a launcher, or one for each name: gpumap run MAP -- gpumap ..."
        raise refused(launch, f"{command} measures the devices of one process", fix)
    text = f"one of {launch.size} processes that measure at the same time: they share the machine"
    return (Diagnostic("several", text, severity="note"),)


def refused(launch: Launch, what: str, fix: str) -> QuestionError:
    """Return the refusal to be one of several processes; rank 0 reports it first."""
    if launch.rank:
        time.sleep(TURN)
    return QuestionError(f"{what}, and {launch.by} has started {launch.size}", fix)


def unbound(program: Program) -> None:
    """Undo what mpirun has bound: two ranks to a core each, whatever the map says."""
    if not _ours(program):  # `gpumap run` has bound by the map
        from gpumap.machine.process_control import unbind

        unbind()


def _ours(program: Program) -> bool:
    """Return whether `gpumap run` has started this process."""
    from gpumap.launch.placement import TOKEN  # which a process alone need not load

    return TOKEN in program.env


def local_rank(program: Program) -> int:
    """Return the number of this process among the ranks of its machine."""
    launch = several(program)
    return launch.local_rank if launch else 0


def entry_index(names: Sequence[str], program: Program) -> int:
    """Return the index of this rank's name in a map.

    Raises:
        QuestionError: there are more ranks on this node than names in the map.
    """
    if names == [program.env.get("GPUMAP_NAME")] and _ours(program):
        return 0  # `gpumap run` gives each its own entry
    index = local_rank(program)
    if index < len(names):
        return index
    import socket  # 4 ms, which a check without a launcher spares

    count = "one name" if len(names) == 1 else f"{len(names)} names"
    message = f"it is rank number {index + 1} of {socket.gethostname()}, and the map has {count}"
    raise QuestionError(message, "start a rank for each name, or map another name")


def rank_entry(context_map: ContextMap, program: Program) -> ContextMap:
    """Return the map with only the entry of this rank.

    Raises:
        QuestionError: there are more ranks on this machine than names in the map.
    """
    index = entry_index([entry.name for entry in context_map.entries], program)
    return replace(context_map, entries=(context_map.entries[index],))

"""A check that every rank of a job runs for itself, and of which the first one reports for all.

MPI brings what the others have found to rank 0. Where it has not started them, or is not there,
each rank reports for itself.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpumap.app.mpi_job import (
    Answer,
    left,
    named,
    nodes,
    ranks,
    seated_at,
    start,
    told,
    twice,
    unknown_to_mpi,
)
from gpumap.app.own_rank import OURS, TURN, local_rank, unbound
from gpumap.errors import Diagnostic, Exit, GpumapError, QuestionError
from gpumap.judge.exit_status import exit_code
from gpumap.model import Problem, Resolution, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.app.program import Program
    from gpumap.app.recording import Draft, Recording
    from gpumap.distributed.ranks import Launch
    from gpumap.model import Binding, ContextMap, Report

_PAUSE = 0.02  # seconds between two looks: who waits in MPI keeps a core busy
_NAMED = 16  # ranks of those that are missing


@contextmanager
def together(record: Recording, program: Program, launch: Launch, limit: float) -> Iterator[None]:
    """Take what all ranks of a job find into the report of the first; else each has its own."""
    unbound(program)
    try:
        comm = _world(program, launch, limit)
    except GpumapError as error:
        own = f"rank {launch.rank} of {launch.size} reports for itself: "
        record.draft.remarks += [
            Diagnostic("several", own + each.message, hint=each.hint, severity="note")
            for each in error.diagnostics
        ]
        comm = None
    if comm is None:
        yield
        _forget_unused(record.draft)
        return
    with (_following if comm.Get_rank() else _leading)(record, program, comm):
        yield


def _world(program: Program, launch: Launch, limit: float) -> Any:
    """Return MPI's communicator of all ranks; raises AbsentError, QuestionError."""
    if launch.by in (OURS, "torchrun"):
        (known,) = unknown_to_mpi(launch, program).diagnostics
        raise QuestionError(f"{launch.by} starts no MPI", known.hint)
    return start(program, limit)


@contextmanager
def _following(record: Recording, program: Program, comm: Any) -> Iterator[None]:
    """Send what this rank has found to rank 0, instead of printing it."""

    def deliver(report: Report) -> int:
        answer = _answer(program, comm, report.bindings, report.map, report.errors)
        comm.send(answer, dest=0)
        if answer.code == Exit.TIMEOUT:  # its device hangs: rank 0 speaks, and ends before it
            time.sleep(TURN)
        return Exit.OK

    record.deliver = deliver
    yield


@contextmanager
def _leading(record: Recording, program: Program, comm: Any) -> Iterator[None]:
    """Take what the others have found into the report, also where this rank has found nothing."""
    missing = [f"rank {rank}" for rank in range(1, comm.Get_size())]
    record.limit.silent = lambda: missing[:_NAMED]
    draft, found = record.draft, list[Problem]()
    try:
        yield
    except GpumapError as error:
        found = [Problem(d, error.exit_code) for d in error.diagnostics]
    except BaseException:
        record.ending.broken = True  # MPI would wait for the others to the end
        raise
    _forget_unused(draft)
    record.limit.doing = "waiting for the other ranks"
    others = []
    while missing:
        if not comm.Iprobe():
            time.sleep(_PAUSE)
            continue
        others.append(comm.recv())
        missing.remove(f"rank {others[-1].seat.rank}")
    record.limit.doing = ""
    record.ending.broken = any(answer.code == Exit.TIMEOUT for answer in others)
    bindings = draft.resolution.bindings if draft.resolution else ()
    mine = _answer(program, comm, bindings, draft.map, (*draft.take_problems(), *found))
    _join(draft, [mine, *sorted(others, key=lambda answer: answer.seat.rank)])


def _answer(
    program: Program,
    comm: Any,
    bindings: Sequence[Binding],
    context_map: ContextMap | None,
    problems: Sequence[Problem],
) -> Answer:
    """Return what this rank has found."""
    entries = context_map.entries if context_map else ()
    binding = bindings[0] if bindings else None
    local = local_rank(program)
    place = 0 if len(entries) == 1 else local  # `gpumap run` gives each its own
    known = entries[place].name if place < len(entries) else "?"
    seat = seated_at(comm, binding.name if binding else known)
    code = exit_code(problem.exit for problem in problems)
    told = tuple(problem.diagnostic for problem in problems)
    return Answer(seat, binding, told, Exit(code), local)


def _join(draft: Draft, answers: Sequence[Answer]) -> None:
    """Let the report be of all ranks."""
    for answer in answers:
        for problem in told(answer):
            draft.refuse(problem, answer.code)
    for clash in twice(answers):
        draft.refuse(clash)
    names = [entry.name for entry in draft.map.entries] if draft.map else ()
    draft.remarks += [*left(names, answers), *nodes([answer.seat for answer in answers])]
    draft.ranks = ranks(answers)
    bindings = tuple(named(answers))
    if bindings and draft.map is not None:
        draft.use(bindings)
        _forget_unused(draft)
        notes = draft.resolution.notes if draft.resolution else ()
        draft.resolution = Resolution(draft.map, bindings, notes)


def _forget_unused(draft: Draft) -> None:
    """Drop the note of devices that one rank leaves unused: they are another one's."""
    if (found := draft.resolution) is not None:
        notes = tuple(note for note in found.notes if note.code != "unused")
        draft.resolution = replace(found, notes=notes)

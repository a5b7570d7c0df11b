"""A check that every rank of a job runs, and that rank 0 reports for all.

The engine of the ranks sends the results of the others to rank 0. Where it is not there, each rank
has a report.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpumap.app import rank_table
from gpumap.app.engines import start
from gpumap.app.given_map import use
from gpumap.app.program import TURN, local_rank, unbound
from gpumap.app.rank_table import Answer, rank_info, rank_problems, shared_devices
from gpumap.comm.engines import engine_of
from gpumap.errors import Diagnostic, Exit, GpumapError
from gpumap.judge.exit_status import exit_code
from gpumap.model import Problem, Resolution, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.app.program import Program
    from gpumap.app.recording import Draft, Recording
    from gpumap.comm.base import ProcessComm
    from gpumap.comm.ranks import Launch
    from gpumap.model import Binding, ContextMap, Report

_PAUSE = 0.02  # seconds between two polls: waiting in MPI keeps a core busy
_NAMED = 16  # ranks of those that are missing


@contextmanager
def one_report(record: Recording, program: Program, launch: Launch, limit: float) -> Iterator[None]:
    """Collect the results of all ranks in the report of rank 0, where an engine connects them."""
    unbound(program)
    try:
        record.limit.doing = "waiting for the other ranks"
        comm = start(program, limit, engine_of(launch, program.env))
    except GpumapError as error:
        prefix = f"rank {launch.rank} of {launch.size} reports for itself: "
        record.draft.remarks += [
            Diagnostic("several", prefix + each.message, hint=each.hint, severity="note")
            for each in error.diagnostics
        ]
        comm = None
    record.limit.doing = ""
    if comm is None:
        yield
        _forget_unused(record.draft)
        return
    with (_following if comm.rank else _leading)(record, program, comm):
        yield


@contextmanager
def _following(record: Recording, program: Program, comm: ProcessComm) -> Iterator[None]:
    """Send this rank's result to rank 0, instead of printing it."""

    def deliver(report: Report) -> int:
        answer = _answer(program, comm, report.bindings, report.map, report.errors)
        comm.send(answer, 0)
        comm.close()
        if answer.code == Exit.TIMEOUT:  # its device hangs: rank 0 reports, and ends before it
            time.sleep(TURN)
        return Exit.OK

    record.deliver = deliver
    yield


@contextmanager
def _leading(record: Recording, program: Program, comm: ProcessComm) -> Iterator[None]:
    """Collect the results of the others in the report, also where this rank has a problem."""
    missing = [f"rank {rank}" for rank in range(1, comm.size)]
    record.limit.silent = lambda: missing[:_NAMED]
    draft, problems = record.draft, list[Problem]()
    try:
        yield
    except GpumapError as error:
        problems = [Problem(d, error.exit_code) for d in error.diagnostics]
    except BaseException:
        record.ending.broken = True  # the engine may wait for the others
        raise
    _forget_unused(draft)
    record.limit.doing = "waiting for the other ranks"
    others = []
    while missing:
        if not comm.waiting():
            time.sleep(_PAUSE)
            continue
        others.append(comm.receive()[0])
        missing.remove(f"rank {others[-1].info.rank}")
    comm.close()
    record.limit.doing = ""
    record.ending.broken = any(answer.code == Exit.TIMEOUT for answer in others)
    bindings = draft.resolution.bindings if draft.resolution else ()
    mine = _answer(program, comm, bindings, draft.map, (*draft.take_problems(), *problems))
    _join(draft, [mine, *sorted(others, key=lambda answer: answer.info.rank)])


def _answer(
    program: Program,
    comm: ProcessComm,
    bindings: Sequence[Binding],
    context_map: ContextMap | None,
    problems: Sequence[Problem],
) -> Answer:
    """Return this rank's result."""
    entries = context_map.entries if context_map else ()
    binding = bindings[0] if bindings else None
    local = local_rank(program)
    index = 0 if len(entries) == 1 else local  # `gpumap run` gives each one entry
    known = entries[index].name if index < len(entries) else "?"
    info = rank_info(comm, binding.name if binding else known)
    code = exit_code(problem.exit for problem in problems)
    diagnostics = tuple(problem.diagnostic for problem in problems)
    return Answer(info, binding, diagnostics, Exit(code), local)


def _join(draft: Draft, answers: Sequence[Answer]) -> None:
    """Merge the answers of all ranks into the report."""
    for answer in answers:
        for problem in rank_problems(answer):
            draft.refuse(problem, answer.code)
    for clash in shared_devices(answers):
        draft.refuse(clash)
    names = [entry.name for entry in draft.map.entries] if draft.map else ()
    bindings = rank_table.record(draft, names, answers)
    if bindings and draft.map is not None:
        use(draft, bindings)
        _forget_unused(draft)
        notes = draft.resolution.notes if draft.resolution else ()
        draft.resolution = Resolution(draft.map, bindings, notes)


def _forget_unused(draft: Draft) -> None:
    """Drop the note of devices that this rank leaves unused: other ranks use them."""
    if (resolution := draft.resolution) is not None:
        notes = tuple(note for note in resolution.notes if note.code != "unused")
        draft.resolution = replace(resolution, notes=notes)

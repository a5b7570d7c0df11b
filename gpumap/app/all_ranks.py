"""A command that every rank of a job runs for itself, and of which the first one reports for all.

Each rank has a report of its own. Those of the others go to rank 0, as the JSON that a file would
hold, and are read with the same care.
"""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Self

from gpumap.app.output import say
from gpumap.app.own_rank import local_rank, unbound
from gpumap.app.rank_table import Answer, left, named, nodes, ranks, told, twice
from gpumap.errors import AbsentError, Diagnostic, Exit, GpumapError
from gpumap.judge.exit_code import exit_code
from gpumap.model import Problem, Resolution
from gpumap.parallel.comm.meeting import Caller
from gpumap.parallel.comm.watch import Seat

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.app.draft import Draft
    from gpumap.app.program import Program
    from gpumap.app.recording import Recording
    from gpumap.model import Binding, ContextMap, Report
    from gpumap.parallel.launch import Launch

_DIED = "look at its output and at dmesg: what has no memory left is killed"
_ODD = "let every rank run the same gpumap"


class Others(Protocol):
    """The other ranks, as rank 0 hears them."""

    @property
    def missing(self) -> Sequence[str]:
        """Return who has not said what it has found."""

    def hear(self) -> Sequence[Caller]:
        """Wait for what all have found."""


@contextmanager
def together(record: Recording, program: Program, launch: Launch, limit: float) -> Iterator[None]:
    """Take what all ranks of a job find into the report of the first.

    Raises:
        AbsentError: the others cannot be heard, or rank 0 cannot be reached.
    """
    unbound(program)
    with (_following if launch.rank else _leading)(record, program, launch, limit):
        yield


@contextmanager
def _following(record: Recording, program: Program, launch: Launch, limit: float) -> Iterator[None]:
    """Send the report to rank 0, instead of printing it."""
    if launch.rank > 1:  # where rank 0 is not found, one of the others says so
        record.deliver = lambda report: report.exit_code
    record.limit.doing = "looking for rank 0"
    tell = _to_first(program, launch, limit)
    record.limit.doing = ""

    def deliver(report: Report) -> int:
        from gpumap.report import Style, render

        try:
            heard = tell(render("json", report, Style()))
        except AbsentError as error:
            say(error.diagnostics if launch.rank == 1 else (), program)
            return error.exit_code
        if heard:
            return Exit.OK
        gone = Diagnostic("rank-lost", "rank 0 ended before it had heard all ranks", hint=_DIED)
        say([gone] if launch.rank == 1 else (), program)
        return Exit.ABSENT

    record.deliver = deliver
    yield


@contextmanager
def _leading(record: Recording, program: Program, launch: Launch, limit: float) -> Iterator[None]:
    """Take what the others have found into the report, also where this rank has found nothing."""
    with _others(program, launch, limit) as others:
        record.limit.silent = lambda: others.missing
        found: list[Problem] = []
        try:
            yield
        except GpumapError as error:
            found = [Problem(d, error.exit_code) for d in error.diagnostics]
        except BaseException:
            record.ending.broken = True  # MPI would wait for the others to the end
            raise
        _forget_unused(record.draft)
        record.limit.doing = "waiting for the other ranks"
        callers = others.hear()
        record.limit.doing = ""
    mine = _mine(record.draft, program, (*record.draft.take_problems(), *found))
    _join(record.draft, [mine, *map(_answer, callers)])


def _others(program: Program, launch: Launch, limit: float) -> Any:
    from gpumap.parallel.comm.doors import door
    from gpumap.parallel.comm.meeting import Host

    where = door(launch, program.env)
    return OverMpi(program, limit) if where is None else Host(where, launch.size)


def _to_first(program: Program, launch: Launch, limit: float) -> Any:
    from gpumap.parallel.comm.doors import door
    from gpumap.parallel.comm.meeting import Guest

    where = door(launch, program.env)
    if where is None:
        return OverMpi(program, limit).tell
    return Guest(where, launch.rank, launch.local_rank, limit).tell


def _mine(draft: Draft, program: Program, problems: Sequence[Problem]) -> Answer:
    """Return what rank 0 has found."""
    bindings = draft.resolution.bindings if draft.resolution else ()
    caller = Caller(0, local_rank(program), socket.gethostname(), os.getpid(), None)
    return _answered(caller, bindings, draft.map, problems)


def _answer(caller: Caller) -> Answer:
    """Return what another rank has found."""
    from gpumap.saved import from_text
    from gpumap.saved.tree import Refused

    lost = Diagnostic("rank-lost", "it died", hint=_DIED)
    if caller.text is not None:
        try:
            report = from_text(caller.text)
        except Refused as refused:
            said = f"its report cannot be read: {refused}"
            lost = Diagnostic("rank-lost", said, hint=_ODD)
        else:
            return _answered(caller, report.bindings, report.map, report.errors)
    return _answered(caller, (), None, (Problem(lost, Exit.ABSENT),))


def _answered(
    caller: Caller,
    bindings: Sequence[Binding],
    context_map: ContextMap | None,
    problems: Sequence[Problem],
) -> Answer:
    entries = context_map.entries if context_map else ()
    binding = bindings[0] if bindings else None
    place = 0 if len(entries) == 1 else caller.local_rank  # `gpumap run` gives each its own
    known = entries[place].name if place < len(entries) else "?"
    seat = Seat(caller.rank, binding.name if binding else known, caller.host, caller.process)
    code = exit_code(problem.exit for problem in problems)
    told = tuple(problem.diagnostic for problem in problems)
    return Answer(seat, binding, told, Exit(code), caller.local_rank)


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


class OverMpi:
    """The ranks of a job whose launcher does not tell where they could meet: MPI knows."""

    missing: Sequence[str] = ()  # MPI names nobody

    def __init__(self, program: Program, limit: float) -> None:
        """Start MPI; raises AbsentError, QuestionError."""
        from gpumap.app.mpi_job import join

        self._comm = join(program, limit)
        self._program = program

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Leave it to the end of the process."""

    def tell(self, text: str) -> bool:
        """Say what this rank has found."""
        self._comm.gather(self._caller(text))
        return True

    def hear(self) -> Sequence[Caller]:
        """Return what the others have found."""
        return self._comm.gather(None)[1:]  # type: ignore[no-any-return]

    def _caller(self, text: str) -> Caller:
        rank, local = self._comm.Get_rank(), local_rank(self._program)
        return Caller(rank, local, socket.gethostname(), os.getpid(), text)

"""What a launch config of Theano-MPI asks for: a call of bench train."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from gpumap.app.command import find_program, print_lines, tell
from gpumap.app.output import say
from gpumap.errors import Diagnostic, QuestionError, SourceError
from gpumap.files import read_text
from gpumap.session_file import GPUMAP, OF_MPIRUN, Session, is_model_class, note, read, training

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.app.placed_run import RunRequest
    from gpumap.app.program import Program

_SOURCE = 1 << 22  # bytes of a module
_LIMIT = 1 << 16  # bytes: six keys, and thousands of devices
# ar is a sum in host memory; nccl exchanges by itself
_ALGORITHMS = {"ar": "host", **dict.fromkeys(("asa32", "asa16", "copper", "copper16"), "ring")}


def start(program: Program, file: Path, request: RunRequest) -> None:
    """Become what a session file says.

    Raises:
        QuestionError: the file is wrong.
    """
    session = read(read_text(program.cwd / file, "session file", _LIMIT), str(file))
    theano_mpis = _is_model_class(program, session)
    if not request.quiet:
        say((*session.notes, *_differing(session, averages=not theano_mpis)), program)
    call = _model_call(program, session) if theano_mpis else tuple(_call(program, session, request))
    if request.dry_run:
        print_lines(program, shlex.join(call))
        return
    if not request.quiet:
        tell(program, f"note: starting {shlex.join(call)}")
    path = find_program(call[0], program)
    os.execve(path, call, OF_MPIRUN | program.env)  # noqa: S606 - a program, not a shell


def _model_call(program: Program, session: Session) -> tuple[str, ...]:
    """Return the call that trains a ModelClass.

    Raises:
        QuestionError: it is given options of bench train.
    """
    if program.command:
        message = f"{session.modelclass} is a ModelClass, and no network of bench train"
        raise QuestionError(message, "leave out what is after --")
    about = {"name": (session.rule or "BSP").lower()}
    return training(session.map, about, (str(session.modelfile), str(session.modelclass)))


def _call(program: Program, session: Session, request: RunRequest) -> Iterator[str]:
    """Yield the words of the call of bench train that does what the session says."""
    yield from (*GPUMAP, "bench", "train", "--map", session.map)
    strategy = session.strategy or ""
    yield from ("--comm", "nccl" if strategy.startswith("nccl") else "local")
    if session.rule is not None:
        yield from ("--rule", session.rule.lower())
    if session.modelfile is not None:
        yield from ("--network", f"{session.modelfile}:{session.modelclass}")
    if strategy in _ALGORITHMS:
        yield from ("--algorithm", _ALGORITHMS[strategy])
    if request.where.backend is not None:
        yield from ("--backend", request.where.backend)
    if request.quiet:
        yield "--quiet"
    yield from program.command


def _is_model_class(program: Program, session: Session) -> bool:
    """Return whether the session's class is Theano-MPI's: it is read, and not executed."""
    if session.modelfile is None or session.modelclass is None:
        return False
    try:
        path = Path(program.cwd) / f"{session.modelfile.replace('.', '/')}.py"
        return is_model_class(read_text(path, "model file", _SOURCE), session.modelclass)
    except SourceError:
        return False


def _differing(session: Session, *, averages: bool) -> Iterator[Diagnostic]:
    """Yield what a training does otherwise than in Theano-MPI; `averages`: of gradients."""
    if session.sync_type == "avg" and averages:
        yield note("avg is the mean of parameters in Theano-MPI; here it is that of gradients")
    if session.strategy not in (None, "ar", "nccl32"):
        yield note(f"{session.strategy} is Theano-MPI's own exchange: here float32 is sent")

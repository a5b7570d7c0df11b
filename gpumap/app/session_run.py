"""What a launch config of Theano-MPI asks for: a call of bench train, by mpirun on other hosts."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from gpumap.app.command import find_program, print_lines, tell
from gpumap.app.output import say
from gpumap.app.program import Ended
from gpumap.errors import MapError, QuestionError, SourceError
from gpumap.files import read_text
from gpumap.model import replace
from gpumap.parse import parse_map
from gpumap.session_file import GPUMAP, OF_MPIRUN, is_model_class, note, read, training

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.app.placed_run import RunRequest
    from gpumap.app.program import Program
    from gpumap.errors import Diagnostic
    from gpumap.session_file import Node, Session

_SOURCE = 1 << 22  # bytes of a module
_LIMIT = 1 << 16  # bytes: six keys, and thousands of devices
_AVERAGES = {"cdd": "gradients", "avg": "parameters"}
# ar is a sum in host memory, which MPI does itself; nccl exchanges by itself
_ALGORITHMS = {"ar": "host", **dict.fromkeys(("asa32", "asa16", "copper", "copper16"), "ring")}
_HALVES = ("nccl16", "asa16", "copper16")
_NETWORKS = ("--preset", "--network")  # options of bench train that choose one


def start(program: Program, file: Path, request: RunRequest) -> None:
    """Become what a session file says; with devices of other hosts mpirun.

    Raises:
        QuestionError: the file is wrong.
    """
    session = _read(program, file)
    elsewhere = any(not node.here for node in session.nodes)
    if _is_model_class(program, session) and (elsewhere or program.command):
        message = f"{session.modelclass} is a ModelClass, which is trained on this machine alone"
        raise QuestionError(message, "leave out what is after --, and name devices of this machine")
    if not request.quiet:
        say(_notes(session, program.command or (), mpi=elsewhere), program)
    if elsewhere:
        call = _call_of_hosts(program, session, request)
    else:
        call = _call(program, session, session.nodes[0], request, mpi=False)
    if not _announced(program, call, request):
        _become(program, call)


def _read(program: Program, file: Path) -> Session:
    """Return what the file says; the grammar of its devices is that of maps."""
    text = read_text(program.cwd / file, "session file", _LIMIT)
    session = read(text, str(file), os.uname().nodename)
    for node in session.nodes:
        try:
            parse_map(node.map)
        except MapError as error:
            where = f"{file}, DEVICES"
            problems = [replace(d, message=f"{where}: {d.message}") for d in error.diagnostics]
            say(problems, program, node.map)
            raise Ended(error.exit_code) from error
    return session


def _call(
    program: Program, session: Session, node: Node, request: RunRequest, *, mpi: bool
) -> tuple[str, ...]:
    """Return the call of bench train for the devices of a host; of a ModelClass it is trained."""
    if _is_model_class(program, session):
        about = {"name": (session.rule or "BSP").lower(), "average": "parameters"}
        network = (str(session.modelfile), str(session.modelclass))
        return training(node.map, about, network)
    backend = request.where.backend
    return (
        *(*GPUMAP, "bench", "train"),
        *("--map", node.map),
        *_options(session, mpi=mpi),
        *(("--backend", backend) if backend is not None else ()),
        *(("--quiet",) if request.quiet else ()),
        *(program.command or ()),
    )


def _is_model_class(program: Program, session: Session) -> bool:
    """Return whether the session's class is Theano-MPI's: it is read, and not executed."""
    if session.modelfile is None or session.modelclass is None:
        return False
    try:
        path = Path(program.cwd) / f"{session.modelfile.replace('.', '/')}.py"
        return is_model_class(read_text(path, "model file", _SOURCE), session.modelclass)
    except SourceError:
        return False


def _options(session: Session, *, mpi: bool) -> Iterator[str]:
    """Yield the options that say what the session does."""
    nccl = (session.strategy or "").startswith("nccl")
    yield from ("--comm", "mpi" if mpi else "nccl" if nccl else "local")
    if session.rule is not None:
        yield from ("--rule", session.rule.lower())
    if session.modelfile is not None:
        yield from ("--network", f"{session.modelfile}:{session.modelclass}")
    if session.sync_type is not None:
        yield from ("--average", _AVERAGES[session.sync_type])
    if mpi and (nccl or session.strategy == "ar"):
        yield from ("--algorithm", "native")
    elif session.strategy in _ALGORITHMS:
        yield from ("--algorithm", _ALGORITHMS[session.strategy])


def _notes(session: Session, further: Sequence[str], *, mpi: bool) -> Iterator[Diagnostic]:
    """Yield what neither the file nor the options behind -- decide, and what Theano-MPI does not.

    The training differs there from its.
    """
    chosen = any(word.partition("=")[0] in _NETWORKS for word in further)
    yield from (found for found in session.notes if not (chosen and found.code == "session-preset"))
    strategy = session.strategy or ""
    if strategy in _HALVES:
        yield note(f"{strategy} sends float16 in Theano-MPI; here float32 is sent")
    if _ALGORITHMS.get(strategy) == "ring":
        yield note(f"{strategy} is an exchange of Theano-MPI's own: a ring takes its place")
    if mpi and strategy.startswith("nccl"):
        message = f"{strategy} is for devices of one process: MPI's own exchange takes its place"
        yield note(message, "as it does in Theano-MPI with several hosts")


def _announced(program: Program, call: Sequence[str], request: RunRequest) -> bool:
    """Tell what is started; return whether that is all that was requested."""
    line = shlex.join(call)
    if request.dry_run:
        print_lines(program, line)
    elif not request.quiet:
        tell(program, f"note: starting {line}")
    return request.dry_run


def _become(program: Program, call: tuple[str, ...]) -> None:
    """Replace this process: the terminal, the exit code and signals are bench train's own."""
    path = find_program(call[0], program)
    os.execve(path, call, OF_MPIRUN | program.env)  # noqa: S606 - a program, not a shell


def _call_of_hosts(program: Program, session: Session, request: RunRequest) -> tuple[str, ...]:
    """Return the call of mpirun that starts the ranks of each host."""
    words = ["mpirun"]
    for node in session.nodes:
        call = _call(program, session, node, request, mpi=True)
        if ":" in call:
            raise QuestionError('to mpirun the argument ":" ends a command', "omit it")
        words += ["-host", node.host, "-np", str(len(node.devices)), *call, ":"]
    return tuple(words[:-1])

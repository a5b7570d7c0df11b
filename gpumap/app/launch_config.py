"""`gpumap run --cfg`: Theano-MPI's session file as the `gpumap bench train` that matches it."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from gpumap.app.launching import Launching, by_mpirun, tell
from gpumap.app.output import say
from gpumap.app.program import Ended
from gpumap.errors import Diagnostic, MapError, QuestionError
from gpumap.escape import printable
from gpumap.launch.child import TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gpumap.app.launching import Job
    from gpumap.app.placed_run import RunRequest
    from gpumap.app.program import Program
    from gpumap.launch.sessions import Node, Session

_LIMIT = 1 << 16  # bytes: six keys, and thousands of devices
_AVERAGES = {"cdd": "gradients", "avg": "parameters"}
# ar is a sum in host memory, which MPI does itself; nccl exchanges by itself
_ALGORITHMS = {"ar": "host", "asa32": "alltoall", "asa16": "alltoall", "copper": "tree",
               "copper16": "tree"}  # fmt: skip
_HALVES = ("nccl16", "asa16", "copper16")
_NETWORKS = ("--preset", "--network", "--sweep")  # options of bench train that choose one
_ITS_OWN = "the session file names the devices: DEVICES"
_REFUSED = {  # by the option's name in the program: how it is written, why, and what mends it
    "argument": ("MAP", _ITS_OWN, "omit one of them"),
    "option": ("--map", _ITS_OWN, "omit one of them"),
    "map_file": ("--map-file", _ITS_OWN, "omit one of them"),
    "no_bind": ("--no-bind", "bench train places its workers itself", "omit it"),
    "output_dir": ("--output-dir", "bench train prints one report for all devices",
                   "give it a file behind --: -- --output report.json"),
}  # fmt: skip
_ALONE = {  # where no launcher stays that could heed them
    "timeout": ("--timeout", "bench train has a time limit of its own",
                "give it behind --: -- --timeout 60s"),
    "grace": ("--grace", "bench train ends on its own", "omit it, or add --launcher mpi"),
}  # fmt: skip
_ELSEWHERE = {
    "launcher": ("--launcher local", "the session has devices on other hosts",
                 "leave --launcher away: mpirun starts it"),
}  # fmt: skip


def start(program: Program, file: Path, asked: RunRequest, written: frozenset[str]) -> None:
    """Start what a session file says: in the place of this process, or by mpirun.

    `written` are the parameters that the command line itself has; a variable may be for others.

    Raises:
        QuestionError: the file, or an option beside it, is wrong.
        Ended: mpirun has ended, not well.
    """
    _refuse(_REFUSED, written)
    session = _read(program, file)
    elsewhere = any(not node.here for node in session.nodes)
    by_mpi = asked.launcher == "mpi"
    mpi = by_mpi or elsewhere
    _refuse({} if by_mpi else _ELSEWHERE if elsewhere else _ALONE, written)
    if not asked.quiet:
        say((*_notes(session, program.command or ()), *_remarks(session, mpi=mpi)), program)
    if mpi:
        limit = asked.timeout if "timeout" in written else None  # the variable's is bench train's
        _by_mpirun(program, session, asked, limit)
        return
    call = _call(program, session, session.nodes[0], asked, mpi=False)
    if not _told(program, call, asked):
        _become(program, call)


def _refuse(options: dict[str, tuple[str, str, str]], written: frozenset[str]) -> None:
    """Refuse what was written in the command line."""
    for name, (option, why, fix) in options.items():
        if name in written:
            raise QuestionError(f"--cfg and {option}: {why}", fix)


def _read(program: Program, file: Path) -> Session:
    """Return what the file says; the grammar of its devices is that of maps."""
    from gpumap.files import read_text
    from gpumap.launch.sessions import read
    from gpumap.parse import parse_map

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
    program: Program, session: Session, node: Node, asked: RunRequest, *, mpi: bool
) -> tuple[str, ...]:
    """Return the call of bench train for the devices of a host."""
    return (
        *(sys.executable, "-P", "-m", "gpumap", "bench", "train"),  # -P: nothing of this folder
        *("--map", node.map),
        *_options(session, mpi=mpi),
        *(("--backend", asked.backend) if asked.backend is not None else ()),
        *(("--quiet",) if asked.quiet else ()),
        *(program.command or ()),
    )


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


def _notes(session: Session, further: Sequence[str]) -> Iterator[Diagnostic]:
    """Yield what the file leaves open, without what the options behind -- decide."""
    from gpumap.launch.sessions import PRESET

    chosen = any(word.partition("=")[0] in _NETWORKS for word in further)
    yield from (note for note in session.notes if not (chosen and note.code == PRESET))


def _remarks(session: Session, *, mpi: bool) -> Iterator[Diagnostic]:
    """Yield where the training is not what Theano-MPI would do."""
    strategy = session.strategy or ""
    if strategy in _HALVES:
        yield _note(f"{strategy} sends float16 in Theano-MPI; here float32 is sent")
    if mpi and strategy.startswith("nccl"):
        said = f"{strategy} is for the devices of one process: MPI's own exchange takes its place"
        yield _note(said, "as it does in Theano-MPI with several hosts")


def _told(program: Program, call: Sequence[str], asked: RunRequest) -> bool:
    """Tell what is started; return whether that is all that was asked for."""
    line = printable(shlex.join(call))
    if asked.dry_run:
        program.stdout.write(f"{line}\n")
        program.stdout.flush()
    elif not asked.quiet:
        tell(program, f"note: starting {line}\n")
    return asked.dry_run


def _become(program: Program, call: tuple[str, ...]) -> None:
    """Replace this process: the terminal, the exit code and signals are bench train's own."""
    try:
        os.execve(call[0], call, program.env)  # noqa: S606 - a program, not a shell
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        said = f"cannot start {call[0]}: {why}"
        raise QuestionError(said, "name fewer devices, in plain letters") from error


def _by_mpirun(program: Program, session: Session, asked: RunRequest, limit: float | None) -> None:
    """Let mpirun start the ranks of each host."""
    token = program.env.get(TOKEN, "")
    fresh = os.urandom(16).hex()
    job = _job(program, session, asked, f"{token}:{fresh}" if token else fresh)
    if _told(program, job.order.argv, asked):
        return
    if code := Launching(program, [job], quiet=asked.quiet).go(fresh, asked.grace, limit):
        raise Ended(code)


def _job(program: Program, session: Session, asked: RunRequest, token: str) -> Job:
    from gpumap.launch.mpirun import Context

    contexts = []
    for node in session.nodes:
        host = None if node.here and len(session.nodes) == 1 else node.host
        call = _call(program, session, node, asked, mpi=True)
        contexts.append(Context(call, len(node.devices), host))
    return by_mpirun(program, contexts, token)


def _note(message: str, hint: str | None = None) -> Diagnostic:
    return Diagnostic("session", message, hint=hint, severity="note")

"""The call of mpirun, as a process to start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.app.command import find_program
from gpumap.app.launching import Job
from gpumap.errors import QuestionError
from gpumap.launch import placement
from gpumap.launch.process import Order
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.app.program import Program
    from gpumap.launch.placement import MpiContext

_PATIENCE = 20.0  # seconds for mpirun to say its version


def by_mpirun(program: Program, contexts: Sequence[MpiContext], helpers: Sequence[str] = ()) -> Job:
    """Return the call of mpirun as a process to start; `helpers` are programs that it needs.

    Raises:
        QuestionError: mpirun cannot be told so.
        Ended: a program is not found; it has been said.
    """
    if any(placement.SEPARATOR in context.command for context in contexts):
        fix = "omit it, or put the command into a script"
        raise QuestionError('to mpirun the argument ":" ends a command', fix)
    path = find_program("mpirun", program)
    for helper in helpers:
        find_program(helper, program)
    words = placement.mpirun_call(path, _version(path, program), contexts)
    ranks = sum(context.ranks for context in contexts)
    return Job("mpirun", counted(ranks, "rank"), Order(path, words, program.env))


def _version(path: str, program: Program) -> str:
    """Return what mpirun says of itself: their options differ."""
    import subprocess

    try:
        done = subprocess.run(  # noqa: S603 - it is what is to be run
            [path, "--version"],
            env=program.env,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        message = f"{path} does not say what it is: {type(error).__name__}"
        raise QuestionError(message, "look at it, or omit --launcher") from error
    return done.stdout.decode(errors="replace")

"""mpirun as the one process of a run: what it is, and what it is told to start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.app.executables import found
from gpumap.app.launching import Job
from gpumap.errors import QuestionError
from gpumap.escape import printable
from gpumap.launch import mpirun
from gpumap.launch.child import Order
from gpumap.launch.environment import TOKEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.app.program import Program

_PATIENCE = 20.0  # seconds for mpirun to say its version


def job(
    program: Program, contexts: Sequence[mpirun.Context], token: str, helpers: Sequence[str] = ()
) -> Job:
    """Return the call of mpirun as a process to start; `helpers` are programs that it needs.

    Raises:
        QuestionError: mpirun cannot be told so.
        click.exceptions.Exit: a program is not found; it has been said.
    """
    if any(mpirun.SEPARATOR in context.command for context in contexts):
        fix = "leave it away, or put the command into a script"
        raise QuestionError('to mpirun the argument ":" ends a command', fix)
    path = found("mpirun", program)
    for helper in helpers:
        found(helper, program)
    words = mpirun.call(path, _version(path, program), contexts)
    ranks = sum(context.ranks for context in contexts)
    about = f"{ranks} rank{'s' * (ranks > 1)}"
    return Job("mpirun", about, Order(path, words, {**program.env, TOKEN: token}))


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
        said = f"{printable(path)} does not say what it is: {type(error).__name__}"
        raise QuestionError(said, "look at it, or leave --launcher away") from error
    return done.stdout.decode(errors="replace")

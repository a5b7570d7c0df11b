"""The user's command: found as a shell finds it, or refused with a shell's exit code."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from gpumap.app.program import Ended, Program
from gpumap.errors import QuestionError
from gpumap.escape import written

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as a shell has them
_SCRIPT = "a script begins with #! and its interpreter; arguments and map together have a limit"


def tell(program: Program, *lines: str) -> None:
    """Write lines to stderr; a closed stderr does not end the run."""
    with suppress(OSError):
        program.stderr.write(written(lines))
        program.stderr.flush()


def print_lines(program: Program, *lines: str) -> None:
    """Write lines to stdout, now."""
    program.stdout.write(written(lines))
    program.stdout.flush()


def cannot_run(program: Program, what: str, fix: str, code: int) -> Ended:
    """Say why, and return what ends gpumap."""
    tell(program, f"error: {what}", f"  fix: {fix}")
    return Ended(code)


def not_executed(program: Program, path: str, error: OSError | ValueError) -> Ended:
    """Say that a program is there and cannot be executed, and return what ends gpumap."""
    number = getattr(error, "errno", None) or errno.EINVAL
    what = f"{path} cannot be executed: {os.strerror(number)}"
    code = NOT_FOUND if number == errno.ENOENT else NOT_EXECUTABLE
    return cannot_run(program, what, _SCRIPT, code)


def requested(program: Program, usage: str) -> str:
    """Return the path of the program behind "--"; `usage` is what stands before that.

    Raises:
        QuestionError: nothing is behind it.
        Ended: as `find_program`.
    """
    if not program.command:
        fix = f'write it behind "--": gpumap {usage} -- COMMAND ARG...'
        raise QuestionError("no command is given", fix)
    return find_program(program.command[0], program)


def find_program(command: str, program: Program) -> str:
    """Return the path of a program, found as a shell finds it; end with a shell's code if not."""
    folders = [""] if "/" in command else program.env.get("PATH", os.defpath).split(":")
    paths = [f"{folder}/{command}" if folder else command for folder in folders]
    for path in paths:
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113 - pathlib is slow
            return path
    seen = next(filter(os.path.exists, paths), "")
    if command and seen:
        fix = "name a file, and make it a program (chmod +x), or name its interpreter"
        raise cannot_run(program, f"{seen} is no file that may be executed", fix, NOT_EXECUTABLE)
    where = "there is no such file" if "/" in command else "it is in no folder of PATH"
    fix = "write its whole path, or look at how it is spelled"
    what = f"{command or 'an empty command'} is not found: {where}"
    raise cannot_run(program, what, fix, NOT_FOUND)

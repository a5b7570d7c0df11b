"""The program's surroundings, read once by `cli` and handed to every command."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from gpumap.backends.base import Host
    from gpumap.machine.topology import Topology


class Program:
    """Arguments, environment, working folder and streams of this run of gpumap.

    No dataclass: every start makes it, and to make a dataclass takes longer than all its runs use.
    """

    def __init__(
        self,
        argv: tuple[str, ...],
        env: dict[str, str],
        cwd: str,  # no Path: pathlib takes 5 ms, and most runs look at no file
        stdout: TextIO,
        stderr: TextIO,
        command: tuple[str, ...] | None = None,
    ) -> None:
        """Take them; `command` is what follows the first "--" of `run`."""
        self.argv, self.env, self.cwd, self.command = argv, env, cwd, command
        self.stdout, self.stderr = stdout, stderr

    def to(self, stdout: TextIO, stderr: TextIO) -> Program:
        """Return the same with other streams."""
        return Program(self.argv, self.env, self.cwd, stdout, stderr, self.command)

    def host(self, topology: Topology | None = None, patience: float | None = None) -> Host:
        """Return what backends are told of this side, and from now on the children too.

        Drivers read the environment of their own process, so it gets what an OpenCL loader needs.
        """
        from dataclasses import replace

        from gpumap.backends.base import Host
        from gpumap.backends.opencl_vendors import register
        from gpumap.machine.topology import read

        variables, notes = register(self.env)
        os.environ.update(variables)
        self.env.update(variables)
        host = Host(self.env, topology or read(), notes=notes)
        return host if patience is None else replace(host, patience=patience)


class Ended(Exception):
    """Ends gpumap with an exit code: what there is to say has been said."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


def columns(stream: TextIO) -> int | None:
    """Return how wide the terminal is that a stream goes to; None where it goes to none."""
    try:
        found = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # a file, or a pipe; closed, or none of the system's
        return None
    return found or None  # a terminal of 0 columns does not know


def lacking(error: BaseException | None) -> BaseException | None:
    """Return what says so where the system has no file left for this process, else the error."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        from gpumap.errors import QuestionError

        reason = f"the system refuses a file: {os.strerror(error.errno)}"
        return QuestionError(reason, "raise the limit on open files: ulimit -n 256")
    return error


def silence(stream: TextIO) -> None:
    """Let the interpreter's last flush of a stream go nowhere instead of printing an error."""
    with suppress(OSError, ValueError):  # no number is free: the stream's own will be
        try:
            devnull = os.open(os.devnull, os.O_WRONLY)
        except OSError:
            os.close(stream.fileno())
            devnull = os.open(os.devnull, os.O_WRONLY)
        if devnull != stream.fileno():
            os.dup2(devnull, stream.fileno())
            os.close(devnull)

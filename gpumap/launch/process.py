"""A process of a run: how it is started, what it says last, and what it ended with."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gpumap.launch.streams import Stream
from gpumap.machine.process_control import PARENT_DEATH, pin, prctl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumap.launch.placement import Place


class Job(NamedTuple):
    """A process to start: its program, its variables, and where it runs."""

    name: str
    path: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    place: Place | None = None  # none, or one without cores: wherever this process may run
    about: str = ""  # told of it where it fails


@dataclass(slots=True)
class Process:
    """A process that was started, and what it prints."""

    job: Job
    pid: int
    streams: tuple[Stream, ...] = ()  # stdout, stderr; none: those of this process
    code: int | None = None  # below 0: minus the signal that ended it

    @property
    def last(self) -> list[bytes]:
        """Return the last lines of its stderr; if it has none, of its stdout."""
        return next((stream.last for stream in reversed(self.streams) if stream.last), [])


def start(job: Job, *, piped: bool) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own; it dies with this one.

    Args:
        job: what is started.
        piped: whether its output comes by pipes, and nothing is on its stdin; else it has the
            streams of this process.

    Raises:
        SubprocessError: it cannot be bound to its cores.
        OSError: its program cannot be executed, which is the error's filename; without one the
            system has no room for it.
    """
    output = subprocess.PIPE if piped else None
    cores = job.place.cores if job.place else ()
    return subprocess.Popen(  # noqa: S603 - it is what is to be run
        job.argv,
        bufsize=0,
        executable=job.path,
        env=job.env,
        stdin=subprocess.DEVNULL if piped else None,
        stdout=output,
        stderr=output,
        close_fds=False,  # what the user has opened for it
        start_new_session=True,
        preexec_fn=partial(_become, prctl(), cores),  # noqa: PLW1509 - there is one thread
    )


def _become(call: Callable[[int, int], int] | None, cores: tuple[int, ...]) -> None:
    """Be what the process is to be, but for its program."""
    if call is not None:
        call(PARENT_DEATH, signal.SIGKILL)
    if cores and not pin(cores):
        raise OSError

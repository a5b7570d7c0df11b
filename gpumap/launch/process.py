"""A process of a run: how it is started, what it says last, and what it ended with."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gpumap.launch.streams import Stream
from gpumap.machine.process_control import PARENT_DEATH, pin, prctl

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Order:
    """A process to start: its program, its variables, and where it runs."""

    path: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cores: tuple[int, ...] = ()  # none: wherever this process may run


@dataclass(slots=True)
class Process:
    """A process with a name, and what it prints."""

    name: str
    pid: int
    streams: tuple[Stream, ...] = ()  # stdout, stderr; none: those of this process
    code: int | None = None  # below 0: minus the signal that ended it
    cpu: float = 0.0  # seconds of the processor, with those of all that it has waited for

    @property
    def last(self) -> list[bytes]:
        """Return the last lines of its stderr; if it has none, of its stdout."""
        out, err = (stream.last for stream in self.streams) if self.streams else ([], [])
        return err or out


def start(order: Order, *, piped: bool) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own; it dies with this one.

    Args:
        order: what is started.
        piped: whether its output comes by pipes, and nothing is on its stdin; else it has the
            streams of this process.

    Raises:
        SubprocessError: it cannot be bound to its cores.
        OSError: its program cannot be executed, which is the error's filename; without one the
            system has no room for it.
    """
    output = subprocess.PIPE if piped else None
    return subprocess.Popen(  # noqa: S603 - it is what is to be run
        order.argv,
        bufsize=0,
        executable=order.path,
        env=order.env,
        stdin=subprocess.DEVNULL if piped else None,
        stdout=output,
        stderr=output,
        close_fds=False,  # what the user has opened for it
        start_new_session=True,
        preexec_fn=partial(_become, prctl(), order.cores),  # noqa: PLW1509 - there is one thread
    )


def _become(call: Callable[[int, int], int] | None, cores: tuple[int, ...]) -> None:
    """Be what the process is to be, but for its program."""
    if call is not None:
        call(PARENT_DEATH, signal.SIGKILL)
    if cores and not pin(cores):
        raise OSError

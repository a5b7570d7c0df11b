"""Running one command: with a limit, and without believing that it ends when it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_REAP = 5.0  # seconds; a process that hangs in a driver may not even end when it is killed


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended, and what it said."""

    exit_code: int | None  # None: it was killed
    elapsed: float
    out: str = ""
    err: str = ""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while a command ran, and what that had said."""

    def __init__(self, done: Done) -> None:
        super().__init__()
        self.done = done


def run(command: Sequence[str], limit: float, env: Mapping[str, str], folder: Path) -> Done:
    """Run a command; after `limit` seconds it is killed, with every process that it started."""
    start = time.monotonic()
    child = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # one group, to be killed as a whole
    )
    try:
        out, err = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        out, err = _killed(child)
        return Done(None, time.monotonic() - start, out, err)
    except KeyboardInterrupt as interrupt:  # nothing may go on holding the device
        raise Interrupted(Done(None, time.monotonic() - start, *_killed(child))) from interrupt
    return Done(child.returncode, time.monotonic() - start, out, err)


def _killed(child: subprocess.Popen[str]) -> tuple[str, str]:
    """Ask it to end: gpumap then writes its report. Then kill the group; return what it said."""
    with suppress(ProcessLookupError):
        os.kill(child.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        return child.communicate(timeout=_REAP)
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    try:
        return child.communicate(timeout=_REAP)
    except subprocess.TimeoutExpired:
        return "", ""

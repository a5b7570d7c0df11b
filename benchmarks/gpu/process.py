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
    except BaseException:  # Ctrl-C: nothing may go on holding the device
        _killed(child)
        raise
    return Done(child.returncode, time.monotonic() - start, out, err)


def _killed(child: subprocess.Popen[str]) -> tuple[str, str]:
    """Kill the whole group; return what it had said, if its pipes come to an end."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    try:
        return child.communicate(timeout=_REAP)
    except subprocess.TimeoutExpired:
        return "", ""

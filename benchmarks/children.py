"""Commands as child processes: with a limit, their reports, what they use, and busy neighbours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
_LIMIT = 300.0  # seconds
_REAP = 5.0  # seconds; a process that hangs in a driver may not even end when it is killed
_COUNT = "import os; own = os.getppid()\nwhile os.getppid() == own: pass"  # ends with its parent


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended, and what it said."""

    exit_code: int | None  # None: it was killed
    elapsed: float
    out: str = ""
    err: str = ""

    @property
    def report(self) -> dict[str, Any]:
        """Return the JSON report on stdout; an empty one if there is none."""
        with suppress(ValueError):
            found = json.loads(self.out)
            if isinstance(found, dict):
                return found
        return {}


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while a command ran, and what that had said."""

    def __init__(self, done: Done) -> None:
        super().__init__()
        self.done = done


def run(
    command: Sequence[str], limit: float = _LIMIT, env: Mapping[str, str] | None = None
) -> Done:
    """Run a command; after `limit` seconds it is killed, with every process that it started."""
    start = time.monotonic()
    child = subprocess.Popen(
        command,
        cwd=ROOT,
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


def python(
    *arguments: str, codes: Sequence[int] = (0,), env: Mapping[str, str] | None = None
) -> Done:
    """Run this Python; RuntimeError if it ends with another exit code than `codes`."""
    done = run([sys.executable, *arguments], env=env)
    if done.exit_code not in codes:
        said = f"{' '.join(arguments)} ended with {done.exit_code}: {done.err.strip()}"
        raise RuntimeError(said)
    return done


def gpumap(
    *words: str, codes: Sequence[int] = (0, 1, 5), env: Mapping[str, str] | None = None
) -> Done:
    """Run gpumap quietly, with its report on stdout."""
    return python("-m", "gpumap", *words, "--format", "json", "--quiet", codes=codes, env=env)


def used(*words: str, codes: Sequence[int] = (0, 1)) -> tuple[float, int]:
    """Run gpumap; return its CPU seconds, user and system, and its bytes of memory at the most.

    A child's peak begins at its parent's: this is called before the parent takes much.
    """
    command = [sys.executable, "-m", "gpumap", *words]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(round(10 * _LIMIT)):
        if os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        time.sleep(0.1)
    else:
        child.kill()
    _, status, spent = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in codes:
        raise RuntimeError(f"gpumap {words[0]} ended with {child.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024  # what the peak is counted in
    return spent.ru_utime + spent.ru_stime, spent.ru_maxrss * unit


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep so many processes busy; each is ended by its own id."""
    with ExitStack() as stack:
        for _ in range(count):
            process = subprocess.Popen([sys.executable, "-c", _COUNT])
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield

"""A process that stays beside the one that runs it all, so that neither can be killed alone."""

from __future__ import annotations

import os
import signal

from gpumap.app.command import tell
from gpumap.app.program import ENDING, Ended, Program
from gpumap.machine import process_control
from gpumap.text import ended

_HEARD = (*ENDING, signal.SIGCHLD)


def guard(program: Program) -> None:
    """Go on in a child. This process passes signals on to it, and ends with its exit code.

    Killed, it takes the child along, which ends all that it has started as after a SIGTERM; where
    the child is killed, it ends what that has left. Linux alone has what that takes: elsewhere
    this process goes on alone.

    Raises:
        Ended: the child has ended; in this process alone.
    """
    if (prctl := process_control.prctl()) is None:
        return
    for stream in (program.stdout, program.stderr):
        stream.flush()
    before, parent = process_control.children(), os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would leave no exit code
    prctl(process_control.SUBREAPER, 1)  # which the child does not inherit
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    child = os.fork()
    if child:
        code = _ended(child)
        process_control.kill_children(spared=before)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if code < 0:
            tell(program, f"error: gpumap {ended(code)}: all that it had started was ended")
        raise Ended(code if code >= 0 else 128 - code)
    process_control.die_with_parent(signal.SIGTERM)
    if os.getppid() != parent:  # it ended before the kernel knew
        raise Ended(128 + signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _ended(child: int) -> int:
    """Pass signals on until a child has ended; return its exit code, or minus its signal."""
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        number = signal.sigwait(_HEARD)
        if number != signal.SIGCHLD:
            os.kill(child, number)

"""Ctrl-C, and what else ends a job: heard once it is said, and not again while the report is made.

Python raises KeyboardInterrupt wherever the main thread happens to be. In a callback of a weak
reference (every import has one), in a finaliser, or in a library whose C code clears errors it is
lost there, and a run that waits for a device would wait to its time limit.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

_ENDS = (signal.SIGTERM, signal.SIGHUP)
_AGAIN = 0.1  # seconds between two looks at what became of an interrupt


def watch(limit: float | None) -> None:
    """Take what ends a job as Ctrl-C; and let the kernel end what holds Python's lock for ever.

    Without a limit, in seconds, a script of the user's runs: what it makes of Ctrl-C is its own.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    handler = signal.default_int_handler if limit is None else _interrupted
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, handler)
    for number in _ENDS:
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP: so be it
            signal.signal(number, handler)
    if limit is not None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit)


def ignore() -> None:
    """From here on the run only says what it has; other threads may not set signals."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, *_ENDS):
            signal.signal(number, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0.0)  # no driver is waited for any more


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - Python's order
    """Interrupt the main thread, and see to it that it takes notice."""
    sys.unraisablehook = _tell_lost
    with suppress(RuntimeError):  # no thread is left: as Python itself does it, then
        _thread.start_new_thread(_insist, (number,))  # takes no lock that is held here already
    raise KeyboardInterrupt


def _tell_lost(lost: sys.UnraisableHookArgs) -> None:
    """Say what Python could not raise, but of an interrupt, which comes again."""
    if lost.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(lost)


def _insist(number: int) -> None:
    """Send a signal again, if it was lost before anyone could act on it."""
    while True:
        time.sleep(_AGAIN)
        if signal.getsignal(number) is not _interrupted:
            return  # the run makes its report, or has ended
        if not _in_flight():
            signal.pthread_kill(threading.main_thread().ident or 0, number)
            return  # who handles it looks after it


def _in_flight() -> bool:
    """Return whether the main thread is on its way out, in whatever cleans up behind it."""
    found = sys._current_exceptions().get(threading.main_thread().ident or 0)  # noqa: SLF001 - public by its documentation
    error = found[1] if isinstance(found, tuple) else found  # a tuple before Python 3.12
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None

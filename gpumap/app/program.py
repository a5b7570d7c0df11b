"""The program's surroundings, read once by `cli`: its rank, its signals and its time limit."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar

from gpumap.errors import Diagnostic, QuestionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType, FrameType

    from gpumap.backends.base import Host
    from gpumap.comm.ranks import Launch
    from gpumap.machine.topology import Topology

    F = TypeVar("F", bound=Callable[..., Any])


class Program(NamedTuple):
    """Arguments, environment, working folder and streams of this run of gpumap."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str  # no Path: pathlib takes 5 ms, and most runs look at no file
    stdout: TextIO
    stderr: TextIO
    command: tuple[str, ...] = ()  # what follows the first "--" of `run`

    def host(self, topology: Topology | None = None) -> Host:
        """Return what backends are told of this side, and from now on the children too.

        Drivers read the environment of their own process, so it gets what an OpenCL loader needs.
        """
        from gpumap.backends import register
        from gpumap.backends.base import Host
        from gpumap.machine.topology import read

        variables, notes = register(self.env)
        os.environ.update(variables)
        self.env.update(variables)
        return Host(self.env, topology or read(), notes=notes)


def own(argv: tuple[str, ...] = (), command: tuple[str, ...] = ()) -> Program:
    """Return the surroundings that this process has now."""
    try:
        folder = os.getcwd()  # noqa: PTH109 - pathlib takes 5 ms of every start
    except FileNotFoundError:  # the folder was deleted under the shell
        folder = "/"
    return Program(argv, dict(os.environ), folder, sys.stdout, sys.stderr, command)


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


def escape(stream: TextIO) -> None:
    """Let a stream show escapes of what its encoding has not, a terminal of ASCII for example."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")


def silence(stream: TextIO) -> None:
    """Let the interpreter's last flush of a stream go nowhere instead of printing an error."""
    with suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, stream.fileno())
        os.close(devnull)


# --- what ends a run before its time: SIGINT, SIGTERM and SIGHUP, a time limit; and its end, once
#
# A signal interrupts a run once, and not while its report is written: a second one would meet what
# cleans up behind the first, a lock that is released twice, or never. One that comes much later is
# a wish of its own.
#
# Python raises KeyboardInterrupt wherever the main thread happens to be. In a callback of a weak
# reference (every import has one) or in a finaliser it is lost there, and is sent again.

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE = 30.0  # seconds beyond the time limit, after which no watchdog will come
_AGAIN = 0.1  # seconds after which an interrupt that was lost is sent again
_ONCE = 1.0  # seconds in which further signals belong to the first
_last: set[CodeType] = set()
_raised: float | None = None  # when an interrupt was raised last


def hear_signals() -> None:
    """Take signals that end a job as Ctrl-C, except ignored ones (nohup)."""
    global _raised
    _raised = None
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupted)


def interrupted() -> bool:
    """Return whether an interrupt was raised: an error behind it may be what came of it."""
    return _raised is not None


def leave_signals() -> None:
    """Let SIGTERM and SIGHUP end this process as they end any other."""
    for number in ENDING[1:]:
        if signal.getsignal(number) is _interrupted:
            signal.signal(number, signal.SIG_DFL)


def to_the_end(function: F) -> F:
    """Let no interrupt be raised in `function`, nor in what it calls: it ends a run."""
    _last.add(function.__code__)
    return function


def ignore_signals() -> None:
    """From here on the run only says what it has; other threads may not set signals."""
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0.0)  # no driver is waited for any more


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Interrupt the main thread, once."""
    global _raised
    now = time.monotonic()
    if (_raised is not None and now - _raised < _ONCE) or _ending(frame):
        return
    _raised = now
    sys.unraisablehook = partial(_send_again, number)
    raise KeyboardInterrupt


def _ending(frame: FrameType | None) -> bool:
    """Return whether the main thread is in a function that is the last of a run."""
    while frame is not None and frame.f_code not in _last:
        frame = frame.f_back
    return frame is not None


def _send_again(number: int, lost: sys.UnraisableHookArgs) -> None:
    """Send a signal again that was lost where Python cannot raise; print any other error."""
    global _raised
    if lost.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(lost)
        return
    _raised = None
    _thread.start_new_thread(_send_later, (number,))  # takes no lock that is held here already


def _send_later(number: int) -> None:
    time.sleep(_AGAIN)
    signal.pthread_kill(threading.main_thread().ident or 0, number)


class TimeLimit:
    """Ends a run that takes too long, from a thread: its main one may never come back."""

    def __init__(self, seconds: float, expired: Callable[[Diagnostic], None]) -> None:
        """Allow a run so many seconds from its start on; `expired` ends the process."""
        self.seconds = seconds
        self.doing = ""  # what it would cut short
        self.silent: Callable[[], Sequence[str]] = tuple  # other processes that do not answer
        self._expired = expired
        self._watchdog = threading.Timer(seconds, self._expire)
        self._watchdog.daemon = True

    def start(self) -> None:
        """Let the time run; the kernel ends what holds Python's lock for ever."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, self.seconds + _GRACE)
        self._watchdog.start()

    def cancel(self) -> None:
        """Cancel the alarm: the run ends in its own time."""
        self._watchdog.cancel()
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _expire(self) -> None:
        where = f" while {self.doing}" if self.doing else ""
        message = f"the time limit of {self.seconds:g} s was reached{where}"
        hint = "give it longer (--timeout, --budget or --within), or request less"
        if silent := ", ".join(self.silent()):
            message, hint = f"{message}; no answer from {silent}", "look at that process, or end it"
        self._expired(Diagnostic("timeout", message, hint=hint))


TURN = 5.0  # seconds in which rank 0 reports a common error, and the launcher ends the others


def several(program: Program) -> Launch | None:
    """Return which of several ranks this process is; None where it runs alone."""
    from gpumap.comm.engines import OURS
    from gpumap.comm.ranks import launched

    launch = launched(program.env)
    if launch is None or launch.size == 1:
        return None
    # `gpumap run` sets the variables of torchrun, which itself leaves one more
    ours = _ours(program) and "TORCHELASTIC_RUN_ID" not in program.env
    return launch._replace(by=OURS) if ours and launch.by == "torchrun" else launch


def rank_of(program: Program) -> tuple[Launch | None, tuple[Diagnostic, ...]]:
    """Return the launch of this process as a rank, and a warning where that is unclear.

    RANK and WORLD_SIZE stand in many a container that no launcher has started.
    """
    try:
        return several(program), ()
    except QuestionError as error:
        return None, tuple(d._replace(severity="warning") for d in error.diagnostics)


def check_single_process(program: Program, command: str) -> tuple[Diagnostic, ...]:
    """Return a note where other processes measure at the same time.

    Raises:
        QuestionError: they are ranks that the user has started for one measurement.
    """
    launch, doubts = rank_of(program)
    if launch is None:
        return doubts
    if not _ours(program):
        fix = "start it without a launcher, or for each name: gpumap exec MAP -- gpumap ..."
        raise refused(launch, f"{command} is for the devices of one process", fix)
    text = f"one of {launch.size} processes of a job: they share the machine"
    return (Diagnostic("several", text, severity="note"),)


def refused(launch: Launch, what: str, fix: str) -> QuestionError:
    """Return the refusal to be one of several processes; rank 0 reports it first."""
    if launch.rank:
        time.sleep(TURN)
    return QuestionError(f"{what}, and {launch.by} has started {launch.size}", fix)


def unbound(program: Program) -> None:
    """Undo what mpirun has bound: two ranks to a core each, whatever the map says."""
    if not _ours(program):  # `gpumap run` has bound by the map
        from gpumap.machine.process_control import unbind

        unbind()


def _ours(program: Program) -> bool:
    """Return whether `gpumap run` has started this process."""
    from gpumap.launch.placement import TOKEN  # which a process alone need not load

    return TOKEN in program.env

"""The processes of a run, from the start of the first to the end of the last: nothing survives.

What is left of a run is every descendant of this process, which adopts orphans meanwhile: so a
daemon is one too, whatever it makes of its session and its environment.
"""

from __future__ import annotations

import math
import os
import select
import signal
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import psutil

from gpumap.launch.process import Process, start
from gpumap.launch.streams import Stream
from gpumap.machine.process_control import adopting_orphans, caught

if TYPE_CHECKING:
    from gpumap.launch.process import Job
    from gpumap.launch.streams import Sink
    from gpumap.launch.watching import Watch

    Output = tuple[Sink | None, bytes | None]  # where lines go (None: nowhere), and their prefix
    Outputs = tuple[Output, Output]  # of stdout and of stderr


LIMITS = "raise the limit (ulimit -u, ulimit -n), or map fewer names"  # the fix for a lack of room
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Why = Literal["done", "failed", "timeout", "interrupted", "closed"]
_AGAIN = 0.05  # seconds until one looks again for what is left
_TWICE = 0.2  # seconds in which a signal is the same one, come by two ways
_KILLED = 10.0  # seconds that the kernel has to end what it was told to
_DRAINED = 0.5  # seconds without a byte, when no writer is left
_SIGNALLED = 128
_LONGEST = 0.2  # seconds of a wait: neither a limit nor a reader that goes away sends a signal


class Ending(NamedTuple):
    """How a run ended: the first thing that ended it, and what could not be ended."""

    why: Why
    code: int
    process: Process | None = None
    survivors: tuple[int, ...] = ()


class Run:
    """Starts processes, passes on what they print, and ends them all."""

    def __init__(self, *, grace: float, limit: float | None, watch: Watch | None = None) -> None:
        """Give them `grace` s to end by themselves, and `limit` s in all."""
        self._watch = watch
        self._grace = grace
        self._limit = math.inf if limit is None else limit
        self._signals, self._pipe = ExitStack(), -1
        self._alive: dict[int, Process] = {}
        self._streams: list[Stream] = []
        self._ending = Ending("done", 0)
        self._deadline = math.inf
        self._number: int = signal.SIGTERM  # by which they are asked to end
        self._caught_at = 0.0
        self._kill_at = 0.0
        self._hurried = False  # whether it must end also where its output has no reader

    def __enter__(self) -> Self:
        ignored = (number for number in ENDING if signal.getsignal(number) is signal.SIG_IGN)
        numbers = {*ENDING, signal.SIGCHLD}.difference(ignored)  # nohup ignores SIGHUP
        self._pipe = self._signals.enter_context(caught(numbers))
        self._before = set(psutil.Process().children(recursive=True))
        self._signals.enter_context(adopting_orphans())
        self._deadline = time.monotonic() + self._limit
        if self._watch:
            self._watch.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is not None:
            self._grace = 0.0
            self._end()
        self._signals.close()

    def start(self, job: Job, outputs: Outputs | None = None) -> Process:
        """Start a process; without outputs it has those of this process, and its stdin.

        Raises:
            SubprocessError, OSError: as `process.start`.
        """
        child = start(job, piped=outputs is not None)
        process = self._alive[child.pid] = Process(job, child.pid)
        child.returncode = 0  # it is waited for here
        if outputs and child.stdout and child.stderr:
            out, err = outputs
            process.streams = Stream(child.stdout, *out), Stream(child.stderr, *err)
            self._streams += process.streams
        return process

    def wait(self) -> Ending:
        """Wait for all to end, and end them where that is due; return what came first."""
        for stream in self._streams:
            stream.start()
        while self._alive and self._ending.why == "done":
            self._once(_LONGEST)
        self._end()
        self._drain()
        self._judge()  # what could not be written at last
        return self._ending

    def _once(self, seconds: float) -> None:
        """Wait so long at most for the next thing to happen, and act."""
        if self._watch and self._alive:
            seconds = min(seconds, max(0.0, self._watch.due - time.monotonic()))
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        poll.poll(1000 * seconds + 1)
        self._hear()
        self._reap()
        if self._watch and self._alive:
            self._watch.glance()
        self._judge()

    def _hear(self) -> None:
        """Pass on a signal; a second one ends all at once."""
        come = b""
        with suppress(BlockingIOError):  # nothing has come
            come = os.read(self._pipe, 4096)
        for number in come.replace(bytes([signal.SIGCHLD]), b""):
            now = time.monotonic()
            if self._finish("interrupted", _SIGNALLED + signal.SIGINT):
                self._number, self._caught_at, self._hurried = number, now, True
            elif now > self._caught_at + _TWICE:
                self._kill_at, self._grace, self._hurried = now, 0.0, True

    def _judge(self) -> None:
        """End the run where its time is over, or where its output has no reader any more."""
        if time.monotonic() >= self._deadline and self._alive:
            self._hurried = self._finish("timeout", 124) or self._hurried
        elif any(s.sink.failed for s in self._streams if s.sink):
            self._finish("closed", 141)

    def _finish(self, why: Why, code: int, process: Process | None = None) -> bool:
        """Remember what has ended the run, if nothing has before; return whether that is so."""
        if self._ending.why != "done":
            return False
        self._ending = Ending(why, code, process)
        return True

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while pid := _ended_child():
                if self._watch:
                    self._watch.last(pid)
                pid, status, spent = os.wait4(pid, os.WNOHANG)
                if not pid:
                    return
                if self._watch:
                    self._watch.reaped(pid, spent.ru_utime + spent.ru_stime)
                if process := self._alive.pop(pid, None):  # else it is an orphan
                    process.code = os.waitstatus_to_exitcode(status)
                    if code := process.code:
                        self._finish("failed", code if code > 0 else _SIGNALLED - code, process)

    def _end(self) -> None:
        """Ask each process that is left to end, and kill what has not after the grace."""
        asked: set[psutil.Process] = set()
        self._kill_at = time.monotonic() + self._grace
        while left := self._left():
            now = time.monotonic()
            if now > self._kill_at + _KILLED:
                pids = sorted(process.pid for process in left)
                self._ending = self._ending._replace(survivors=tuple(pids))
                return
            killed = now >= self._kill_at
            for process in left if killed else [each for each in left if each not in asked]:
                with suppress(psutil.Error):
                    process.send_signal(signal.SIGKILL if killed else self._number)
            asked.update(left)
            self._once(_AGAIN)

    def _left(self) -> list[psutil.Process]:
        """Return all that descends from this process, and has not ended; parents come first."""
        self._reap()
        found = psutil.Process().children(recursive=True)
        return [process for process in found if process not in self._before]

    def _drain(self) -> None:
        """Let pass what was printed; wait for a slow reader, unless the run must end."""
        began = time.monotonic()  # what was printed last may not have been read yet
        while left := [stream for stream in self._streams if stream.is_alive()]:
            now = time.monotonic()
            if self._hurried and now > self._kill_at + self._grace:
                return
            if all(stream.since and now > max(stream.since, began) + _DRAINED for stream in left):
                for stream in left:  # who has the pipe is no process of this run
                    stream.end()
                return
            left[0].join(_AGAIN)
            self._once(0.0)


def _ended_child() -> int:
    """Return a child that has ended, and that the kernel still shows; 0: none; -1: any."""
    if not hasattr(os, "waitid"):  # macOS
        return -1
    found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return found.si_pid if found else 0

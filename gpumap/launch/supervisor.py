"""The processes of a run, from the start of the first to the end of the last: nothing survives.

What is left of a run is every process that carries its token, or descends from it. One that makes a
session of its own, and is orphaned, keeps its first environment and thereby the token. One that
drops its environment too is still a descendant of the launcher, which adopts orphans meanwhile.
"""

from __future__ import annotations

import math
import os
import select
import signal
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self

import psutil

from gpumap.errors import QuestionError
from gpumap.launch.placement import TOKEN
from gpumap.launch.process import CHUNK, LIMITS, Started, Stream, ended_child, reap, start
from gpumap.machine.process_control import adopt_orphans

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from gpumap.launch.process import Order, Sink
    from gpumap.launch.watching import Watch

    Output = tuple[Sink, bytes | None]  # where lines go, and with which prefix


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Why = Literal["done", "failed", "timeout", "interrupted", "closed"]
_AGAIN = 0.02  # seconds until one looks again for what is left
_KILLED = 10.0  # seconds that the kernel has to end what it was told to
_DRAINED = 0.5  # seconds without a byte, when no writer is left
_SIGNALLED = 128
_STREAMS = (1, 2)
_LONGEST = 3600.0  # seconds of a wait: poll cannot take those of a month


class Signals:
    """Catches what is to end a run, and the ends of children, while it is entered."""

    def __init__(self) -> None:
        self.pipe, self._written = -1, -1
        self._before: dict[int, object] = {}
        self._wakeup = -1

    def __enter__(self) -> Self:
        self.pipe, self._written = os.pipe()
        for end in (self.pipe, self._written):
            os.set_blocking(end, False)
        self._wakeup = signal.set_wakeup_fd(self._written, warn_on_full_buffer=False)
        for number in (*ENDING, signal.SIGCHLD):
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN or number == signal.SIGCHLD:  # nohup ignores SIGHUP
                self._before[number] = before
                signal.signal(number, lambda *_: None)  # the pipe has its number
        return self

    def __exit__(self, *exc: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._wakeup)
        os.close(self.pipe)
        os.close(self._written)

    def take(self) -> Iterator[int]:
        """Yield what has come, but for the ends of children."""
        with suppress(BlockingIOError):
            while data := os.read(self.pipe, 4096):
                yield from (number for number in data if number != signal.SIGCHLD)


@dataclass(slots=True)
class Process:
    """A process with a name, and what it prints."""

    name: str
    pid: int
    started: Started
    streams: tuple[Stream, ...]  # stdout, stderr; none: those of this process
    code: int | None = None  # below 0: minus the signal that ended it

    @property
    def last(self) -> list[bytes]:
        """Return the last lines of its stderr; if it has none, of its stdout."""
        out, err = (stream.last for stream in self.streams) if self.streams else ([], [])
        return err or out


@dataclass(slots=True)
class Ending:
    """How a run ended: the first thing that ended it, and what could not be ended."""

    why: Why
    code: int
    process: Process | None = None
    survivors: list[int] = field(default_factory=list)


class Run:
    """Starts processes, passes on what they print, and ends them all."""

    def __init__(
        self, token: str, *, grace: float, limit: float | None, watch: Watch | None = None
    ) -> None:
        """Let `token` be what their environments have; give them `grace` s to end by themselves."""
        self._token = token
        self._watch = watch
        self._grace = grace
        self._limit = limit
        self._signals = Signals()
        self._alive: dict[int, Process] = {}
        self._streams: list[Stream] = []  # those that are open
        self._sinks: list[Sink] = []
        self._ending: Ending | None = None
        self._deadline: float | None = None
        self._kill_at: float | None = None
        self._killed_at: float | None = None
        self._hurried = False  # whether it must end also where its output has no reader
        self._term_sent = False  # whether what was left was asked to end
        self._clear = False  # whether nothing is left

    def __enter__(self) -> Self:
        try:
            self._signals.__enter__()
            adopt_orphans(orphans=True)
            self._reaper = Reaper(self._token)
        except OSError as error:
            raise QuestionError(f"cannot start a run: {error.strerror}", LIMITS) from error
        self._orphans = Orphans(self._token, os.getpid(), [self._reaper.pid])
        if self._limit is not None:
            self._deadline = time.monotonic() + self._limit
        if self._watch:
            self._watch.begin()
        return self

    def __exit__(self, *exc: object) -> None:
        until = time.monotonic() + _KILLED
        while not self._clear and self._signal(signal.SIGKILL):  # an error came between
            self._reap()
            if time.monotonic() > until:
                break
            time.sleep(_AGAIN)
        self._reap()
        for stream in self._streams:
            os.close(stream.pipe)
        self._reaper.end()
        adopt_orphans(orphans=False)
        self._signals.__exit__()

    def start(
        self, name: str, order: Order, out: Output | None = None, err: Output | None = None
    ) -> Process:
        """Start a process; where "affinity" or "exec" failed it has ended.

        Without outputs it has those of this process, and its stdin.

        Raises:
            OSError: the system has no room for it.
        """
        if out is None or err is None:
            started = start(order, *_STREAMS)
            process = self._alive[started.pid] = Process(name, started.pid, started, ())
            return process
        pipes = os.pipe()
        try:
            others = os.pipe()
        except OSError:
            _close(pipes)
            raise
        try:
            started = start(order, pipes[1], others[1])
        except OSError:
            _close((pipes[0], others[0]))
            raise
        finally:
            _close((pipes[1], others[1]))
        streams = (Stream(pipes[0], *out), Stream(others[0], *err))
        process = Process(name, started.pid, started, streams)
        self._streams += streams
        self._sinks += [sink for sink, _ in (out, err) if sink not in self._sinks]
        self._alive[process.pid] = process
        return process

    def wait(self) -> Ending:
        """Wait for all to end, and end them where that is due; return what came first."""
        while not self._over():
            self._once()
        return self._ending or Ending("done", 0)

    def _abandon(self) -> None:
        """Wait no more for who has a pipe and is no process of this run."""
        for stream in self._streams:
            stream.end()
            os.close(stream.pipe)
        self._streams.clear()

    def _over(self) -> bool:
        if self._alive or not self._clear:
            return False
        waiting = self._streams or any(sink.waiting for sink in self._sinks)
        late = self._kill_at is not None and time.monotonic() > self._kill_at + self._grace
        return not waiting or (late and self._hurried)  # the output has no reader

    def _once(self) -> None:
        """Wait for the next thing to happen, and act."""
        readable = {s.pipe: s for s in self._streams if not s.sink.full}
        writable = {s.descriptor: s for s in self._sinks if s.waiting}
        poll = select.poll()
        for pipe in (self._signals.pipe, *readable):
            poll.register(pipe, select.POLLIN)
        for descriptor in writable:
            poll.register(descriptor, select.POLLOUT)
        happened = self._looking(poll)
        if self._watch and any(descriptor in readable for descriptor, _ in happened):
            self._watch.hide()
        for descriptor, _ in happened:
            if descriptor in readable:
                self._read(readable[descriptor])
            elif descriptor in writable:
                writable[descriptor].flush()
        if self._clear and not happened and not writable:
            self._abandon()
        for number in self._signals.take():  # it is passed on; a second one ends all at once
            self._hurried = True
            if self._ending is None:
                self._finish(Ending("interrupted", _SIGNALLED + signal.SIGINT), number)
            else:
                self._kill_at = time.monotonic()
        self._reap()
        self._advance(time.monotonic())

    def _looking(self, poll: select.poll) -> list[tuple[int, int]]:
        """Wait for what happens; while nothing does, there is nothing to do but to look."""
        end = math.inf if self._deadline is None else self._deadline
        while self._watch and self._alive and self._ending is None and time.monotonic() < end:
            pause = min(self._watch.due, end) - time.monotonic()
            if happened := poll.poll(1000 * max(pause, 0.0) + 1):
                return happened
            self._watch.glance()
        return poll.poll(self._pause())

    def _pause(self) -> float | None:
        """Return how many ms one may wait at most."""
        due = self._watch.due if self._watch and self._alive else None
        times = [at for at in (self._kill_at, self._deadline, due) if at is not None]
        pauses = [max(0.0, at - time.monotonic()) for at in times if not self._clear]
        if self._clear:
            pauses.append(_DRAINED)
        elif not self._alive:
            pauses.append(_AGAIN)
        return 1000 * min(*pauses, _LONGEST) + 1 if pauses else None

    def _read(self, stream: Stream) -> None:
        data = os.read(stream.pipe, CHUNK)
        if data:
            stream.take(data)
            return
        stream.end()
        self._streams.remove(stream)
        os.close(stream.pipe)

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while pid := ended_child():
                if self._watch:
                    self._watch.last(pid)
                pid, status, spent = os.wait4(pid, os.WNOHANG)
                if not pid:
                    return
                if self._watch:
                    self._watch.reaped(pid, spent.ru_utime + spent.ru_stime)
                if (process := self._alive.pop(pid, None)) is None:  # an orphan
                    continue
                code = process.code = os.waitstatus_to_exitcode(status)
                if code and self._ending is None:
                    ended = code if code > 0 else _SIGNALLED - code
                    self._finish(Ending("failed", ended, process))

    def _finish(self, ending: Ending, number: int = signal.SIGTERM) -> None:
        """End all, and remember why."""
        self._ending = ending
        self._kill_at = time.monotonic() + self._grace
        self._signal(number)

    def _signal(self, number: int) -> bool:
        """Send a signal to all; return whether there was anybody."""
        found = self._orphans.signal(number)
        if not found:  # no /proc: then their groups are all that is known
            for pid in self._alive:
                with suppress(OSError):
                    os.killpg(pid, number)
        return found

    def _advance(self, now: float) -> None:
        """Do what is due."""
        if self._watch and self._alive:
            self._watch.glance()
        if self._clear:
            return
        if self._ending is None:
            if self._deadline is not None and now >= self._deadline and self._alive:
                self._hurried = True
                self._finish(Ending("timeout", 124))
            elif any(sink.vital and sink.failed for sink in self._sinks):
                self._finish(Ending("closed", 141))
        if self._kill_at is not None and now >= self._kill_at:
            self._kill(now)
        if not self._alive:
            self._clean(now)

    def _kill(self, now: float) -> None:
        self._killed_at = self._killed_at or now
        self._kill_at = now + _AGAIN
        self._signal(signal.SIGKILL)
        if now > self._killed_at + _KILLED:
            self._ending = self._ending or Ending("done", 0)
            self._ending.survivors = self._orphans.find()
            self._alive.clear()
            self._clear = True

    def _clean(self, now: float) -> None:
        """End what the processes have left; look until there is nothing."""
        if self._term_sent:
            self._clear = self._clear or not self._orphans.find()
            return
        self._term_sent = True
        if not self._orphans.signal(signal.SIGTERM):
            self._clear = True
        elif self._kill_at is None:
            self._kill_at = now + self._grace


def _close(descriptors: tuple[int, int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


_PAUSE = 0.02
_PATIENCE = 10.0  # seconds in which the kernel ends what it was told to
_LETTING_GO = 1.0  # seconds: it has nothing left to do, but may be stopped


class Orphans:
    """The processes of the run with a token, but for its own ones."""

    def __init__(self, token: str, root: int | None, own: Collection[int] = ()) -> None:
        """Look for carriers of `token`, and descendants of `root`; never for those in `own`.

        Nor for what `root` was the parent of before.
        """
        self._token = token
        self._root = root
        self._own = {os.getpid(), *own}
        self._own |= self._below()

    def find(self) -> list[int]:
        """Return the processes that live."""
        return [process.pid for process in self._every()]

    def signal(self, number: int) -> bool:
        """Send a signal to all; return whether there was any."""
        for process in (found := self._every()):
            with suppress(psutil.Error, OSError):
                process.send_signal(number)  # to no other that has its number by now
        return bool(found)

    def _every(self) -> list[psutil.Process]:
        below = self._below()
        others = (p for p in psutil.process_iter() if p.pid not in self._own)
        return [p for p in others if _lives(p) and (p.pid in below or self._carries(p))]

    def _carries(self, process: psutil.Process) -> bool:
        try:
            return self._token in process.environ().get(TOKEN, "").split(":")
        except (psutil.Error, OSError):  # it has ended, or is another user's
            return False

    def _below(self) -> set[int]:
        """Return the descendants of the root, without those of the run's own processes."""
        children: defaultdict[int, list[int]] = defaultdict(list)
        for process in psutil.process_iter(["ppid"]) if self._root is not None else ():
            children[process.info["ppid"]].append(process.pid)
        found: set[int] = set()
        waiting = children[self._root or 0]
        while waiting:
            if (pid := waiting.pop()) not in self._own:
                found.add(pid)
                waiting += children[pid]
        return found


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False


class Reaper:
    """A process that ends all others of a run when the launcher dies without having done so."""

    def __init__(self, token: str) -> None:
        reading, self._pipe = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                os.close(self._pipe)
                _be_reaper(reading, token)
            finally:
                os._exit(0)
        os.close(reading)

    def end(self) -> None:
        """Let it go: everything has ended."""
        with suppress(OSError):
            os.write(self._pipe, b".")
        os.close(self._pipe)
        reap(self.pid, _LETTING_GO)


def _be_reaper(reading: int, token: str) -> None:
    """Be the reaper: wait for the launcher's word, or for its end."""
    os.setsid()  # Ctrl-C is for the launcher
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # who reads the launcher's output sees its end
        os.dup2(null, stream)
    select.select([reading], [], [])
    if os.read(reading, 1):
        return
    orphans = Orphans(token, None)
    until = time.monotonic() + _PATIENCE
    quiet = 0
    while quiet < 2 and time.monotonic() < until:  # noqa: PLR2004 - one may have just forked
        quiet = 0 if orphans.signal(signal.SIGKILL) else quiet + 1
        time.sleep(_PAUSE)

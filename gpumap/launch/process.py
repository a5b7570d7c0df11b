"""One process of a run: its start, from fork to exec, and what it prints, in bounded memory."""

from __future__ import annotations

import errno
import os
import select
import signal
import stat
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from gpumap.machine.process_control import PARENT_DEATH, pin, prctl

LIMITS = "raise the limit (ulimit -u, ulimit -n), or map fewer names"  # the fix for a lack of room
# Python ignores some, and a run handles others: the program gets what the run was given.
_OURS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
_PYTHONS = (signal.SIGPIPE, signal.SIGXFSZ)
_STDOUT = 1  # a process that has it from this one has its stdin, too
_BECOMING = 60.0  # seconds that an exec may take: the program may be on a slow network
_STEPS = 4096  # bytes, more than a child says
_LOOK = 0.002  # seconds between two looks at a child that should have ended


@dataclass(frozen=True, slots=True)
class Order:
    """A process to start: its program, its variables, and where it runs."""

    path: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cores: tuple[int, ...] = ()  # none: wherever this process may run


@dataclass(frozen=True, slots=True)
class Started:
    """A process; which of its steps failed, and the errno of each."""

    pid: int
    failed: Mapping[str, int]


def start(order: Order, out: int, err: int) -> Started:
    """Start a process in a session of its own; it dies with this one.

    Its steps are "affinity" and "exec", without which it has ended.
    """
    call = prctl()
    reading, writing = os.pipe()
    parent = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OURS)
    try:
        pid = os.fork()
        if not pid:
            try:
                os.close(reading)
                if call is not None:
                    call(PARENT_DEATH, signal.SIGKILL)
                if os.getppid() == parent:  # else it died before the kernel knew
                    _become(order, (out, err, writing), before)
            finally:
                os._exit(127)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(writing)
    rows = (line.split() for line in _read_steps(reading).decode().splitlines())
    return Started(pid, {step: int(number) for step, number in rows})


def ended_child() -> int:
    """Return a child that has ended, and that the kernel still shows; 0: none; -1: any."""
    if not hasattr(os, "waitid"):  # macOS
        return -1
    found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return found.si_pid if found else 0


def reap(pid: int, patience: float) -> None:
    """Wait until a child has ended; kill it where it has not within `patience` seconds."""
    with suppress(ChildProcessError):
        for last in (False, True):
            until = time.monotonic() + patience
            while not os.waitpid(pid, os.WNOHANG)[0]:
                if time.monotonic() > until:
                    break  # after a SIGKILL it is the kernel's, in a driver's call for example
                time.sleep(_LOOK)
            else:
                return
            if not last:
                os.kill(pid, signal.SIGKILL)


def _read_steps(reading: int) -> bytes:
    """Return what a child says before it is another program: at most until it should be one."""
    received = b""
    until = time.monotonic() + _BECOMING
    try:
        while select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
            if not (more := os.read(reading, _STEPS)):
                break
            received += more
    finally:
        os.close(reading)
    return received


def _become(order: Order, pipes: tuple[int, int, int], mask: object) -> None:
    """Turn into the program; comes back only where that fails."""
    out, err, writing = pipes

    def say(step: str, number: int) -> None:
        os.write(writing, f"{step} {number}\n".encode())

    os.setsid()
    handled = (each for each in _OURS if signal.getsignal(each) is not signal.SIG_IGN)
    for each in (*handled, *_PYTHONS):
        signal.signal(each, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)  # type: ignore[arg-type]
    if out != _STDOUT:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    if order.cores and not pin(order.cores):
        say("affinity", errno.EINVAL)
        return
    try:
        os.execve(order.path, order.argv, order.env)  # noqa: S606 - a program, not a shell
    except OSError as error:
        say("exec", error.errno or errno.EINVAL)


LONGEST = 65536  # bytes of a line; a longer one is passed on in pieces
CHUNK = 65536
_FULL = 1 << 20  # bytes that may wait for who reads; then the processes wait too
_PIPE = 4096  # what a pipe takes whole, and without a wait, when it takes anything
_KEPT = 10  # last lines
_SHOWN = 300  # bytes of each


class Sink:
    """Where output goes. A slow reader never holds the launcher up."""

    def __init__(self, descriptor: int, *, vital: bool = True) -> None:
        """Write to a file; what it fails with ends a run if it is `vital`."""
        self.descriptor = descriptor
        self.vital = vital
        self.failed: OSError | None = None
        self._pending = bytearray()
        self._plain = stat.S_ISREG(os.fstat(descriptor).st_mode)

    @property
    def waiting(self) -> bool:
        """Whether something was not written yet."""
        return bool(self._pending)

    @property
    def full(self) -> bool:
        """Whether nothing more should come."""
        return len(self._pending) >= _FULL

    def write(self, data: bytes | bytearray) -> None:
        """Take data, and write as much as can be."""
        if self.failed is None:
            self._pending += data
            self.flush()

    def flush(self) -> None:
        """Write what can be written now; where that fails, nothing is taken any more."""
        try:
            while self._pending and self._ready():
                written = os.write(self.descriptor, self._piece())
                del self._pending[:written]
        except OSError as error:
            self.failed = error
            self.drop()

    def drop(self) -> None:
        """Forget what waits."""
        self._pending.clear()

    def _ready(self) -> bool:
        if self._plain:
            return True
        poll = select.poll()
        poll.register(self.descriptor, select.POLLOUT)
        return bool(poll.poll(0))

    def _piece(self) -> bytes:
        """Return what to write next: whole lines, where one ends in time."""
        if self._plain or len(self._pending) <= _PIPE:
            return bytes(self._pending)
        cut = self._pending.rfind(b"\n", 0, _PIPE) + 1
        return bytes(self._pending[: cut or _PIPE])


class Stream:
    """One output of one process, on its way from a pipe to a sink."""

    def __init__(self, pipe: int, sink: Sink, prefix: bytes | None) -> None:
        """Put `prefix` before each line; None: bytes go on as they come."""
        self.pipe = pipe
        self.sink = sink
        self._prefix = prefix
        self._begun = bytearray()  # a line without its end
        self._last: deque[bytes] = deque(maxlen=_KEPT)

    @property
    def last(self) -> list[bytes]:
        """Return its last lines, each cut to what can be shown."""
        begun = [bytes(self._begun[:_SHOWN])] if self._begun else []
        return [*self._last, *begun][-_KEPT:]

    def take(self, data: bytes) -> None:
        """Pass data on."""
        text = self._begun + data
        cut = text.rfind(b"\n") + 1
        whole, self._begun = text[:cut], text[cut:]
        if whole:
            self._remember(whole)
        if self._prefix is None:
            self.sink.write(data)
        else:
            if whole:
                self.sink.write(self._prefixed(whole))
            if len(self._begun) < LONGEST:
                return
            self.sink.write(self._prefixed(self._begun + b"\n"))
        if len(self._begun) >= LONGEST:
            self._remember(self._begun)
            self._begun.clear()

    def end(self) -> None:
        """Pass on a last line that has no end."""
        if self._begun:
            if self._prefix is not None:
                self.sink.write(self._prefixed(self._begun + b"\n"))
            self._remember(self._begun)
            self._begun.clear()

    def _prefixed(self, lines: bytearray) -> bytes:
        assert self._prefix is not None
        return self._prefix + lines[:-1].replace(b"\n", b"\n" + self._prefix) + b"\n"

    def _remember(self, lines: bytearray) -> None:
        tail = lines.rstrip(b"\n").rsplit(b"\n", _KEPT)[-_KEPT:]
        self._last.extend(bytes(line[:_SHOWN]) for line in tail)

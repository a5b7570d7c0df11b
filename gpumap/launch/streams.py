"""Output of a process on its way to where it goes: whole lines, in bounded memory."""

from __future__ import annotations

import os
import select
import stat
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import IO

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

    def __init__(self, pipe: IO[bytes], sink: Sink, prefix: bytes | None) -> None:
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

"""Output of a process on its way to where it goes: whole lines, in bounded memory."""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import IO

LONGEST = 65536  # bytes of a read, and of a line; a longer one is passed on in pieces
_KEPT = 10  # last lines
_SHOWN = 300  # bytes of each
_writing = threading.Lock()  # stdout and stderr may be one pipe


class Sink:
    """Where output goes. Who writes waits for a slow reader, and so does the process behind it."""

    def __init__(self, descriptor: int) -> None:
        """Write to a file."""
        self.failed: OSError | None = None  # it ends a run
        self._descriptor = descriptor
        self._poll = select.poll()  # who started gpumap may have made it non-blocking
        self._poll.register(descriptor, select.POLLOUT)

    def write(self, data: bytes | bytearray) -> None:
        """Write all data; where that fails, nothing is written any more."""
        with _writing:
            try:
                while data and not self.failed:
                    self._poll.poll()
                    data = data[os.write(self._descriptor, data) :]
            except OSError as error:
                self.failed = error


class Stream(threading.Thread):
    """One output of one process, on its way from a pipe to a sink."""

    def __init__(self, pipe: IO[bytes], sink: Sink | None, prefix: bytes | None) -> None:
        """Put `prefix` before each line; None: bytes go on as they come.

        Without a sink the last lines are kept alone.
        """
        super().__init__(daemon=True)
        self.pipe = pipe
        self.sink = sink
        self.since: float | None = None  # when it began to wait for output; None: it writes
        self._prefix = prefix
        self._begun = bytearray()  # a line without its end
        self._last: deque[bytes] = deque(maxlen=_KEPT)

    def run(self) -> None:
        """Pass on all that comes."""
        self.since = time.monotonic()
        with self.pipe:
            while data := self.pipe.read(LONGEST):
                self.since = None
                self.take(data)
                self.since = time.monotonic()
        self.end()

    @property
    def last(self) -> list[bytes]:
        """Return its last lines, each cut to what can be shown."""
        begun = [bytes(self._begun[:_SHOWN])] if self._begun else []
        return [*self._last, *begun][-_KEPT:]

    def take(self, data: bytes) -> None:
        """Pass data on, behind a prefix by whole lines, and pieces of a line that is too long."""
        if self._prefix is None and self.sink is not None:
            self.sink.write(data)
        text = self._begun + data
        cut = text.rfind(b"\n") + 1
        if len(text) - cut >= LONGEST:
            cut = len(text)
        self._begun = text[cut:]
        self._pass(text[:cut])

    def end(self) -> None:
        """Pass on a last line that has no end."""
        self._pass(self._begun)
        self._begun = bytearray()

    def _pass(self, lines: bytearray) -> None:
        if not lines:
            return
        lines = lines.removesuffix(b"\n")
        self._last.extend(bytes(line[:_SHOWN]) for line in lines.rsplit(b"\n", _KEPT)[-_KEPT:])
        if self._prefix is not None and self.sink is not None:
            text = lines.replace(b"\n", b"\n" + self._prefix)
            self.sink.write(self._prefix + text + b"\n")

"""Signals as something to wait for: their numbers, behind a pipe that can be polled."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
                signal.signal(number, _nothing)
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


def _nothing(number: int, frame: object) -> None:
    """Handle a signal: its number is in the pipe."""

"""What a program did on its devices: each operation and each transfer, on one clock."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gpumap.contexts.operations import HOST
from gpumap.errors import DeviceError
from gpumap.model import TraceEvent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from gpumap.backends.base import Clock, Mark, Session

What = Literal["operation", "transfer"]
Line = tuple[str, int]  # a file, and the number of a line in it
_OURS = ("gpumap", "contextlib", "numpy")  # packages whose lines are no line of a program


_What = tuple[str, str, What, int, tuple[int, ...], bool]  # the first fields of a TraceEvent


class _Queued(NamedTuple):
    """An event of a session, between two marks of it."""

    what: _What
    session: Session
    start: Mark
    stop: Mark
    line: Line | None


class Tracer:
    """Marks around everything that is queued; when they were reached is asked for only later.

    Attributes:
        origin: the clock's time at which it began; every event counts from there.
    """

    def __init__(self, clock: Clock) -> None:
        self.origin = clock.now()
        self._queued: list[_Queued | TraceEvent] = []

    @contextmanager
    def around(
        self,
        name: str,
        device: str,
        kind: What,
        session: Session,
        made: Any,
        *,
        implicit: bool = False,
    ) -> Iterator[None]:
        """Note what is queued inside the `with`, and the array that it makes."""
        start = session.mark()
        yield
        stop = session.mark()
        what = (name, device, kind, made.nbytes, made.shape, implicit)
        self._queued.append(_Queued(what, session, start, stop, _line()))

    def done(self, name: str, made: Any, start: float, stop: float) -> None:
        """Note what the host has computed, between two moments of the clock."""
        what: tuple[str, str, What] = (name, HOST, "operation")
        times = (start - self.origin, stop - self.origin)
        found = TraceEvent(*what, made.nbytes, made.shape, False, *times, _shown(_line()))  # noqa: FBT003 - not implicit
        self._queued.append(found)

    def events(self) -> list[TraceEvent]:
        """Return every event so far, in the order of queueing; waits for those that run."""
        self._queued = [self._resolved(one) for one in self._queued]
        return [one for one in self._queued if isinstance(one, TraceEvent)]

    def _resolved(self, one: _Queued | TraceEvent) -> TraceEvent:
        if isinstance(one, TraceEvent):
            return one
        start, stop = self._moment(one.session, one.start), self._moment(one.session, one.stop)
        if start is not None and stop is not None:
            stop = max(start, stop)
        return TraceEvent(*one.what, start, stop, _shown(one.line))

    def _moment(self, session: Session, mark: Mark) -> float | None:
        """Return when a mark was reached; None where the device cannot tell, or is lost."""
        try:
            found = session.at(mark)
        except DeviceError:
            return None
        return None if found is None else found - self.origin


def _line() -> Line | None:
    """Return the line of the program that called; None where only gpumap's own are left."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - what `inspect` takes a millisecond for
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if str(module).partition(".")[0] not in _OURS:
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def _shown(line: Line | None) -> str | None:
    """Return a line as ``script.py:12``, its path from the current folder if it is in there."""
    if line is None:
        return None
    path, number = line
    try:
        inside = os.path.relpath(path)
    except (OSError, ValueError):  # the folder is gone; another drive
        inside = os.pardir
    return f"{path if inside.startswith(os.pardir) else inside}:{number}"

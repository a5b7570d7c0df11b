"""What a program did on its devices: each operation and each transfer, on one clock."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gpumap.backends.base import Mark, Session
from gpumap.contexts.placement import HOST
from gpumap.errors import DeviceError
from gpumap.model import TraceEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.backends.base import Clock
    from gpumap.contexts.array import Array

What = Literal["operation", "transfer"]


@dataclass(frozen=True, slots=True)
class _Queued:
    """An event of a session, between two marks of it."""

    name: str
    device: str
    kind: What
    nbytes: int
    shape: tuple[int, ...]
    implicit: bool
    session: Session
    start: Mark
    stop: Mark


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
        made: Array,
        *,
        implicit: bool = False,
    ) -> Iterator[None]:
        """Note what is queued inside the `with`, and of which array."""
        start = session.mark()
        yield
        stop = session.mark()
        found = _Queued(name, device, kind, made.nbytes, made.shape, implicit, session, start, stop)
        self._queued.append(found)

    def done(self, name: str, made: Array, start: float, stop: float) -> None:
        """Note what the host has computed, between two moments of the clock."""
        start, stop = start - self.origin, stop - self.origin
        found = TraceEvent(name, HOST, "operation", made.nbytes, made.shape, False, start, stop)  # noqa: FBT003 - not implicit
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
        what = (one.name, one.device, one.kind, one.nbytes, one.shape, one.implicit)
        return TraceEvent(*what, start, stop)

    def _moment(self, session: Session, mark: Mark) -> float | None:
        """Return when a mark was reached; None where the device cannot tell, or is lost."""
        try:
            found = session.at(mark)
        except DeviceError:
            return None
        return None if found is None else found - self.origin

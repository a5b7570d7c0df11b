"""Host times of events, for sessions whose events know only the time between two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpumap.backends.base import Clock

_REBASE = 1.0  # seconds: the device's clock and the host's drift apart
_CONTROLS = 5  # looks at both clocks: the shortest one is off by the least


class DeviceClock:
    """The clock of one session's device beside the host's."""

    def __init__(self, session: Any, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._base = self._control()

    def at(self, mark: Any) -> float:
        """Return the host time of a mark in seconds, counted from a base event."""
        if self._clock.now() - self._base[0] > _REBASE:
            self._base = self._control()
        host, base = self._base
        return host + float(self._session.seconds(base, mark))

    def _control(self) -> tuple[float, Any]:
        """Return one moment as the host's time and as an event: the middle of the shortest look."""
        session = self._session
        session.synchronize()
        looks = []
        for _ in range(_CONTROLS):
            before = self._clock.now()
            mark = session.mark()
            session.synchronize()
            after = self._clock.now()
            looks.append((after - before, (before + after) / 2, mark))
        _, moment, mark = min(looks, key=lambda look: look[0])
        return moment, mark

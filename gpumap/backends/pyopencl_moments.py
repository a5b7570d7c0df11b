"""When a device came to a mark, by the host's clock.

Which clock a driver stamps with is not told, and differs: PoCL's is CLOCK_MONOTONIC_RAW, Intel's
CLOCK_MONOTONIC. If a marker's stamp falls between two looks at one of them, that clock is read
beside the host's; else the marker's own end is taken as now.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumap.backends.base import Clock

_CLOCKS = tuple(
    getattr(time, name)
    for name in ("CLOCK_MONOTONIC", "CLOCK_MONOTONIC_RAW")
    if hasattr(time, name)
)
_RENEWED = 1.0  # seconds: clocks drift apart by microseconds a second
_LOOKS = 5  # at two clocks; the quickest is not one in which the scheduler stepped between


class Moments:
    """One moment as the host's time and as a device's stamp; another after a while."""

    def __init__(self, clock: Clock, stamped: Callable[[], int]) -> None:
        """`stamped` marks a device's queue, and returns its stamp in nanoseconds."""
        self._clock = clock
        self._stamped = stamped
        self._host, self._stamp = self._together()

    def at(self, stamp: int) -> float:
        """Return the host's time, in seconds, of a device's stamp in nanoseconds."""
        if self._clock.now() - self._host > _RENEWED:
            self._host, self._stamp = self._together()
        return self._host + (stamp - self._stamp) * 1e-9

    def _together(self) -> tuple[float, int]:
        before = {clock: time.clock_gettime_ns(clock) for clock in _CLOCKS}
        stamp = self._stamped()
        host = self._clock.now()
        for clock, earlier in before.items():
            if earlier <= stamp <= time.clock_gettime_ns(clock):
                _, together = min(self._beside(clock) for _ in range(_LOOKS))
                return together
        return host, stamp

    def _beside(self, clock: int) -> tuple[float, tuple[float, int]]:
        """Return host and `clock` read together, behind how long that took: the host may pause."""
        start = self._clock.now()
        stamp = time.clock_gettime_ns(clock)
        stop = self._clock.now()
        return stop - start, ((start + stop) / 2, stamp)

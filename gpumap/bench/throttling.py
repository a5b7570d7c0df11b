"""Which samples were taken while something held their devices back: heat, or a limit of power.

The devices are looked at between blocks, never inside a sample, and seldom enough to cost nothing.
What comes and goes between two looks is not seen; what is seen marks every sample since the last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpumap.backends.base import Clock
    from gpumap.bench.timing import Series
    from gpumap.model import Binding, Group

_EVERY = 0.1  # seconds from one look to the next
_SHARE = 0.01  # of the time, that looking may take: a large machine has many files

# Takes the ids of the devices that worked just now; returns what holds devices back, by their ids.
Look = Callable[[Collection[str]], Mapping[str, str]]


def unwatched(at_work: Collection[str]) -> Mapping[str, str]:  # noqa: ARG001 - a Look
    """Return that nothing holds any device back."""
    return {}


class Throttling:
    """Looks now and then, and marks the samples since the last look; a sample is kept either way.

    One for a run: `begin` for each group, `taken` for each sample, `look` after each block.
    """

    def __init__(self, look: Look, clock: Clock) -> None:
        self._look = look
        self._clock = clock
        self._due = 0.0
        self._devices: dict[str, tuple[str, ...]] = {}
        self._unjudged: list[tuple[str, Series, int]] = []

    def begin(self, group: Group) -> None:
        """Look for the first time: what was before the first sample is none's."""
        self._devices = {case.id: _devices(case.bindings) for case in group.cases}
        self._unjudged.clear()
        self._ask(())

    def taken(self, id_: str, series: Series, block: int) -> None:
        """Hear of a sample of a case."""
        self._unjudged.append((id_, series, block))

    def look(self, *, last: bool = False) -> None:
        """Mark the samples since the last look, if it is time for one or there is none after it."""
        if not self._unjudged or (self._clock.now() < self._due and not last):
            return
        held = self._ask(self._devices[self._unjudged[-1][0]])
        for id_, series, block in self._unjudged:
            if words := [f"{d}: {held[d]}" for d in self._devices[id_] if d in held]:
                series.throttled[block] = "; ".join(words)
        self._unjudged.clear()

    def _ask(self, at_work: Collection[str]) -> Mapping[str, str]:
        start = self._clock.now()
        held = self._look(at_work)
        now = self._clock.now()
        self._due = now + max(_EVERY, (now - start) / _SHARE)
        return held


def _devices(bindings: Collection[Binding]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(binding.device.id for binding in bindings))

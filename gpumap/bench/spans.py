"""When each device did its part of a round, on one clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpumap.backends.base import Mark

if TYPE_CHECKING:
    from gpumap.backends.base import Session


@dataclass(frozen=True, slots=True)
class Part:
    """What one device did in one round: host times, and the CPU time of its own thread."""

    start: float
    stop: float
    worked: float | None  # None where the device has no thread of its own


@dataclass(slots=True)
class Spans:
    """Marks that a round queues around the work of each device, by the device's name."""

    _begun: dict[str, Mark] = field(default_factory=dict)
    _ended: dict[str, Mark] = field(default_factory=dict)

    def begin(self, name: str, session: Session) -> None:
        """Mark the place before a device's work; the first one of a round counts."""
        if name not in self._begun:
            self._begun[name] = session.mark()

    def end(self, name: str, session: Session) -> None:
        """Mark the place behind a device's work; the last one of a round counts."""
        self._ended[name] = session.mark()

    def parts(self) -> dict[str, Part]:
        """Return each device's part; waits for the marks. A device without a clock has none."""
        found = {name: _part(begun, self._ended[name]) for name, begun in self._begun.items()}
        return {name: part for name, part in found.items() if part is not None}


def _part(begun: Mark, ended: Mark) -> Part | None:
    session: Session = begun.session
    start, stop = session.at(begun), session.at(ended)
    if start is None or stop is None:
        return None
    return Part(start, max(start, stop), session.worked(begun, ended))

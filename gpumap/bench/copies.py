"""Copies that can be proved: a source that is known, a destination that is wrong beforehand.

All cases of a group use the same memory, the first bytes of it: what is allocated anew each time is
slow the first time it is touched. Sources are written once, and by no copy. A destination knows
whose copy came last; a check that finds another's there copies once more before it looks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpumap.model import Check

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumap.backends.base import HostMemory, Session
    from gpumap.bench.spans import Spans

_PART = 1 << 20  # bytes of a buffer that are made or compared at a time


class Ends:
    """Random bytes on the host and on a device, and room for them on both."""

    def __init__(
        self, name: str, session: Session, nbytes: int, memory: HostMemory, seed: tuple[int, int]
    ) -> None:
        import numpy as np

        self.name = name
        self.session = session
        nbytes += 1  # the last one is only poisoned: by a copy, which may be one byte short
        self.source = session.host((nbytes,), "uint8", memory)
        rng = np.random.default_rng(seed)
        for part in _parts(nbytes):
            self.source[part] = rng.integers(0, 256, self.source[part].size, dtype=np.uint8)
        self.kept = session.empty((nbytes,), "uint8")
        session.upload(self.source, self.kept)
        session.synchronize()
        self.buffer = session.empty((nbytes,), "uint8")
        self.landing = session.host((nbytes,), "uint8", memory)
        self.holders: dict[str, object] = {}  # destination -> the round that moved something there

    def cut(self, nbytes: int) -> Cut:
        """Return the first bytes of all three."""
        return Cut(self, nbytes)


class Cut:
    """The first bytes of both ends of a copy."""

    def __init__(self, ends: Ends, nbytes: int) -> None:
        self.ends = ends
        self.name = ends.name
        self.session = ends.session
        self.source = ends.source[:nbytes]
        self.kept = ends.kept[:nbytes]
        self.buffer = ends.buffer[:nbytes]
        self.landing = ends.landing[:nbytes]

    def spoil(self, right: Any) -> None:
        """Make the device's bytes wrong, the last one for certain.

        By a kernel where there are some: a copy that is broken must not be what hides it. Of a
        constant one byte in 256 is right by chance; without kernels every byte is the opposite.
        """
        self.spoil_landing(right)
        n = self.landing.size
        if "kernels" in self.session.features:
            self.session.run("fill", self.buffer, float(self.landing[-1]), size=n)
        else:
            self.session.upload(self.ends.landing[: n + 1], self.ends.buffer[: n + 1])
        self.session.synchronize()

    def spoil_landing(self, right: Any) -> None:
        """Make every byte of the landing differ from what will be right."""
        import numpy as np

        np.invert(right, out=self.landing)

    def fetched(self, right: Any) -> Check:
        """Bring what is on the device to the host, and compare."""
        self.ends.holders["landing"] = None
        self.spoil_landing(right)
        self.session.download(self.buffer, self.landing)
        self.session.synchronize()
        return self.landed(right)

    def landed(self, right: Any) -> Check:
        """Compare the landing with what is right, byte for byte."""
        first = _first_difference(self.landing, right)
        return Check("bytes", first is None, nbytes=self.source.nbytes, first_bad_offset=first)


class Copies(ABC):
    """Rounds of copies: waited for one by one (`sync`), or queued one behind the other.

    `targets` are the ends whose `place`, buffer or landing, is written.
    """

    def __init__(self, targets: Sequence[Cut], place: str, *, sync: bool) -> None:
        self._targets = targets
        self._place = place
        self._sync = sync

    @abstractmethod
    def poison(self) -> None:
        """Make every destination wrong."""

    @abstractmethod
    def finish(self) -> None:
        """Wait for every device."""

    @abstractmethod
    def _copy(self, spans: Spans | None, repeat: int) -> None:
        """Queue the copy `repeat` times."""

    def queue(self, spans: Spans | None = None, rounds: int = 1) -> None:
        """Copy `rounds` times."""
        self._claim()
        if not self._sync:
            self._copy(spans, rounds)
            return
        for _ in range(rounds):
            self._copy(spans, 1)
            self.finish()

    def _claim(self) -> None:
        for cut in self._targets:
            cut.ends.holders[self._place] = self

    def _copied_last(self) -> None:
        """Copy once more if another round has moved something to the same place since."""
        if any(cut.ends.holders.get(self._place) is not self for cut in self._targets):
            self.poison()
            self.queue()
            self.finish()


class HostCopy(Copies):
    """Copies between the host and one or more devices, in one direction."""

    route: str | None = None

    def __init__(self, ends: Sequence[Cut], direction: str, *, sync: bool) -> None:
        super().__init__(ends, "buffer" if direction == "h2d" else "landing", sync=sync)
        self._ends = ends
        self._direction = direction

    def poison(self) -> None:
        """Make every destination wrong."""
        self._claim()
        for ends in self._ends:
            if self._direction == "h2d":
                ends.spoil(ends.source)
            else:
                ends.spoil_landing(ends.source)

    def finish(self) -> None:
        """Wait for every device."""
        for ends in self._ends:
            ends.session.synchronize()

    def check(self) -> Check:
        """Return the first check that failed, or one for all bytes."""
        self._copied_last()
        if self._direction == "h2d":
            return _together([ends.fetched(ends.source) for ends in self._ends])
        return _together([ends.landed(ends.source) for ends in self._ends])

    def _copy(self, spans: Spans | None, repeat: int) -> None:
        for ends in self._ends:
            if spans is not None:
                spans.begin(ends.name, ends.session)
            if self._direction == "h2d":
                ends.session.upload(ends.source, ends.buffer, repeat)
            else:
                ends.session.download(ends.kept, ends.landing, repeat)
            if spans is not None:
                spans.end(ends.name, ends.session)


class BothWays:
    """An upload on one queue of a device, and a download on another, at the same time."""

    route: str | None = None

    def __init__(self, there: Cut, back: Cut) -> None:
        self._rounds = (HostCopy([there], "h2d", sync=False), HostCopy([back], "d2h", sync=False))

    def poison(self) -> None:
        """Make both destinations wrong."""
        for each in self._rounds:
            each.poison()

    def queue(self, spans: Spans | None = None, rounds: int = 1) -> None:  # noqa: ARG002 - two queues, one name
        """Copy both ways and wait, `rounds` times."""
        for _ in range(rounds):
            for each in self._rounds:
                each.queue()
            self.finish()

    def finish(self) -> None:
        """Wait for both."""
        for each in self._rounds:
            each.finish()

    def check(self) -> Check:
        """Return the first check that failed, or one for all bytes."""
        return _together([each.check() for each in self._rounds])


class PairCopy(Copies):
    """Copies from one device to another; the route is what the session says of each copy."""

    def __init__(self, source: Cut, target: Cut, *, sync: bool) -> None:
        super().__init__((target,), "buffer", sync=sync)
        self.route: str | None = None
        self._source = source
        self._target = target

    def poison(self) -> None:
        """Make the destination wrong."""
        self._claim()
        self._target.spoil(self._source.source)

    def finish(self) -> None:
        """Wait for both devices."""
        self._source.session.synchronize()
        self._target.session.synchronize()

    def check(self) -> Check:
        """Compare what the target holds with the source's bytes."""
        self._copied_last()
        return self._target.fetched(self._source.source)

    def _copy(self, spans: Spans | None, repeat: int) -> None:
        session = self._source.session
        if spans is not None:
            spans.begin(self._source.name, session)
        self.route = session.copy(self._source.kept, self._target.buffer, repeat)
        if spans is not None:
            spans.end(self._source.name, session)


def _together(checks: Sequence[Check]) -> Check:
    bad = next((check for check in checks if not check.passed), None)
    return bad or replace(checks[-1], nbytes=sum(check.nbytes or 0 for check in checks))


def _first_difference(found: Any, right: Any) -> int | None:
    import numpy as np

    if np.array_equal(found, right):
        return None
    for part in _parts(found.size):
        wrong = (found[part] != right[part]).nonzero()[0]
        if wrong.size:
            return int(part.start + wrong[0])
    return None


def _parts(nbytes: int) -> Iterable[slice]:
    """Yield bytes in parts, so that looking at them takes no memory to speak of."""
    return (slice(start, start + _PART) for start in range(0, nbytes, _PART))

"""Copies that can be proved: rounds of them, from a source that is known to a place that is wrong.

Whose copy came last to a destination, `gpumap.bench.ends` knows: a check that finds another's there
copies once more before it looks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.bench.base import Round
from gpumap.bench.verify import compared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.bench.base import Spans
    from gpumap.bench.ends import Cut
    from gpumap.model import Check


class Copies(Round):
    """Rounds of copies: waited for one by one (`sync`), or queued one behind the other.

    `targets` are the ends whose `place`, buffer or landing, is written.
    """

    def __init__(self, targets: Sequence[Cut], place: str, *, sync: bool) -> None:
        self._targets = targets
        self._place = place
        self._sync = self.waits = sync
        self._mark = object()  # and not the round: it holds the ends, which would hold it

    def _wait(self) -> None:
        """Wait for every device."""

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
            self._wait()

    def finish(self) -> None:
        """Wait for what was queued; copies that are waited for one by one have been."""
        if not self._sync:
            self._wait()

    def _claim(self) -> None:
        for cut in self._targets:
            cut.ends.holders[self._place] = self._mark

    def _copied_last(self) -> None:
        """Copy once more if another round has moved something to the same place since."""
        if any(cut.ends.holders.get(self._place) is not self._mark for cut in self._targets):
            self.poison()
            self.queue()
            self._wait()


class HostCopy(Copies):
    """Copies between the host and one or more devices, in one direction."""

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

    def _wait(self) -> None:
        for ends in self._ends:
            ends.session.synchronize()

    def check(self) -> Check:
        """Return the first check that failed, or one for all bytes."""
        self._copied_last()
        if self._direction == "h2d":
            return _together([ends.uploaded() for ends in self._ends])
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


class BothWays(Round):
    """An upload on one queue of a device, and a download on another, at the same time."""

    waits = True

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
            for each in self._rounds:
                each.finish()

    def check(self) -> Check:
        """Return the first check that failed, or one for all bytes."""
        return _together([each.check() for each in self._rounds])


class PairCopy(Copies):
    """Copies from one device to another; the route is what the session says of each copy."""

    def __init__(self, source: Cut, target: Cut, *, sync: bool) -> None:
        super().__init__((target,), "buffer", sync=sync)
        self._source = source
        self._target = target

    def poison(self) -> None:
        """Make the destination wrong."""
        self._claim()
        self._target.spoil(self._source.source)

    def _wait(self) -> None:
        self._source.session.synchronize()
        self._target.session.synchronize()

    def check(self) -> Check:
        """Compare what the target holds with the source's bytes, which the source must have."""
        if (at := self._source.ends.wrong_at) is not None:
            nbytes = self._source.source.nbytes
            return compared(nbytes, min(at, nbytes - 1))
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
    return bad or compared(sum(check.nbytes or 0 for check in checks), None)

"""Verified copies: from a known source to a destination that was poisoned.

All cases of a group use the same memory, the first bytes of it: what is allocated anew each time is
slow the first time it is touched. Sources are written once, and by no copy.

A check makes one copy more, and proves it in one way: every byte of its destination is made wrong,
the copy is made, and all of the destination is compared, on the host, with what was sent. A
device's bytes are fetched for that into memory that holds their opposite. Its poison is an upload,
which may be as broken as the copy: so it is fetched too, into memory that holds what would be
right, and a copy to what was not wrong everywhere has not passed. The source on a device was
uploaded as well; a copy from there to another device, wrong twice at one place, could be right
again, so it is proved first.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpumap.dtypes import np
from gpumap.engine.base import Iteration
from gpumap.engine.verify import compared, fetch, is_hollow, parts, put
from gpumap.errors import NoHostMemory, OutOfMemory
from gpumap.machine.process_control import pin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.backends.base import HostMemory, Session
    from gpumap.engine.base import Events
    from gpumap.model import Check


class Copies(Iteration):
    """Iterations of copies: waited for one by one (`sync`), or queued one behind the other.

    The thread that waits for them does so on the core of the one device that has one. So a call is
    what a program meets that is bound to its core, as `gpumap run` binds it. From another core each
    wait wakes the device's: on a virtual machine 60 us of 70, where the copy of 400 bytes takes 8,
    and a call has the one or the other time by where the system put the caller. Of copies in a
    queue the last wait alone would be so long, and samples with it.
    """

    def __init__(self, sessions: Sequence[Session], *, sync: bool) -> None:
        """Take the sessions whose queues the copies are in."""
        self.sessions, self._sync, self.waits = sessions, sync, sync
        device = sessions[0].device
        core = len(sessions) == len(device.cores) == 1 and device.ref.kind == "cpu"
        self._core = device.cores if core else ()
        self._before: set[int] = set()  # where the calling thread ran, while it is bound

    def spoil(self) -> None:
        """Make every destination wrong."""

    def compare(self) -> Check:
        """Compare every destination with what was sent."""
        raise NotImplementedError

    _wait = Iteration.finish

    def _copy(self, events: Events | None, repeat: int) -> None:
        """Queue the copy `repeat` times."""

    def renew(self) -> None:
        """Bind the calling thread to the core, if there is one and the system lets it."""
        if self._core and not self._before:
            self._before = pin(self._core)

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:
        """Copy `iterations` times."""
        if not self._sync:
            self._copy(events, iterations)
            return
        for _ in range(iterations):
            self._copy(events, 1)
            self._wait()

    def finish(self) -> None:
        """Wait for what was queued; copies that are waited for one by one have been."""
        try:
            if not self._sync:
                self._wait()
        finally:
            if self._before:
                pin(self._before)
                self._before = set()

    def check(self) -> Check:
        """Copy once more, from wrong to right, and compare."""
        self.spoil()
        self.queue()
        self.finish()
        return self.compare()


class HostCopy(Copies):
    """Copies between the host and one or more devices, in one direction."""

    def __init__(self, slices: Sequence[Buffers], direction: str, *, sync: bool) -> None:
        super().__init__([each.session for each in slices], sync=sync)
        self._slices = slices
        self._direction = direction

    def spoil(self) -> None:
        """Make every destination wrong."""
        for each in self._slices:
            poison = each.poison if self._direction == "h2d" else each.poison_destination
            poison(each.source)

    def compare(self) -> Check:
        """Return the first check that failed, or one for all bytes."""
        if self._direction == "h2d":
            return _all([each.check_buffer(each.source) for each in self._slices])
        return _all([each.check_destination(each.source) for each in self._slices])

    def _copy(self, events: Events | None, repeat: int) -> None:
        for each in self._slices:
            if events is not None:
                events.begin(each.name, each.session)
            if self._direction == "h2d":
                each.session.upload(each.source, each.buffer, repeat)
            else:
                each.session.download(each.device_copy, each.destination, repeat)
            if events is not None:
                events.end(each.name, each.session)


class BothWays(Copies):
    """An upload on one queue of a device, and a download on another, at the same time."""

    def __init__(self, there: Buffers, back: Buffers) -> None:
        super().__init__([there.session], sync=True)
        self._ways = (HostCopy([there], "h2d", sync=False), HostCopy([back], "d2h", sync=False))

    def spoil(self) -> None:
        """Make both destinations wrong."""
        for each in self._ways:
            each.spoil()

    def _wait(self) -> None:
        for each in self._ways:
            each.finish()

    def compare(self) -> Check:
        """Return the first check that failed, or one for all."""
        return _all([each.compare() for each in self._ways])

    def _copy(self, events: Events | None, repeat: int) -> None:  # noqa: ARG002 - two queues, one name
        for each in self._ways:
            each.queue()


class PairCopy(Copies):
    """Copies from one device to another; the route is what the session says of each copy."""

    def __init__(self, source: Buffers, target: Buffers, *, sync: bool) -> None:
        super().__init__([source.session], sync=sync)
        self.sessions = [source.session, target.session]
        self._source = source
        self._target = target

    def spoil(self) -> None:
        """Make the destination wrong."""
        self._target.poison(self._source.source)

    def compare(self) -> Check:
        """Compare what the target holds with the source's bytes, which the source must have."""
        if (at := self._source.whole.wrong_at) is not None:
            nbytes = self._source.source.nbytes
            return compared(nbytes, min(at, nbytes - 1))
        return self._target.check_buffer(self._source.source)

    def _copy(self, events: Events | None, repeat: int) -> None:
        session = self._source.session
        if events is not None:
            events.begin(self._source.name, session)
        self.route = session.copy(self._source.device_copy, self._target.buffer, repeat)
        if events is not None:
            events.end(self._source.name, session)


def _all(checks: Sequence[Check]) -> Check:
    bad = next((check for check in checks if not check.passed), None)
    return bad or compared(sum(check.nbytes or 0 for check in checks), None)


# --- buffers of a copy, on the host and on the device

_PART = 1 << 20  # bytes of a buffer that are made or compared at a time


class Buffers:
    """Random bytes on the host and on a device, and room for them on both; or the first of them.

    Raises:
        NoHostMemory: there is none of a special kind; never another kind in its place.
    """

    whole: Buffers  # of a part
    _unpoisoned: int | None = None  # the first byte on the device that is not wrong

    def __init__(
        self, name: str, session: Session, nbytes: int, memory: HostMemory, seed: tuple[int, int]
    ) -> None:
        self.name = name
        self.session = session
        self.source = _host(session, nbytes, memory)
        self.destination = _host(session, nbytes, memory)
        self.device_copy = session.empty((nbytes,), "uint8")
        self.buffer = session.empty((nbytes,), "uint8")
        if not is_hollow(session, nbytes):  # else there is nothing to draw
            rng = np.random.default_rng(seed)
            for part in parts(nbytes, _PART):
                self.source[part] = rng.integers(0, 256, self.source[part].size, dtype=np.uint8)
        put(self.source, self.device_copy)

    def part(self, nbytes: int) -> Buffers:
        """Return the first bytes of all of them."""
        part = copy(self)
        part.whole = self
        part.source, part.destination = self.source[:nbytes], self.destination[:nbytes]
        part.device_copy, part.buffer = self.device_copy[:nbytes], self.buffer[:nbytes]
        return part

    def poison_destination(self, right: Any) -> None:
        """Make the destination differ from what will be right."""
        np.invert(right, out=self.destination)

    def poison(self, right: Any) -> None:
        """Make every byte on the device the opposite of what will be right, and look at each."""
        self.poison_destination(right)
        put(self.destination, self.buffer)
        self.destination[:] = right  # what no poison may be
        fetch(self.buffer, self.destination)
        self._unpoisoned = _first_difference(self.destination, right, opposite=True)

    def check_buffer(self, right: Any) -> Check:
        """Fetch what is on the device, into what the poison's fetch has left, and compare."""
        if self._unpoisoned is not None:
            return compared(self.source.nbytes, self._unpoisoned)
        fetch(self.buffer, self.destination)
        return self.check_destination(right)

    def check_destination(self, right: Any) -> Check:
        """Compare the destination with what is right, byte for byte."""
        return compared(self.source.nbytes, _first_difference(self.destination, right))

    @cached_property
    def wrong_at(self) -> int | None:
        """Return the first byte of `device_copy` that differs from the source; None: none does."""
        self.poison_destination(self.source)
        fetch(self.device_copy, self.destination)
        return _first_difference(self.destination, self.source)


def _host(session: Session, nbytes: int, memory: HostMemory) -> Any:
    try:
        return session.host((nbytes,), "uint8", memory)
    except OutOfMemory as error:
        if memory == "pageable":
            raise
        message = f"no {memory} host memory for {nbytes} bytes: {error}"
        hint = "choose a smaller size, or allow more locked memory (ulimit -l)"
        raise NoHostMemory(message, hint) from error


def _first_difference(found: Any, right: Any, *, opposite: bool = False) -> int | None:
    for part in parts(found.size, _PART):
        wrong = found[part] != (np.invert(right[part]) if opposite else right[part])
        if wrong.any():
            return int(part.start + wrong.argmax())
    return None

"""Threads of one process as an engine of ranks.

Ranks share one state behind a monitor. A collective is a meeting: each rank brings something, the
last one to come does what is to be done with all of it, and every rank gets the result. A rank that
raises ends the others, wherever they wait.

Scripted devices have a clock of their own, and so has each rank that drives one: their threads run
one at a time, the one whose clock is earliest first, and change over only where they wait or look
at what they share. So the order of all they do is that of the scripted times, and always the same.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.comm.base import OwnService
from gpumap.dtypes import Array, np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

    from gpumap.backends.base import Buffer, Clock, Mark, Session
    from gpumap.comm.base import Served, Service
    from gpumap.comm.local import Exchange

    Join = Callable[[str, Sequence[Buffer]], Exchange]


_GRACE = 10.0  # seconds that ranks have to end their steps after an interrupt


class _Ended(Exception):
    """Another rank has failed; what it raised is raised where the ranks were started."""


class _Locks:
    """Who may look at what ranks share, and when: ranks that run side by side."""

    def __init__(self) -> None:
        self._changed, self._served = threading.Condition(), threading.Lock()
        self.wake = self._changed.notify_all

    def begin(self, rank: int) -> None:
        """Return when a rank may begin: at once."""

    def end(self, rank: int) -> None:
        """Let the others go on: they do."""

    def within(self, rank: int) -> threading.Condition:  # noqa: ARG002 - as `_Turns`
        """Return what lets one rank in at a time, in a `with`."""
        return self._changed

    def wait_for(self, rank: int, come: Callable[[], bool]) -> None:  # noqa: ARG002 - as above
        """Wait until something has come; called within, as `wake`, after which ranks look again."""
        self._changed.wait_for(come)

    def interrupt(self) -> None:
        """Wake all that wait, from a thread that is no rank."""
        with self._changed:
            self._changed.notify_all()

    def exclusive(self, rank: int) -> threading.Lock:  # noqa: ARG002 - as above
        """Return what lets one rank be served at a time, in a `with`."""
        return self._served


class _Turns:
    """The same of scripted ranks: one runs at a time, the earliest by its own clock first."""

    def __init__(self, clock: Any, size: int) -> None:
        self._clock = clock
        self._ready: dict[int, float] = {}  # the moments of ranks that can go on
        self._asleep: dict[int, float] = {}  # and of those that wait
        self._go = [threading.Semaphore(0) for _ in range(size)]
        self._last = self._free = 0.0  # when the last rank has ended; when none is served

    def start(self) -> None:
        """Let all ranks begin now; the first one when `begin` was called for it."""
        now = self._last = self._clock.now()
        self._ready = dict.fromkeys(range(len(self._go)), now)
        self._ready.pop(0)
        self._go[0].release()

    def begin(self, rank: int) -> None:
        """Return when it is this rank's turn."""
        self._go[rank].acquire()

    def end(self, rank: int) -> None:  # noqa: ARG002 - the contract's
        """Let the next one go on; at the end the clock is that of the last one."""
        self._last = max(self._last, self._clock.now())
        if self._ready:
            self._go[self._next()].release()
        else:
            self._clock.go_to(self._last)

    @contextmanager
    def within(self, rank: int) -> Iterator[None]:
        """Let ranks that are earlier go first."""
        self._ready[rank] = self._clock.now()
        self._change(rank)
        yield

    def wait_for(self, rank: int, come: Callable[[], bool]) -> None:
        """Sleep until another rank has woken this one, and it has come."""
        while not come():
            self._asleep[rank] = self._clock.now()
            self._change(rank)

    def wake(self) -> None:
        """Wake those that sleep, at this moment."""
        now = self._clock.now()
        self._ready |= {rank: max(moment, now) for rank, moment in self._asleep.items()}
        self._asleep = {}

    def interrupt(self) -> None:
        """Do nothing: the one that runs wakes the others when it ends."""

    @contextmanager
    def exclusive(self, rank: int) -> Iterator[None]:
        """Let one rank be served at a time, in the order in which they come."""
        with self.within(rank):
            self._clock.reach(self._free)
            yield
            self._free = self._clock.now()

    def _change(self, rank: int) -> None:
        """Let the earliest rank go on; return when it is this one."""
        following = self._next()
        if following != rank:
            self._go[following].release()
            self._go[rank].acquire()

    def _next(self) -> int:
        """Take the earliest rank, and set the clock to its moment."""
        rank = min(self._ready, key=lambda each: (self._ready[each], each))
        self._clock.go_to(self._ready.pop(rank))
        return rank


class Threads:
    """The ranks that are threads of this process, as one of them sees them."""

    name = "local"
    failures: tuple[type[Exception], ...] = (_Ended,)

    def __init__(self, rank: int, ranks: Ranks) -> None:
        self.rank, self.size, self._ranks = rank, ranks.size, ranks
        self.box: deque[tuple[Any, Array | None]] = deque()  # what was sent to this rank

    def broadcast(self, what: Any = None) -> Any:
        """Return the object of rank 0 itself, on every rank."""
        return self.gather(what)[0]

    def gather(self, what: Any) -> list[Any]:
        """Return the object itself of every rank, on every rank."""
        every: list[Any] = self._meet(what, list)
        return every

    def barrier(self) -> None:
        """Return when every rank has come here."""
        self.gather(None)

    def meet(self, session: Session, then: Callable[[], object] | None = None) -> Sequence[Mark]:
        """Return the marks of all devices, without waiting for them; the last one exchanges."""

        def marked(every: list[Mark]) -> Sequence[Mark]:
            if then is not None:
                then()
            return tuple(every)

        marks: Sequence[Mark] = self._meet(session.mark(), marked)
        return marks

    def allreduce(self, array: Array) -> Callable[[], None]:
        """Return what replaces an array by the sum, added up in the order of ranks."""

        def exchange() -> None:
            np.copyto(array, self._meet(array, _summed))
            self.barrier()  # before any of them writes what others may still read

        return exchange

    def summing(self, algorithm: str, buffer: Buffer) -> Callable[[], object]:
        """Return what queues the exchange of a buffer of each rank, on all of their devices."""
        joined: Exchange = self._meet(buffer, partial(self._ranks.join, algorithm))
        return partial(joined.queue, 1)

    def send(self, what: Any, to: int, array: Array | None = None) -> None:
        """Put an object and an array into the box of a rank."""
        with self._ranks.monitor.within(self.rank):
            self._ranks.comms[to].box.append((what, array))
            self._ranks.monitor.wake()

    def sending(self) -> int:
        """Return 0: what was sent has arrived."""
        return 0

    def waiting(self) -> bool:
        """Return whether an object has come."""
        self._check()
        with self._ranks.monitor.within(self.rank):
            return bool(self.box)

    def receive(self, room: Array | None = None) -> tuple[Any, Array | None]:  # noqa: ARG002 - it is there
        """Return the next object that was sent to this rank, and its array itself; waits."""
        with self._ranks.monitor.within(self.rank):
            self._wait_for(lambda: bool(self.box))
            return self.box.popleft()

    @contextmanager
    def serve(self, served: Served) -> Iterator[Service]:
        """Let every rank call what rank 0 serves, one at a time."""

        def exclusive() -> AbstractContextManager[object]:
            self._check()
            return self._ranks.monitor.exclusive(self.rank)

        yield OwnService(self.rank, self.broadcast(served), exclusive)

    def close(self) -> None:
        """Do nothing: the threads are of who has started them."""

    def _meet(self, what: Any, action: Callable[[list[Any]], Any]) -> Any:
        """Bring something to a meeting of all ranks; return what the last one makes of it all."""
        ranks = self._ranks
        self._check()
        with ranks.monitor.within(self.rank):
            ranks.come[self.rank] = what
            if len(ranks.come) == ranks.size:
                every = [ranks.come[rank] for rank in range(ranks.size)]
                ranks.result, ranks.come = action(every), {}
                ranks.meetings += 1
                ranks.monitor.wake()
                return ranks.result
            this = ranks.meetings
            self._wait_for(lambda: ranks.meetings > this)
            return ranks.result

    def _check(self) -> None:
        """Raise _Ended where another rank has failed."""
        if self._ranks.failed:
            raise _Ended

    def _wait_for(self, come: Callable[[], bool]) -> None:
        """Wait until something has come; raise _Ended where another rank has failed."""
        self._ranks.monitor.wait_for(self.rank, lambda: come() or self._ranks.failed)
        if not come():
            raise _Ended


def _summed(arrays: Sequence[Array]) -> Array:
    """Return the sum, added up in one order."""
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    return total


class Ranks:
    """So many ranks of one process, which keep their threads; and what these share."""

    def __init__(self, size: int, join: Join, clock: Clock | None = None) -> None:
        """Get ready for ranks.

        Args:
            size: how many there are.
            join: returns the exchange of a buffer of each, by an algorithm.
            clock: of their devices, if they are scripted.
        """
        self.size, self.join = size, join
        self._turns = _Turns(clock, size) if clock is not None and clock.scripted else None
        self.monitor: _Locks | _Turns = self._turns or _Locks()
        self.failed = False
        self.come: dict[int, Any] = {}  # what each rank has brought to this meeting
        self.meetings = 0
        self.result: Any = None  # of the last one
        self.comms = [Threads(rank, self) for rank in range(size)]
        self._pool = ThreadPoolExecutor(size)

    def run(self, work: Callable[[Threads], Any]) -> list[Any]:
        """Let each rank do some work; return their results.

        Raises:
            BaseException: what the first rank that failed has raised.
        """
        self._begin()
        if self.size == 1:
            return [self._work(work, self.comms[0])]
        jobs: list[Future[Any]] = []
        try:
            jobs.extend(self._pool.submit(self._work, work, comm) for comm in self.comms)
            errors = [job.exception() for job in jobs]
        except BaseException:  # an interrupt: what they use is closed next
            self.failed = True
            self.monitor.interrupt()
            wait(jobs, _GRACE)
            raise
        own = [error for error in errors if error is not None and not isinstance(error, _Ended)]
        for error in own or filter(None, errors):
            raise error
        return [job.result() for job in jobs]

    def _begin(self) -> None:
        """Forget what ranks that were ended have left."""
        self.failed, self.come = False, {}
        for comm in self.comms:
            comm.box.clear()
        if self._turns is not None:
            self._turns.start()

    def _work(self, work: Callable[[Threads], Any], comm: Threads) -> Any:
        """Work as one rank."""
        self.monitor.begin(comm.rank)
        try:
            return work(comm)
        except BaseException:
            self.failed = True
            with self.monitor.within(comm.rank):
                self.monitor.wake()
            raise
        finally:
            self.monitor.end(comm.rank)

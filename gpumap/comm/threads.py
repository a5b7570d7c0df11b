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
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypeVar

from gpumap.comm.base import Comm
from gpumap.comm.local import exchange
from gpumap.dtypes import Array, np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from gpumap.backends.base import Buffer, Clock, Exchange, Session
    from gpumap.comm.base import Action, Ask, Served

    Join = Callable[[str, Sequence[Buffer]], Exchange]


T = TypeVar("T")
_GRACE = 10.0  # seconds that ranks have to end their steps after an interrupt


class _Ended(Exception):
    """Another rank has failed; what it raised is raised where the ranks were started."""


class _Turns:
    """The monitor of scripted ranks, in place of a Condition.

    One rank runs at a time, the earliest by its own clock first.
    """

    def __init__(self, clock: Any, size: int) -> None:
        self._clock = clock
        self._ready: dict[int, float] = {}  # the moments of ranks that can go on
        self._asleep: dict[int, float] = {}  # and of those that wait
        self._go = [threading.Semaphore(0) for _ in range(size)]
        self._running = 0
        self._last = 0.0  # when the last rank has ended

    def start(self) -> None:
        """Let all ranks begin now; the first one when `begin` was called for it."""
        now = self._last = self._clock.now()
        self._ready = dict.fromkeys(range(len(self._go)), now)
        self._go_on()

    def begin(self, rank: int) -> None:
        """Return when it is this rank's turn."""
        self._go[rank].acquire()

    def end(self) -> None:
        """Let the next one go on; at the end the clock is that of the last one."""
        self._last = max(self._last, self._clock.now())
        if self._ready:
            self._go_on()
        else:
            self._clock.go_to(self._last)

    def __enter__(self) -> None:
        """Let ranks that are earlier go first."""
        self._pause(self._ready)

    def __exit__(self, *exc: object) -> None:
        """Do nothing: no other one runs before this one waits."""

    def wait_for(self, come: Callable[[], bool]) -> None:
        """Sleep until another rank has woken this one, and it has come."""
        while not come():
            self._pause(self._asleep)

    def notify_all(self) -> None:
        """Wake those that sleep, at this moment."""
        now = self._clock.now()
        self._ready |= {rank: max(moment, now) for rank, moment in self._asleep.items()}
        self._asleep = {}

    def _pause(self, where: dict[int, float]) -> None:
        """Let the earliest rank go on; return when it is this one."""
        rank = self._running
        where[rank] = self._clock.now()
        self._go_on()
        self._go[rank].acquire()

    def _go_on(self) -> None:
        """Set the clock to the moment of the earliest rank, and let it go on."""
        rank = self._running = min(self._ready, key=lambda each: (self._ready[each], each))
        self._clock.go_to(self._ready.pop(rank))
        self._go[rank].release()


class Threads(Comm):
    """The ranks that are threads of this process, as one of them sees them."""

    name = "local"

    def __init__(self, rank: int, ranks: Ranks) -> None:
        self.rank, self.size, self._ranks = rank, ranks.size, ranks
        self.box: deque[tuple[Any, Array | None]] = deque()  # what was sent to this rank

    def gather(self, what: Any) -> list[Any]:
        """Return the object itself of every rank, on every rank."""
        return self._meet(what, list)

    def meet(self, _: Session, mark: Callable[[], T], then: Action) -> Sequence[T]:
        """Return the marks of all ranks, waiting for no device; the last one exchanges."""

        def marked(every: list[T]) -> Sequence[T]:
            then()
            return every

        return self._meet(mark(), marked)

    def allreduce(self, array: Array) -> Callable[[], None]:
        """Return what replaces an array by the sum, added up in the order of ranks."""

        def exchange() -> None:
            np.copyto(array, self._meet(array, partial(reduce, np.add)))
            self.barrier()  # before any of them writes what others may still read

        return exchange

    def summing(self, algorithm: str, buffer: Buffer) -> Action:
        """Return what queues the exchange of a buffer of each rank, on all of their devices."""
        return partial(self._meet(buffer, partial(self._ranks.join, algorithm)), 1)

    def send(self, what: Any, to: int, array: Array | None = None) -> None:
        """Put an object and an array into the box of a rank."""
        with self._ranks.monitor:
            self._ranks.comms[to].box.append((what, array))
            self._ranks.monitor.notify_all()

    def waiting(self) -> bool:
        """Return whether an object has come."""
        self._check()
        with self._ranks.monitor:
            return bool(self.box)

    def receive(self, room: Array | None = None) -> tuple[Any, Array | None]:  # noqa: ARG002 - it is there
        """Return the next object that was sent to this rank, and its array itself; waits."""
        with self._ranks.monitor:
            self._wait_for(lambda: bool(self.box))
            return self.box.popleft()

    @contextmanager
    def serve(self, served: Served) -> Iterator[Ask]:
        """Let every rank call what rank 0 serves, one at a time."""
        first: Served = self.broadcast(served)

        def ask(number: int, array: Array | None = None) -> tuple[int, int]:
            self._check()
            with self._ranks.monitor:
                return first(self.rank, number, array)

        yield ask

    def _meet(self, what: Any, action: Callable[[list[Any]], T]) -> T:
        """Bring something to a meeting of all ranks; return what the last one makes of it all."""
        ranks = self._ranks
        self._check()
        with ranks.monitor:
            ranks.come[self.rank] = what
            if len(ranks.come) == ranks.size:
                every = [ranks.come[rank] for rank in range(ranks.size)]
                ranks.result, ranks.come = action(every), {}
                ranks.meetings += 1
                ranks.monitor.notify_all()
            else:
                this = ranks.meetings
                self._wait_for(lambda: ranks.meetings > this)
            result: T = ranks.result
            return result

    def _check(self) -> None:
        """Raise _Ended where another rank has failed."""
        if self._ranks.failed:
            raise _Ended

    def _wait_for(self, come: Callable[[], bool]) -> None:
        """Wait until something has come; raise _Ended where another rank has failed."""
        self._ranks.monitor.wait_for(lambda: come() or self._ranks.failed)
        if not come():
            raise _Ended


class Ranks:
    """So many ranks of one process, which keep their threads; and what these share."""

    def __init__(self, size: int, join: Join = exchange, clock: Clock | None = None) -> None:
        """Get ready for ranks.

        Args:
            size: how many there are.
            join: returns the exchange of a buffer of each, by an algorithm.
            clock: of their devices, if they are scripted.
        """
        self.size, self.join = size, join
        self._turns = _Turns(clock, size) if clock is not None and clock.scripted else None
        self.monitor: threading.Condition | _Turns = self._turns or threading.Condition()
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
            if self._turns is None:  # else the one that runs wakes the others when it ends
                with self.monitor:
                    self.monitor.notify_all()
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
        if self._turns is not None:
            self._turns.begin(comm.rank)
        try:
            return work(comm)
        except BaseException:
            self.failed = True
            with self.monitor:
                self.monitor.notify_all()
            raise
        finally:
            if self._turns is not None:
                self._turns.end()

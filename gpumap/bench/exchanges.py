"""Exchanges of `bench allreduce`: jobs, data and checks, and those between devices of one process.

Each leaves every rank with the sum over all ranks, and each rank's is compared. Rank r gives
1 + (i + 17 r) mod m as its element i, m a prime: no sum of these has a rounding, and an element
that came twice, not at all or to another place shows. An exchange works in place, so that a second
one adds up sums; only the first one after the data were put there is compared, and all that follow
may run over: their time is the same.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap.comm.local import LIBRARIES, exchange
from gpumap.dtypes import Array, np
from gpumap.engine.base import COMPARABLE, Iteration
from gpumap.engine.verify import compared, fetch, hollow_array, is_hollow, played, put, worse
from gpumap.model import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpumap.backends.base import Buffer, Library, Session
    from gpumap.engine.base import Events
    from gpumap.model import Binding, Check

    Command = Callable[..., list[Any]]  # lets every rank do something, and returns their answers

ITEM = 4  # bytes of an element, a float32
_EXACT = 1 << 24  # whole numbers up to here have no rounding
_PRIMES = (1021, 509, 251, 127, 61, 31, 13, 7, 3)
_RANK_SHIFT = 17  # elements by which a rank's data are shifted


class Job(NamedTuple):
    """An exchange of so many float32 elements."""

    algorithm: str
    length: int

    @property
    def nbytes(self) -> int:
        """Return the bytes that each rank has."""
        return ITEM * self.length

    @property
    def spec(self) -> Job:
        """Return what another process makes it of: itself."""
        return self


def crafted(rank: int, ranks: int, length: int) -> Array:
    """Return what a rank gives: float32, shape (length,)."""
    m = _modulus(ranks)
    cycle = (1 + (np.arange(m) + _RANK_SHIFT * rank) % m).astype(np.float32)
    return np.resize(cycle, length)


def exact_sum(ranks: int, length: int) -> Array:
    """Return the sum of what all ranks give, exactly."""
    m = _modulus(ranks)
    cycle = sum(crafted(rank, ranks, m) for rank in range(ranks))
    return np.resize(cycle, length)


def exact(actual: Array, expected: Array) -> Check:
    """Return whether every element is the sum, bit for bit."""
    bad = np.flatnonzero(actual != expected)
    first = int(bad[0]) * ITEM if bad.size else None
    return compared(expected.nbytes, first)


def _modulus(ranks: int) -> int:
    return next((prime for prime in _PRIMES if prime * ranks <= _EXACT), 1)


class Local:
    """The devices of this process, between which something is measured."""

    def local_bindings(self, bindings: Iterable[Binding]) -> Iterable[Binding]:
        """Return all bindings."""
        return bindings

    def without_kernels(self, sessions: Iterable[Session]) -> Reason | None:
        """Return why these sessions cannot add up what others send, or train."""
        lacking = [s.device.backend for s in sessions if "kernels" not in s.features]
        text = f"{lacking[0]} runs no kernels of gpumap's" if lacking else ""
        return Reason("unsupported", text) if lacking else None


class LocalRanks(Local):
    """The sessions of a map as ranks."""

    algorithms: tuple[str, ...] = ("host", "ring")
    shortest = COMPARABLE  # seconds of a sample

    def __init__(
        self, sessions: Sequence[Session], library: Library | None = None, *, comm: str = "local"
    ) -> None:
        """Take the sessions, and the library that exchanges, if one does; of a plan none."""
        self._sessions, self._library, self.comm = tuple(sessions), library, comm
        if comm in LIBRARIES:
            self.algorithms = ("native",)

    def skip(self, job: Job) -> Reason | None:
        """Return why a job cannot be done here."""
        return self.without_kernels(self._sessions) if job.algorithm == "ring" else None

    def begin(self) -> None:
        """Release nothing: all buffers belong to an iteration."""

    def iteration(self, job: Job) -> Iteration:
        """Return a job's iteration."""
        make = self._library or partial(exchange, job.algorithm)
        work = LocalIteration(job, self._sessions, make)
        return played(work, self._sessions[0], job.nbytes)


class Summand:
    """One rank's array of an exchange: what it gives, and whether it has the sum."""

    def __init__(self, session: Session, rank: int, ranks: int, length: int) -> None:
        """Take memory."""
        self._session, self._rank, self._ranks, self._length = session, rank, ranks, length
        self.buffer: Buffer = session.empty((length,), "float32")

    def poison(self) -> None:
        """Put this rank's own data where the next sum is to be."""
        put(crafted(self._rank, self._ranks, self._length), self.buffer)

    def check(self) -> Check:
        """Return whether this rank has the sum."""
        found = np.full(self._length, np.nan, np.float32)
        fetch(self.buffer, found)
        return exact(found, exact_sum(self._ranks, self._length))


class Exchanging(Iteration):
    """An exchange on all ranks: `command` lets each of them do something, and answer."""

    marked = False  # a call is a message to each rank, which takes as long as a small exchange

    def __init__(self, command: Command) -> None:
        self._command = command
        self._since = 0  # exchanges since the data were put there

    def poison(self) -> None:
        """Put each rank's own data where the next sum is to be."""
        self._command("poison")
        self._since = 0

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:  # noqa: ARG002 - timed by the host
        """Exchange `iterations` times."""
        self._command("run", iterations)
        self._since += iterations

    def check(self) -> Check:
        """Return the worst of the ranks' checks, of one exchange."""
        if self._since != 1:
            self.poison()
            self.queue()
            self.finish()
        checks: list[Check] = self._command("check")
        return reduce(worse, checks)


class LocalIteration(Exchanging):
    """An exchange between the devices of a process, queued from one thread."""

    def __init__(self, job: Job, sessions: Sequence[Session], make: Library) -> None:
        """Take memory on each session; `make` makes an exchange of a buffer of each."""
        size = len(sessions)
        ranks = [Summand(s, rank, size, job.length) for rank, s in enumerate(sessions)]
        super().__init__(lambda name, *_: [getattr(rank, name)() for rank in ranks])
        self.sessions = sessions
        buffers = [rank.buffer for rank in ranks]
        if is_hollow(sessions[0], job.nbytes):  # what has no data
            for buffer in buffers:
                put(hollow_array(buffer.shape), buffer)
        self._exchange = make(buffers)

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:  # noqa: ARG002 - timed by the host
        """Queue the exchange `iterations` times."""
        routes = self._exchange(iterations)
        self._since += iterations
        self.route = "+".join(sorted(routes)) or None

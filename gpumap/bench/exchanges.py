"""Exchanges of `bench allreduce`: jobs, data and checks, and those between devices of one process.

Each leaves every rank with the sum over all ranks, and each rank's is compared. Rank r gives
1 + (i + 17 r) mod 127 as its element i: no sum of these has a rounding, and an element that
came twice, not at all or to another place shows. An exchange works in place, so that a second one
adds up sums; only the first one after the data were put there is compared, and all that follow may
run over: their time is the same.
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
_MODULUS = 127  # a prime: sums over up to 132,000 ranks are below 2**24, and have no rounding
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


def crafted(rank: int, length: int) -> Array:
    """Return what a rank gives: float32, shape (length,)."""
    cycle = (1 + (np.arange(_MODULUS) + _RANK_SHIFT * rank) % _MODULUS).astype(np.float32)
    return np.resize(cycle, length)


def exact_sum(ranks: int, length: int) -> Array:
    """Return the sum of what all ranks give, exactly."""
    cycle = sum(crafted(rank, _MODULUS) for rank in range(ranks))
    return np.resize(cycle, length)


def exact(actual: Array, expected: Array) -> Check:
    """Return whether every element is the sum, bit for bit."""
    bad = np.flatnonzero(actual != expected)
    first = int(bad[0]) * ITEM if bad.size else None
    return compared(expected.nbytes, first)


class Ranks:
    """What something is measured between: the devices of this process, or processes."""

    comm: str  # who carries, as a row has it
    algorithms: tuple[str, ...]  # of an exchange
    shortest = COMPARABLE  # seconds of a sample

    def local_bindings(self, bindings: Iterable[Binding]) -> Iterable[Binding]:
        """Return the bindings whose memory is on this machine."""
        return bindings

    def skip(self, what: Any) -> Reason | None:  # noqa: ARG002 - the contract's
        """Return why something cannot be done; None where it can, or says so itself."""
        return None

    def begin(self) -> None:
        """Release what no iteration holds."""

    def sessions(self, job: Any) -> Sequence[Session]:  # noqa: ARG002 - the contract's
        """Return those that may not be done when a command is; processes wait for theirs."""
        return ()

    def command(self, job: Any) -> Command:
        """Take memory for a job on every rank; return what lets all of them do something."""
        raise NotImplementedError


def without_kernels(sessions: Iterable[Session]) -> Reason | None:
    """Return why these sessions cannot add up what others send, or train."""
    lacking = [s.device.backend for s in sessions if "kernels" not in s.features]
    text = f"{lacking[0]} runs no kernels of gpumap's" if lacking else ""
    return Reason("unsupported", text) if lacking else None


class LocalRanks(Ranks):
    """The sessions of a map as ranks."""

    algorithms: tuple[str, ...] = ("host", "ring")

    def __init__(
        self, sessions: Sequence[Session], library: Library | None = None, *, comm: str = "local"
    ) -> None:
        """Take the sessions, and the library that exchanges, if one does; of a plan none."""
        self._sessions, self._library, self.comm = tuple(sessions), library, comm
        if comm in LIBRARIES:
            self.algorithms = ("native",)

    def skip(self, job: Job) -> Reason | None:
        """Return why a job cannot be done here."""
        if job.algorithm not in self.algorithms:
            native = job.algorithm == "native"
            where = "mpi, torch, nccl or psum" if native else "local, mpi or torch"
            return Reason("unsupported", f"{job.algorithm} is there with --comm {where} only")
        return without_kernels(self._sessions) if job.algorithm == "ring" else None

    def sessions(self, job: Job) -> Sequence[Session]:  # noqa: ARG002 - the contract's
        """Return those of all ranks."""
        return self._sessions

    def command(self, job: Job) -> Command:
        """Take memory for a job on each session; return what does something with all of them."""
        size = len(self._sessions)
        ranks = [Summand(s, rank, size, job.length) for rank, s in enumerate(self._sessions)]
        buffers = [rank.buffer for rank in ranks]
        if is_hollow(self._sessions[0], job.nbytes):  # what has no data
            for buffer in buffers:
                put(hollow_array(buffer.shape), buffer)
        run = (self._library or partial(exchange, job.algorithm))(buffers)

        def command(name: str, *arguments: int) -> list[Any]:
            if name == "run":  # from one thread; how its copies go
                return sorted(run(*arguments))
            return [getattr(rank, name)() for rank in ranks]

        return command


class Summand:
    """One rank's array of an exchange: what it gives, and whether it has the sum."""

    def __init__(self, session: Session, rank: int, ranks: int, length: int) -> None:
        """Take memory."""
        self._session, self._rank, self._ranks, self._length = session, rank, ranks, length
        self.buffer: Buffer = session.empty((length,), "float32")

    def poison(self) -> None:
        """Put this rank's own data where the next sum is to be."""
        put(crafted(self._rank, self._length), self.buffer)

    def check(self) -> Check:
        """Return whether this rank has the sum."""
        found = np.full(self._length, np.nan, np.float32)
        fetch(self.buffer, found)
        return exact(found, exact_sum(self._ranks, self._length))


class Commanded(Iteration):
    """An iteration on all ranks: each of them does what is commanded, and answers."""

    def __init__(self, ranks: Ranks, job: Any) -> None:
        """Take memory on every rank; raises OutOfMemory, Unsupported."""
        self._command, self.sessions = ranks.command(job), ranks.sessions(job)

    def poison(self) -> None:
        """Let each rank make its destination wrong."""
        self._command("poison")

    def played(self, nbytes: int) -> Iteration:
        """Return what is measured of it; what processes exchange is on the host, and real."""
        return played(self, self.sessions[0], nbytes) if self.sessions else self


class Exchanging(Commanded):
    """An exchange on all ranks."""

    marked = False  # a call is a message to each rank, which takes as long as a small exchange
    _since = 0  # exchanges since the data were put there

    def poison(self) -> None:
        """Put each rank's own data where the next sum is to be."""
        super().poison()
        self._since = 0

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:  # noqa: ARG002 - timed by the host
        """Exchange `iterations` times."""
        self.route = "+".join(self._command("run", iterations)) or None
        self._since += iterations

    def check(self) -> Check:
        """Return the worst of the ranks' checks, of one exchange."""
        if self._since != 1:
            self.poison()
            self.queue()
            self.finish()
        checks: list[Check] = self._command("check")
        return reduce(worse, checks)

"""Exchanges of `bench allreduce` between devices of one process: jobs, data, iterations and checks.

Each ends as its operation says (`gpumap.distributed.algorithms`), and what a rank owns is compared.
Rank r gives 1 + (i + 17 r) mod m as its element i, m a prime: no sum of these has a rounding, not
even where float16 carries it, and an element that came twice, not at all or to another place shows.
An exchange works in place, so that a second one adds up sums; only the first one after the data
were put there is compared, and all that follow may run over: their time is the same.

Warm buffers are the same ones each time, cold ones are taken in turn from a pool of twice the
last-level cache: when one comes around again the caches have lost it. Scratch is a program's own,
and the same each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpumap.distributed.algorithms import balanced, slices
from gpumap.distributed.transports import exchange
from gpumap.dtypes import Array, np
from gpumap.engine.base import Iteration
from gpumap.engine.verify import compared, hollow_array, is_hollow, played, worse
from gpumap.machine.topology import Tree, largest_cache
from gpumap.model import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpumap.backends.base import Buffer, Session
    from gpumap.distributed.transports import Exchange, Library
    from gpumap.engine.base import Events
    from gpumap.model import Binding, Check

    _Turn = tuple[tuple[Buffer, ...], Exchange]  # a buffer of each session, and theirs
    Maker = Callable[[Sequence[Buffer]], Exchange]

Wire = Literal["float32", "float16"]
ITEM = 4  # bytes of an element: sums are float32, whatever travels
_EXACT = {"float32": 1 << 24, "float16": 1 << 11}  # whole numbers up to here have no rounding
_PRIMES = (1021, 509, 251, 127, 61, 31, 13, 7, 3)
_RANK_SHIFT = 17  # elements by which a rank's data are shifted
_CACHE = 128 << 20  # bytes of a last-level cache of which the system says nothing
_CACHES = range(16 << 20, 1 << 30)  # bytes that one is taken to have at least, and at most
_MOST = 4096  # buffers of a pool: smaller exchanges are latency alone


@dataclass(frozen=True, slots=True)
class Job:
    """An exchange: of so many float32 elements, in one piece or in several tensors."""

    algorithm: str
    length: int
    wire: Wire = "float32"
    tensors: int = 1
    fused: bool = False  # the tensors are copied into one buffer, and back
    cold: bool = False  # another buffer each time, which no cache holds
    operation: str = "allreduce"

    @property
    def nbytes(self) -> int:
        """Return the bytes that each rank has."""
        return ITEM * self.length

    @property
    def lengths(self) -> tuple[int, ...]:
        """Return the elements of each tensor."""
        return balanced(self.length, self.tensors)


@cache
def _evicting() -> int:
    """Return the bytes that a core reads before its caches have lost what it read first."""
    known = largest_cache(Tree(Path("/"))) or _CACHE
    return 2 * min(max(known, _CACHES.start), _CACHES.stop)


def pooled(nbytes: int) -> int:
    """Return how many buffers a pool has; 0 where a buffer is too small for one, or evicts itself.

    Each has memory of its own, as a warm one has: one large piece may have larger pages.
    """
    count = -(-_evicting() // nbytes)
    return count if 1 < count <= _MOST else 0


def crafted(rank: int, ranks: int, length: int, wire: Wire) -> Array:
    """Return what a rank gives: float32, shape (length,)."""
    m = _modulus(ranks, wire)
    cycle = (1 + (np.arange(m) + _RANK_SHIFT * rank) % m).astype(np.float32)
    return np.resize(cycle, length)


def owned(job: Job, rank: int, ranks: int) -> slice:
    """Return the elements that a rank is to have after an exchange: those that are compared."""
    whole = job.operation != "reduce-scatter"
    return slice(None) if whole else slice(*slices(job.length, ranks)[rank])


def expected(job: Job, ranks: int) -> Array:
    """Return the expected elements, of each rank those that it owns afterwards."""
    if job.operation != "all-gather":
        return exact_sum(ranks, job.length, job.wire)
    result = np.empty(job.length, np.float32)
    for each, part in enumerate(slices(job.length, ranks)):
        result[slice(*part)] = crafted(each, ranks, job.length, job.wire)[slice(*part)]
    return result


def exact_sum(ranks: int, length: int, wire: Wire) -> Array:
    """Return the sum of what all ranks give, exactly."""
    m = _modulus(ranks, wire)
    cycle = sum(crafted(rank, ranks, m, wire) for rank in range(ranks))
    return np.resize(cycle, length)


def exact(actual: Array, expected: Array) -> Check:
    """Return whether every element is the sum, bit for bit."""
    bad = np.flatnonzero(actual != expected)
    first = int(bad[0]) * ITEM if bad.size else None
    return compared(expected.nbytes, first)


def _modulus(ranks: int, wire: Wire) -> int:
    return next((prime for prime in _PRIMES if prime * ranks <= _EXACT[wire]), 1)


class LocalRanks:
    """The sessions of a map as ranks, in one process."""

    comm = "local"
    algorithms: tuple[str, ...] = ("host", "ring", "alltoall", "tree")

    def __init__(self, sessions: Sequence[Session]) -> None:
        self._sessions = tuple(sessions)
        self._pools: dict[int, list[tuple[Buffer, ...]]] = {}  # by length

    def local_bindings(self, bindings: Iterable[Binding]) -> Iterable[Binding]:
        """Return all bindings."""
        return bindings

    def skip(self, job: Job) -> Reason | None:
        """Return why a job cannot be done here."""
        if job.wire != "float32":
            return Reason("unsupported", f"{job.wire} on the wire is there with --comm mpi only")
        lacking = [s.device for s in self._sessions if "kernels" not in s.features]
        if job.algorithm not in ("native", "host") and lacking:
            text = f"{lacking[0].backend} runs no kernels of gpumap's, to add what arrives"
            return Reason("unsupported", text)
        return None

    def begin(self) -> None:
        """Release the pools: all else belongs to an iteration."""
        self._pools.clear()

    def iteration(self, job: Job) -> Iteration:
        """Return a job's iteration."""
        turns = self._turns(job) if job.cold else []
        work = LocalIteration(job, self._sessions, partial(self._exchange, job), turns)
        return played(work, self._sessions[0], job.nbytes)

    def _turns(self, job: Job) -> list[_Turn]:
        """Return the exchange of each buffers of a pool, all with the scratch of the first."""
        first, *others = self._pool(job.length)
        one = self._exchange(job, first)
        return [(first, one), *((each, one.at(each)) for each in others)]

    def _pool(self, length: int) -> list[tuple[Buffer, ...]]:
        """Return the buffers of each turn, one of each session, with numbers in them."""
        if length not in self._pools:
            count = pooled(ITEM * length)
            every = [[s.empty((length,), "float32") for _ in range(count)] for s in self._sessions]
            self._pools[length] = list(zip(*every, strict=True))
            ones = np.ones(length, np.float32)
            for session, buffers in zip(self._sessions, every, strict=True):
                for buffer in buffers:
                    session.upload(ones, buffer)
                session.synchronize()
        return self._pools[length]

    def _exchange(self, job: Job, buffers: Sequence[Buffer]) -> Any:
        return exchange(job.algorithm, self._sessions, buffers, job.operation)


class LibraryRanks(LocalRanks):
    """The same, exchanging by what a library of theirs has: NCCL's own allreduce."""

    comm = "nccl"
    algorithms = ("native",)

    def __init__(self, sessions: Sequence[Session], library: Library | None) -> None:
        super().__init__(sessions)
        self._library = library

    def skip(self, job: Job) -> Reason | None:
        """Return why a job cannot be done here."""
        if job.operation == "allreduce":
            return super().skip(job)
        return Reason("unsupported", f"{job.operation} is there with --comm local or mpi only")

    def _exchange(self, job: Job, buffers: Sequence[Buffer]) -> Any:  # noqa: ARG002 - it has one
        assert self._library is not None  # a plan alone has none
        return self._library.exchange(buffers)


class LocalIteration(Iteration):
    """An exchange between the devices of a process, queued from one thread."""

    def __init__(
        self, job: Job, sessions: Sequence[Session], make: Maker, turns: Sequence[_Turn] = ()
    ) -> None:
        """Take memory on each session, where there are no buffers to be taken in turn.

        `make` makes an exchange of a buffer of each session.
        """
        self._job, self._sessions, self._turns, self._turn = job, sessions, turns, 0
        lengths = () if turns else job.lengths
        self._tensors = [[s.empty((n,), "float32") for n in lengths] for s in sessions]
        self._whole = [s.empty((job.length,), "float32") for s in sessions] if job.fused else []
        if is_hollow(sessions[0], job.nbytes):  # what has no data, in every tensor
            for session, tensors in zip(sessions, self._tensors, strict=True):
                for tensor in tensors:
                    session.upload(hollow_array(tensor.shape), tensor)
                session.synchronize()
        self._exchanges = [
            make(buffers)
            for buffers in ([self._whole] if job.fused else zip(*self._tensors, strict=True))
        ]
        self._since = 0  # exchanges since the data were put there

    def poison(self) -> None:
        """Put each rank's own data where the next sum is to be."""
        job, ranks = self._job, len(self._sessions)
        if self._turns:  # the next exchange is the one that is checked
            self._tensors = [[each] for each in self._turns[self._turn][0]]
        for rank, session in enumerate(self._sessions):
            given = crafted(rank, ranks, job.length, job.wire)
            for tensor, part in zip(self._tensors[rank], parts(job), strict=True):
                session.upload(given[part], tensor)
            session.synchronize()
        self._since = 0

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:  # noqa: ARG002 - timed by the host
        """Queue the exchange `iterations` times."""
        for _ in range(iterations):
            if self._turns:
                self._exchanges = [self._turns[self._turn][1]]
                self._turn = (self._turn + 1) % len(self._turns)
            self._fuse(lambda session, tensor, place: session.copy(tensor, place))
            routes = {route for one in self._exchanges for route in one.queue()}
            self._fuse(lambda session, tensor, place: session.copy(place, tensor))
        self._since += iterations
        self.route = "+".join(sorted(routes)) or None

    def finish(self) -> None:
        """Wait for every device."""
        for session in self._sessions:
            session.synchronize()

    def check(self) -> Check:
        """Return the worst of the ranks' checks, of one exchange."""
        if self._since != 1:
            self.poison()
            self.queue()
            self.finish()
        job, ranks = self._job, len(self._sessions)
        expected_sum = expected(job, ranks)
        every = ((self._read_back(rank), owned(job, rank, ranks)) for rank in range(ranks))
        return reduce(worse, (exact(actual[part], expected_sum[part]) for actual, part in every))

    def _read_back(self, rank: int) -> Array:
        result = np.full(self._job.length, np.nan, np.float32)
        for tensor, part in zip(self._tensors[rank], parts(self._job), strict=True):
            self._sessions[rank].download(tensor, result[part])
        self._sessions[rank].synchronize()
        return result

    def _fuse(self, copy: Callable[[Session, Buffer, Buffer], Any]) -> None:
        """Copy between the tensors and the one buffer, where there is one."""
        for session, tensors, whole in zip(
            self._sessions, self._tensors, self._whole, strict=False
        ):
            for tensor, part in zip(tensors, parts(self._job), strict=True):
                copy(session, tensor, whole[part])


def parts(job: Job) -> list[slice]:
    """Return where each tensor's elements are among all."""
    result, start = [], 0
    for length in job.lengths:
        result.append(slice(start, start + length))
        start += length
    return result

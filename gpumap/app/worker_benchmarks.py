"""The benchmarks between workers, as a command asks for them: allreduce, bind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gpumap.app.request import chosen
from gpumap.app.workers import WorkersRun
from gpumap.errors import Diagnostic
from gpumap.escape import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.app.benchmark import Opened
    from gpumap.app.draft import Draft
    from gpumap.app.request import Request
    from gpumap.bench.allreduce import AllReduce
    from gpumap.bench.allreduce import Params as AllReduceParams
    from gpumap.bench.base import Settings
    from gpumap.bench.bind import Bind
    from gpumap.bench.bind import Params as BindParams
    from gpumap.bench.bind_work import LocalNames, RankNames
    from gpumap.bench.exchanges import Ranks
    from gpumap.bench.mpi_ranks import MpiRanks, Works
    from gpumap.launch.places import Place
    from gpumap.model import Binding, Plan


# --- exchanges


@dataclass(frozen=True, slots=True)
class Exchanges:
    """`bench allreduce`, as its options have it."""

    sizes: str
    algorithm: str | None
    wire: str
    tensors: int
    model: bool


def measure_exchanges(request: Request, asked: Exchanges, comm: str | None) -> None:
    """Measure the exchange of data-parallel programs."""
    WorkersRun(request, Exchanging(_exchanges(asked))).run(comm)


def _exchanges(asked: Exchanges) -> AllReduceParams:
    from gpumap.bench.allreduce import ALGORITHMS, LADDER, WIRES, Params
    from gpumap.bench.sizes import NAMED, transfers
    from gpumap.parallel.presets import PARAMETERS, nbytes

    named = asked.algorithm
    names = () if named is None else chosen(named, ALGORITHMS, "algorithm", "--algorithm")
    (travels,) = chosen(asked.wire, WIRES, "type", "--wire", most=1)
    networks = {network: nbytes(network) for network in PARAMETERS}
    found = transfers(asked.sizes, NAMED | networks)
    ladder = LADDER if asked.model and asked.tensors == 1 else ()
    return Params(found, names, travels, asked.tensors, ladder)


class Exchanging:
    """The exchanges that are asked for, between devices or processes."""

    def __init__(self, params: AllReduceParams) -> None:
        self._params = params

    def prepare(self, draft: Draft, settings: Settings) -> None:
        """Let the ladder be fitted."""
        from gpumap.bench.model import fits

        draft.fit = partial(fits, confidence=settings.confidence, seed=settings.seed)

    def check(self, bindings: Sequence[Binding]) -> None:
        """Raise QuestionError for what a map cannot be asked for."""
        from gpumap.bench.allreduce import check_asked

        check_asked(bindings, self._params)

    def here(self, bindings: Sequence[Binding], devices: Opened | None, *, nccl: bool) -> Ranks:
        """Return the devices of this process as ranks."""
        from gpumap.bench.exchanges import LibraryRanks, LocalRanks

        sessions = [devices.sessions[b.name] for b in bindings] if devices else []
        if not nccl:
            return LocalRanks(sessions)
        from gpumap.backends.cupy_nccl import Nccl

        return LibraryRanks(sessions, Nccl(sessions) if sessions else None)

    def there(self, ranks: MpiRanks) -> Ranks:
        """Return the processes as ranks."""
        return ranks

    def works(self) -> Works:
        """Return what makes each rank's exchanges."""
        from gpumap.bench.mpi_ranks import Exchanges

        return Exchanges()

    def plan(self, bindings: Sequence[Binding], workers: Ranks) -> Plan:
        """Return what is measured between ranks."""
        from gpumap.bench.allreduce import plan

        return plan(bindings, workers, self._params)

    def benchmark(self, bindings: Sequence[Binding], workers: Ranks) -> AllReduce:
        """Return what measures it."""
        from gpumap.bench.allreduce import AllReduce

        return AllReduce(bindings, workers, self._params)

    def done(self) -> None:
        """Do nothing more."""


# --- places


@dataclass(frozen=True, slots=True)
class Places:
    """`bench bind`, as its options have it."""

    sizes: str
    cases: str | None


def measure_places(request: Request, asked: Places, comm: str | None) -> None:
    """Measure what it gives to bind each name's thread or process to its place."""
    from gpumap.bench.bind import CASES, Params
    from gpumap.bench.sizes import transfers

    names = () if asked.cases is None else chosen(asked.cases, CASES, "case", "--cases")
    WorkersRun(request, Bound(Params(transfers(asked.sizes), names))).run(comm)


class Bound:
    """The copies and exchanges that are asked for, between threads or processes."""

    def __init__(self, params: BindParams) -> None:
        self._params = params
        self._draft: Draft | None = None
        self._why: str | None = None  # no name has a place

    def prepare(self, draft: Draft, settings: Settings) -> None:  # noqa: ARG002 - the contract's
        """Keep where to say which place each name has."""
        self._draft = draft

    def check(self, bindings: Sequence[Binding]) -> None:
        """Say which place each name has; raises QuestionError for a size that is none."""
        from gpumap.bench.bind import check_asked

        check_asked(self._params)
        found = self._places(bindings)
        self._why = None if any(place.cores for place in found) else found[0].why
        if self._draft is not None:
            self._draft.remarks += [_told(place) for place in found]

    def here(
        self,
        bindings: Sequence[Binding],
        devices: Opened | None,
        *,
        nccl: bool,  # noqa: ARG002 - the contract's
    ) -> LocalNames:
        """Return the devices of this process."""
        from gpumap.bench.bind_work import LocalNames

        return LocalNames({b.name: devices.sessions[b.name] for b in bindings} if devices else {})

    def there(self, ranks: MpiRanks) -> RankNames:
        """Return the processes that MPI has started."""
        from gpumap.bench.bind_work import RankNames

        return RankNames(ranks)

    def works(self) -> Works:
        """Return what makes each rank's part."""
        from gpumap.bench.bind_work import Binds

        return Binds()

    def plan(self, bindings: Sequence[Binding], workers: LocalNames | RankNames) -> Plan:
        """Return what is measured."""
        from gpumap.bench.bind import plan

        return plan(bindings, workers, self._params, self._why)

    def benchmark(self, bindings: Sequence[Binding], workers: LocalNames | RankNames) -> Bind:
        """Return what measures it."""
        from gpumap.bench.bind import Bind

        return Bind(bindings, workers, self._params, self._why)

    def done(self) -> None:
        """Do nothing more."""

    def _places(self, bindings: Sequence[Binding]) -> Sequence[Place]:
        from gpumap.bench.bind_work import World

        return World().near(bindings)


def _told(place: Place) -> Diagnostic:
    """Return where a name is bound, or why it is not."""
    from gpumap.units import ranges

    memory = "" if place.memory is None else f" and memory of node {place.memory}"
    where = f"cores {ranges(place.cores)}{memory}: {place.why}" if place.cores else place.why
    return Diagnostic("place", f"{printable(place.name)}: {printable(where)}", severity="note")

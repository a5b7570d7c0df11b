"""`bench allreduce`, as its options have it: the exchange, and between which workers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gpumap.app.request import chosen
from gpumap.app.workers import WorkersRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.app.benchmark import Opened
    from gpumap.app.draft import Draft
    from gpumap.app.request import Request
    from gpumap.bench.allreduce import AllReduce
    from gpumap.bench.allreduce import Params as AllReduceParams
    from gpumap.bench.base import Settings
    from gpumap.bench.exchanges import Ranks
    from gpumap.bench.mpi_ranks import MpiRanks, Works
    from gpumap.model import Binding, Plan


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
    from gpumap.training.presets import PARAMETERS, nbytes

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
        from gpumap.backends.cupy.nccl import Nccl

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

"""`gpumap bench allreduce`: measure the exchange of data-parallel programs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from gpumap.app.several import COMMS, Asked
from gpumap.commands.gate import gate_options
from gpumap.commands.measure import chosen, measure_options
from gpumap.commands.options import map_options, output_options, setting

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpumap.app.opened import Opened
    from gpumap.app.output import Output
    from gpumap.app.program import Program
    from gpumap.app.recording import Recording
    from gpumap.bench.allreduce import AllReduce, Params
    from gpumap.bench.base import Settings
    from gpumap.bench.exchanges import Ranks
    from gpumap.bench.mpi_ranks import MpiRanks, Works
    from gpumap.judge.gate import Gate
    from gpumap.model import Binding, Plan

_BUDGET = 20.0  # seconds
_MOST_TENSORS = 10_000


@click.command()
@setting(
    "--sizes",
    default="small,large",
    show_default=True,
    help="Bytes of float32 on each rank: small (400 B), large (400 kB), 4KiB, 1MB, 64B:1GiB:x8, or "
    "the parameters of a network: alexnet, googlenet, vgg16, resnet50, mlp41m.",
)
@setting("--algorithm", metavar="NAMES", help="Only these: native, host, ring, alltoall, tree.")
@setting(
    "--wire",
    default="float32",
    show_default=True,
    help="What travels, float32 or float16; sums are float32.",
)
@setting(
    "--tensors",
    type=click.IntRange(1, _MOST_TENSORS),
    default=1,
    show_default=True,
    help="Exchange the bytes in so many tensors, one by one and fused into one buffer.",
)
@setting(
    "--model/--no-model",
    default=True,
    show_default=True,
    help="Measure the ladder of sizes that the model is fitted to.",
)
@setting(
    "--comm",
    type=click.Choice(COMMS),
    help="local: between the devices of this process; nccl: the same, by NCCL; mpi: between "
    "processes that MPI has started. [default: mpi where it has, else local]",
)
@map_options
@measure_options(budget=_BUDGET)
@gate_options("allreduce")
@output_options
@click.pass_obj
def allreduce(
    program: Program,
    *,
    sizes: str,
    algorithm: str | None,
    wire: str,
    tensors: int,
    model: bool,
    comm: str | None,
    option: str | None,
    map_file: Path | None,
    backend: str | None,
    settings: Settings,
    gate: Gate,
    output: Output,
) -> None:
    """Measure how all ranks come to the sum over all ranks: the exchange of data-parallel programs.

    Each name is a rank: a device of this process, or a process of its own that MPI has started
    (mpirun -n 2 gpumap bench allreduce), the names of a node in the order of its ranks. Every
    element is verified, bit for bit. The model is time = latency + bytes / bandwidth, from sizes of
    its own.
    """
    shared = Exchanging(_params(sizes, algorithm, wire, tensors, model=model))
    Asked(program, shared, (option, map_file, backend), settings, gate, output).run(comm)


class Exchanging:
    """The exchanges that are asked for, between devices or processes."""

    def __init__(self, params: Params) -> None:
        self._params = params

    def prepare(self, record: Recording, settings: Settings) -> None:
        """Let the ladder be fitted."""
        from gpumap.bench.model import fits

        record.model = partial(fits, confidence=settings.confidence, seed=settings.seed)

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


def _params(sizes: str, algorithm: str | None, wire: str, tensors: int, *, model: bool) -> Params:
    from gpumap.bench.allreduce import ALGORITHMS, LADDER, WIRES, Params
    from gpumap.bench.sizes import NAMED, transfers
    from gpumap.parallel.presets import PARAMETERS, nbytes

    names = () if algorithm is None else chosen(algorithm, ALGORITHMS, "algorithm", "--algorithm")
    (travels,) = chosen(wire, WIRES, "type", "--wire", most=1)
    networks = {network: nbytes(network) for network in PARAMETERS}
    found = transfers(sizes, NAMED | networks)
    return Params(found, names, travels, tensors, LADDER if model and tensors == 1 else ())

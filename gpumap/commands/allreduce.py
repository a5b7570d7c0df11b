"""`gpumap bench allreduce`: measure the exchange of data-parallel programs."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.gate import gate_options
from gpumap.commands.measure import chosen, measure_options
from gpumap.commands.options import map_options, output_options, setting
from gpumap.errors import GpumapError, QuestionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from gpumap.backends.base import Session
    from gpumap.bench.allreduce import AllReduce, Params
    from gpumap.bench.base import Benchmark, Settings
    from gpumap.bench.exchanges import Ranks
    from gpumap.commands.measuring import Maker, Opening
    from gpumap.commands.opening import Opened
    from gpumap.commands.output import Output
    from gpumap.commands.program import Program
    from gpumap.commands.recording import Recording
    from gpumap.judge.gate import Gate
    from gpumap.model import Resolution
    from gpumap.resolve import Inventory

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
    type=click.Choice(["local", "mpi", "nccl"]),
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
    from gpumap.commands.ranks import refuse_several, several

    params = _params(sizes, algorithm, wire, tensors, model=model)
    asked = Asked(program, params, (option, map_file, backend), settings, gate, output)
    if comm in ("local", "nccl"):
        refuse_several(program, comm)
        _local(asked, nccl=comm == "nccl")
    elif comm is None and several(program) is None:
        _local(asked, nccl=False)
    else:
        _over_mpi(asked)


class Asked:
    """What is to be measured, with which devices, and where the result goes."""

    def __init__(
        self,
        program: Program,
        params: Params,
        where: tuple[str | None, Path | None, str | None],
        settings: Settings,
        gate: Gate,
        output: Output,
    ) -> None:
        """Note it; `where` is --map, --map-file and --backend."""
        self.program, self.params, self.where = program, params, where
        self.settings, self.gate, self.output = settings, gate, output

    @contextmanager
    def recorded(self) -> Iterator[Recording]:
        """Record the run."""
        from gpumap.bench.model import fits
        from gpumap.commands.measuring import recorded

        settings = self.settings
        with recorded("bench", self.program, self.output, settings, self.gate) as record:
            record.model = partial(fits, confidence=settings.confidence, seed=settings.seed)
            yield record

    def found(self, record: Recording) -> Iterator[tuple[Resolution, Inventory]]:
        """Yield the map, resolved."""
        from gpumap.commands.measuring import find

        yield from find(record, self.program, *self.where)

    def measure(
        self, record: Recording, inventory: Inventory, resolution: Resolution, ranks: Ranks,
        make: Maker, opening: Opening, ours: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Measure the exchanges between `ranks`, which are those of a resolution."""
        from gpumap.bench.allreduce import check_any, check_asked, plan
        from gpumap.commands.measuring import measure

        check_asked(resolution.bindings, self.params)
        first = plan(resolution.bindings, ranks, self.params)
        check_any(first)

        def checked(devices: Opened) -> Benchmark:  # what they can do is known when they are open
            made = make(devices)
            if self.where[-1] != "all":  # another backend may have what this one lacks
                check_any(made.plan)
            return made

        measure(
            record, self.program, inventory, resolution, first, checked, self.settings, self.output,
            anchor=False, opening=opening, ours=ours,
        )  # fmt: skip


def _local(asked: Asked, *, nccl: bool) -> None:
    """Exchange between the devices of this process."""
    from gpumap.bench.allreduce import AllReduce
    from gpumap.commands.opening import opened

    with asked.recorded() as record:
        for resolution, inventory in asked.found(record):
            bindings = resolution.bindings

            def make(devices: Opened) -> AllReduce:
                sessions = [devices.sessions[b.name] for b in bindings]  # noqa: B023 - called in this turn
                return AllReduce(bindings, _ranks(sessions, nccl=nccl), asked.params)  # noqa: B023 - as above

            asked.measure(record, inventory, resolution, _ranks((), nccl=nccl), make, opened)


def _ranks(sessions: Sequence[Session], *, nccl: bool) -> Ranks:
    """Return the sessions as ranks; of a plan there are none yet."""
    from gpumap.bench.exchanges import LibraryRanks, LocalRanks

    if not nccl:
        return LocalRanks(sessions)
    from gpumap.backends.cupy_nccl import Nccl

    return LibraryRanks(sessions, Nccl(sessions) if sessions else None)


def _over_mpi(asked: Asked) -> None:
    """Exchange between processes: measure as rank 0, or follow it."""
    from gpumap.commands.ranks import follow, join, several

    world, problem = None, None
    try:
        world = join(asked.program, asked.settings.timeout)
    except GpumapError as error:
        launch = several(asked.program)
        if launch is not None and launch.rank > 0:  # the report is rank 0's
            raise
        problem = error
    if world is not None and world.Get_rank() > 0:
        follow(asked.program, world, *asked.where, limit=asked.settings.timeout)
        return
    if asked.output.format == "auto":  # mpirun's terminal is not the user's: it may be a file
        asked.output = replace(asked.output, format="plain")
    with asked.recorded() as record:
        if problem is not None:
            raise problem
        _lead(asked, record, world)


def _lead(asked: Asked, record: Recording, world: Any) -> None:
    """Be rank 0."""
    from gpumap.bench.allreduce import AllReduce
    from gpumap.commands.ranks import Crew, own

    with Crew(world, record) as crew:
        if asked.where[-1] == "all":
            raise QuestionError("--backend all is for the devices of one process", "name a backend")
        for resolution, inventory in asked.found(record):
            mine = own(resolution, asked.program)
            bindings, ranks = crew.muster(mine, inventory, (b.name for b in resolution.bindings))
            if bindings != resolution.bindings:  # several nodes, or fewer ranks than names
                record.use(bindings)
            record.resolution = replace(resolution, bindings=bindings)

            def make(_: Opened) -> AllReduce:
                return AllReduce(bindings, ranks, asked.params)  # noqa: B023 - called in this turn

            def opening(_: Resolution, inventory: Inventory) -> AbstractContextManager[Opened]:
                return crew.opened(mine, inventory)  # noqa: B023 - as above

            beside = [seat.process for seat in ranks.seats[1:] if seat.host == ranks.seats[0].host]
            asked.measure(record, inventory, record.resolution, ranks, make, opening, beside)


def _params(sizes: str, algorithm: str | None, wire: str, tensors: int, *, model: bool) -> Params:
    from gpumap.bench.allreduce import ALGORITHMS, LADDER, WIRES, Params
    from gpumap.bench.sizes import NAMED, transfers
    from gpumap.parallel.presets import PARAMETERS, nbytes

    names = () if algorithm is None else chosen(algorithm, ALGORITHMS, "algorithm", "--algorithm")
    (travels,) = chosen(wire, WIRES, "type", "--wire", most=1)
    networks = {network: nbytes(network) for network in PARAMETERS}
    found = transfers(sizes, NAMED | networks)
    return Params(found, names, travels, tensors, LADDER if model and tensors == 1 else ())

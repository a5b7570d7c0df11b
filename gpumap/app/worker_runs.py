"""Benchmarks between workers: the devices of one process, or the ranks of a launcher.

As ranks, all run the same command line; rank 0 measures and reports, the others follow it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.app.benchmark import BenchmarkRun, Request, Turn, recorded, run_single_process
from gpumap.app.engines import join
from gpumap.app.given_map import use
from gpumap.app.own_entry import index_of_rank
from gpumap.app.process_job import ProcessJob, follow
from gpumap.app.program import refused, several
from gpumap.bench.allreduce import ALGORITHMS, AllReduce, Params, check_request, plan
from gpumap.bench.exchanges import LocalRanks, Ranks
from gpumap.bench.process_ranks import RankExchange
from gpumap.comm.engines import engine_of
from gpumap.comm.local import LIBRARIES
from gpumap.engine.base import Recipe
from gpumap.engine.sizes import NAMED, transfers
from gpumap.errors import GpumapError, QuestionError
from gpumap.model import replace
from gpumap.text import chosen
from gpumap.training.network import BUCKET, ITEM, PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumap.app.recording import Draft, Recording
    from gpumap.backends.base import Library
    from gpumap.bench.process_ranks import Maker
    from gpumap.comm.base import ProcessComm
    from gpumap.engine.base import Benchmark, OpenDevices, Settings
    from gpumap.model import Binding, Plan


class WorkersRecipe(Recipe):
    """Recipe of a benchmark between workers: of open devices, or for a plan of none."""

    control = False
    instead = "name another --backend, --algorithm or --comm, or map other devices"
    check: Callable[[Sequence[Binding], Any], None]  # raises QuestionError
    planned: Callable[[Sequence[Binding], Ranks, Any], Plan]  # as far as the workers are known
    made: Callable[[Sequence[Binding], Ranks, Any], Benchmark]
    maker: Maker  # of a rank's work
    workers: Callable[[OpenDevices | None], Ranks]  # by how it is measured

    def __init__(self, settings: Settings, params: Any) -> None:
        super().__init__(settings)
        self._params = params

    def local(self, devices: OpenDevices | None, comm: str) -> Ranks:
        """Return the devices of this process as workers, by copies or by a library of theirs."""
        raise NotImplementedError

    def plan(self, bindings: Sequence[Binding]) -> Plan:
        """Return what is measured between workers, as far as they are known."""
        self.check(bindings, self._params)
        return self.planned(bindings, self.workers(None), self._params)

    def benchmark(self, devices: OpenDevices) -> Benchmark:
        """Return what measures it: what workers can do is known when they are open."""
        return self.made(devices.bindings, self.workers(devices), self._params)


def measure_workers(request: Request, recipe: WorkersRecipe, comm: str | None) -> None:
    """Measure in this process, or as one of several, by `comm` or by the launcher.

    Raises:
        QuestionError: several processes would each measure what one measures alone.
    """
    launch = several(request.program)
    engine = engine_of(launch, request.program.env)
    by = comm or ("local" if launch is None else engine)
    if by not in ("local", *LIBRARIES):
        _measure_ranks(request, recipe, by)
        return
    if launch is not None:
        fix = f"ask for --comm {engine}, or start it without a launcher"
        raise refused(launch, f"--comm {by} is for one process", fix)
    _measure_local(request, recipe, by)


def _measure_local(request: Request, recipe: WorkersRecipe, comm: str) -> None:
    """Measure between the devices of this process, exchanging by a library of theirs or not."""

    def workers(devices: OpenDevices | None) -> Ranks:
        # NCCL connects devices where it stands, which a dry run may not
        usable = None if comm in LIBRARIES and request.settings.dry_run else devices
        return recipe.local(usable, comm)

    recipe.workers = workers
    with recorded("bench", request, alone=False) as record:
        run_single_process(record, request, recipe)


def _measure_ranks(request: Request, recipe: WorkersRecipe, engine: str) -> None:
    """Measure between processes: as rank 0, or as a rank that follows it."""
    program, limit = request.program, request.settings.timeout
    try:
        world = join(program, limit, engine)
    except GpumapError:
        launch = several(program)
        if launch is not None and launch.rank > 0:  # the report is rank 0's
            raise
        with recorded("bench", request, alone=False):
            raise
    if world.rank > 0:
        follow(program, world, request.where, limit, recipe.maker)
        return
    with recorded("bench", request, alone=False) as record:
        _lead(request, recipe, record, world)


def _lead(request: Request, recipe: WorkersRecipe, record: Recording, world: ProcessComm) -> None:
    """Measure as rank 0."""
    run = BenchmarkRun(record, request)
    with ProcessJob(world, record, recipe.maker) as job:
        if request.every:
            message = "--backend all is for the devices of one process"
            raise QuestionError(message, "name a backend")
        for turn in run.resolve(opens=False):
            run.run(_gathered(job, recipe, record.draft, turn), recipe)


def _gathered(job: ProcessJob, recipe: WorkersRecipe, draft: Draft, turn: Turn) -> Turn:
    """Return the turn with the devices of all ranks."""
    names = [binding.name for binding in turn.resolution.bindings]
    mine = turn.resolution.bindings[index_of_rank(names, draft.program)]
    bindings, ranks = job.gather_ranks(mine, turn.inventory, names)
    if bindings != turn.resolution.bindings:  # several nodes, or fewer ranks than names
        use(draft, bindings)
    draft.resolution = replace(turn.resolution, bindings=bindings)
    ours = [rank.process for rank in ranks.table[1:] if rank.host == ranks.table[0].host]
    recipe.workers = lambda _: ranks
    opening = partial(job.opened, mine)
    return replace(turn, resolution=draft.resolution, opening=opening, ours=ours)


# --- the exchange between workers


def measure_exchanges(
    request: Request, *, comm: str | None, sizes: str, algorithm: str | None
) -> None:
    """Measure the exchange of data-parallel programs, by the options of its command."""
    names = chosen(algorithm, ALGORITHMS, "algorithm", "--algorithm") if algorithm else ()
    networks = {"bucket": BUCKET, **{name: ITEM * count for name, count in PARAMETERS.items()}}
    params = Params(transfers(sizes, NAMED | networks), names)
    measure_workers(request, ExchangeRecipe(request.settings, params), comm)


class ExchangeRecipe(WorkersRecipe):
    """`bench allreduce` between devices or processes."""

    check, planned = staticmethod(check_request), staticmethod(plan)
    made, maker = AllReduce, RankExchange

    def local(self, devices: OpenDevices | None, comm: str) -> LocalRanks:
        """Return the devices of this process as ranks."""
        sessions = [*devices.sessions.values()] if devices else []
        connect = connector(comm) if sessions else None
        return LocalRanks(sessions, connect and connect(sessions), comm=comm)


def connector(comm: str) -> Callable[[Sequence[Any]], Library] | None:
    """Return what connects devices by a library of theirs, if one does: NCCL by CuPy, or JAX."""
    if comm == "nccl":
        from gpumap.backends.cupy import nccl

        return nccl
    if comm == "psum":
        from gpumap.backends.jax import psum

        return psum
    return None

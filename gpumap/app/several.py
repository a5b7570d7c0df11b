"""Benchmarks between workers: the devices of one process, or processes that MPI has started.

Over MPI every rank runs the same command line; rank 0 measures and reports, the others follow it.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from gpumap.errors import GpumapError, QuestionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from gpumap.app.opened import Opened
    from gpumap.app.output import Output
    from gpumap.app.program import Program
    from gpumap.app.recording import Recording
    from gpumap.bench.base import Benchmark, Settings
    from gpumap.bench.mpi_ranks import MpiRanks, Works
    from gpumap.judge.gate import Gate
    from gpumap.model import Binding, Plan, Resolution
    from gpumap.resolve import Inventory

COMMS = ("local", "mpi", "nccl")


class Shared(Protocol):
    """A benchmark between workers."""

    def prepare(self, record: Recording, settings: Settings) -> None:
        """Say what of the rows is fitted to a model, if anything is."""

    def check(self, bindings: Sequence[Binding]) -> None:
        """Raise QuestionError for what a map cannot be asked for."""

    def here(self, bindings: Sequence[Binding], devices: Opened | None, *, nccl: bool) -> Any:
        """Return the devices of this process as workers; of a plan there are none yet."""

    def there(self, ranks: MpiRanks) -> Any:
        """Return the processes as workers."""

    def works(self) -> Works:
        """Return what makes each rank's work."""

    def plan(self, bindings: Sequence[Binding], workers: Any) -> Plan:
        """Return what is measured between workers."""

    def benchmark(self, bindings: Sequence[Binding], workers: Any) -> Benchmark:
        """Return what measures it."""

    def done(self) -> None:
        """Do what is left when all is measured; of several processes only the first comes here."""


class Asked:
    """What is to be measured, with which devices, and where the result goes."""

    def __init__(
        self,
        program: Program,
        shared: Shared,
        where: tuple[str | None, Path | None, str | None],
        settings: Settings,
        gate: Gate,
        output: Output,
    ) -> None:
        """Note it; `where` is --map, --map-file and --backend."""
        self.program, self.shared, self.where = program, shared, where
        self.settings, self.gate, self.output = settings, gate, output

    def run(self, comm: str | None) -> None:
        """Measure in this process, or as one of several: what `comm` says, or what started it."""
        from gpumap.app.mpi_job import refuse_several
        from gpumap.app.own_rank import several

        if comm in ("local", "nccl"):
            refuse_several(self.program, comm)
            self._here(nccl=comm == "nccl")
        elif comm is None and several(self.program) is None:
            self._here(nccl=False)
        else:
            self._over_mpi()

    def _here(self, *, nccl: bool) -> None:
        """Measure between the devices of this process."""
        from gpumap.app.opened import opened

        with self._recorded() as record:
            for resolution, inventory in self._found(record, opens=not self.settings.dry_run):
                bindings = resolution.bindings

                def workers(devices: Opened) -> Any:
                    # NCCL connects devices where it stands, which a dry run may not
                    there = None if nccl and self.settings.dry_run else devices
                    return self.shared.here(bindings, there, nccl=nccl)  # noqa: B023 - called in this turn

                planned = self.shared.here(bindings, None, nccl=nccl)
                self._measure(record, inventory, resolution, planned, workers, opened)
            self.shared.done()

    def _over_mpi(self) -> None:
        """Measure between processes: as rank 0, or follow it."""
        from gpumap.app.mpi_job import follow, join
        from gpumap.app.own_rank import several

        world, problem = None, None
        try:
            world = join(self.program, self.settings.timeout)
        except GpumapError as error:
            launch = several(self.program)
            if launch is not None and launch.rank > 0:  # the report is rank 0's
                raise
            problem = error
        if world is not None and world.Get_rank() > 0:
            limit = self.settings.timeout
            follow(self.program, world, *self.where, limit=limit, works=self.shared.works())
            return
        with self._recorded() as record:
            if problem is not None:
                raise problem
            self._lead(record, world)
            self.shared.done()

    def _lead(self, record: Recording, world: Any) -> None:
        """Be rank 0."""
        from gpumap.app.mpi_job import Crew, own
        from gpumap.app.own_rank import local_rank

        with Crew(world, record, self.shared.works(), local_rank(self.program)) as crew:
            if self.where[-1] == "all":
                said = "--backend all is for the devices of one process"
                raise QuestionError(said, "name a backend")
            for resolution, inventory in self._found(record, opens=False):
                mine = own(resolution, self.program)
                names = (binding.name for binding in resolution.bindings)
                bindings, ranks = crew.muster(mine, inventory, names)
                if bindings != resolution.bindings:  # several nodes, or fewer ranks than names
                    record.use(bindings)
                record.resolution = replace(resolution, bindings=bindings)

                def workers(_: Opened) -> Any:
                    return self.shared.there(ranks)  # noqa: B023 - called in this turn

                def opening(_: Resolution, inventory: Inventory) -> AbstractContextManager[Opened]:
                    return crew.opened(mine, inventory)  # noqa: B023 - as above

                beside = [s.process for s in ranks.seats[1:] if s.host == ranks.seats[0].host]
                planned = self.shared.there(ranks)
                self._measure(
                    record, inventory, record.resolution, planned, workers, opening, beside
                )

    def _measure(
        self, record: Recording, inventory: Inventory, resolution: Resolution, planned: Any,
        workers: Any, opening: Any, ours: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Measure between the workers of a resolution; `planned` are those before any is there."""
        from gpumap.app.benchmark import measure

        bindings = resolution.bindings
        self.shared.check(bindings)
        first = self.shared.plan(bindings, planned)
        check_any(first)

        def make(devices: Opened) -> Benchmark:  # what they can do is known when they are open
            made = self.shared.benchmark(bindings, workers(devices))
            if self.where[-1] != "all":  # another backend may have what this one lacks
                check_any(made.plan)
            return made

        measure(
            record, self.program, inventory, resolution, first, make, self.settings, self.output,
            anchor=False, opening=opening, ours=ours,
        )  # fmt: skip

    @contextmanager
    def _recorded(self) -> Iterator[Recording]:
        """Record the run."""
        from gpumap.app.benchmark import recorded

        with recorded("bench", self.program, self.output, self.settings, self.gate) as record:
            self.shared.prepare(record, self.settings)
            yield record

    def _found(self, record: Recording, *, opens: bool) -> Iterator[tuple[Resolution, Inventory]]:
        """Yield the map, resolved; `opens`: this process opens all of its devices."""
        from gpumap.app.benchmark import find

        yield from find(record, self.program, *self.where, opens=opens)


def check_any(plan: Plan) -> None:
    """Refuse a plan of which nothing can be measured: rows that are all skipped are no pass.

    Raises:
        QuestionError: each of its cases is skipped.
    """
    reasons = dict.fromkeys(case.skip.text if case.skip else "" for case in plan.cases)
    if "" not in reasons:
        fix = "ask for another --algorithm or --comm, or name other devices: --map"
        raise QuestionError(f"nothing can be measured: {'; '.join(reasons)}", fix)

"""`gpumap bench bind`: measure what it gives to bind each name's thread or process to its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpumap.app.several import Asked
from gpumap.commands.gate import gate_options
from gpumap.commands.measure import chosen, measure_options
from gpumap.commands.options import map_options, output_options, setting
from gpumap.errors import Diagnostic
from gpumap.escape import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpumap.app.opened import Opened
    from gpumap.app.output import Output
    from gpumap.app.program import Program
    from gpumap.app.recording import Recording
    from gpumap.bench.base import Settings
    from gpumap.bench.bind import Bind, Params
    from gpumap.bench.bind_work import LocalNames, RankNames
    from gpumap.bench.mpi_ranks import MpiRanks, Works
    from gpumap.judge.gate import Gate
    from gpumap.launch.places import Place
    from gpumap.model import Binding, Plan

_BUDGET = 10.0  # seconds
_COMMS = ("local", "mpi")


@click.command()
@setting(
    "--sizes",
    default="small,large",
    show_default=True,
    help="Bytes of float32 for each name: small (400 B), large (400 kB), 4KiB, 64MB, 64B:1GiB:x8.",
)
@setting("--cases", metavar="NAMES", help="Only these: h2d, d2h, allreduce.")
@setting(
    "--comm",
    type=click.Choice(_COMMS),
    help="local: a thread of this process for each name; mpi: the processes that MPI has started. "
    "[default: mpi where it has, else local]",
)
@map_options
@measure_options(budget=_BUDGET)
@gate_options("bind")
@output_options
@click.pass_obj
def bind(
    program: Program,
    *,
    sizes: str,
    cases: str | None,
    comm: str | None,
    option: str | None,
    map_file: Path | None,
    backend: str | None,
    settings: Settings,
    gate: Gate,
    output: Output,
) -> None:
    """Measure the same copies, and between processes the same exchange, unbound and bound.

    Bound is where `gpumap run` puts the process of a name: the cores and the memory near its
    device. All names move at once; every byte is verified. Exchanges take a process for each name:
    mpirun -n 2 gpumap bench bind.
    """
    shared = Bound(_params(sizes, cases))
    Asked(program, shared, (option, map_file, backend), settings, gate, output).run(comm)


class Bound:
    """The copies and exchanges that are asked for, between threads or processes."""

    def __init__(self, params: Params) -> None:
        self._params = params
        self._record: Recording | None = None
        self._why: str | None = None  # no name has a place

    def prepare(self, record: Recording, settings: Settings) -> None:  # noqa: ARG002 - the contract's
        """Keep where to say which place each name has."""
        self._record = record

    def check(self, bindings: Sequence[Binding]) -> None:
        """Say which place each name has; raises QuestionError for a size that is none."""
        from gpumap.bench.bind import check_asked

        check_asked(self._params)
        found = self._places(bindings)
        self._why = None if any(place.cores for place in found) else found[0].why
        if self._record is not None:
            self._record.remarks += [_told(place) for place in found]

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


def _params(sizes: str, cases: str | None) -> Params:
    from gpumap.bench.bind import CASES, Params
    from gpumap.bench.sizes import transfers

    names = () if cases is None else chosen(cases, CASES, "case", "--cases")
    return Params(transfers(sizes), names)

"""`gpumap selftest`: can what gpumap says on this machine be believed?"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from gpumap.commands.gate import gate_options
from gpumap.commands.measure import measure_options
from gpumap.commands.options import map_options, output_options
from gpumap.errors import Diagnostic, Exit
from gpumap.escape import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from gpumap.app.opened import Opened
    from gpumap.app.output import Output
    from gpumap.app.program import Program
    from gpumap.app.recording import Recording
    from gpumap.bench.base import Settings
    from gpumap.bench.selftest import SelfTest
    from gpumap.judge.gate import Gate
    from gpumap.model import Alarms, Binding, Measurement, Resolution
    from gpumap.resolve import Inventory

_BUDGET = 60.0  # seconds
_FOR_OTHERS = 0.05  # of the budget: opening a device of each other backend
_THRESHOLD = 0.05  # the change that noise must neither imitate nor hide: the default of `compare`
_QUIET = "stop other programs on this machine, or compare with a larger --threshold"
_FEWEST = 6  # runs
_LONGER = "raise --budget: 2m"


@click.command()
@map_options
@measure_options(budget=_BUDGET)
@gate_options("selftest", base=False)
@output_options
@click.pass_obj
def selftest(
    program: Program,
    *,
    option: str | None,
    map_file: Path | None,
    backend: str | None,
    settings: Settings,
    gate: Gate,
    output: Output,
) -> None:
    """Test gpumap on this machine: round trips of data, and false alarms.

    4 KiB go to each device of the map and back, verified, then to one device of each other usable
    backend, unless --backend names one. On each device of the map the same product is measured as
    A and as B, and judged in several runs at 5 %: an alarm is false (exit 1). Where runs are
    inconclusive, noise hides a change of 5 % (exit 5).
    """
    from gpumap.app.benchmark import ALL, find, recorded_alone
    from gpumap.model import SelfTest as Found

    settings = replace(settings, whole=True)
    with recorded_alone("selftest", program, output, settings, gate) as record:
        opens = not settings.dry_run
        for resolution, inventory in find(record, program, option, map_file, backend, opens=opens):
            if not settings.dry_run:
                record.selftest = record.selftest or Found()
                _prove(record, resolution, inventory)
            _measure(record, program, resolution, inventory, settings, output)
        if record.selftest is not None and backend in (None, ALL):
            _prove_others(record, inventory)


def _prove(record: Recording, resolution: Resolution, inventory: Inventory) -> None:
    """Move bytes to each device of the map and back."""
    from gpumap.app.proving import prove_map

    for trip in prove_map(record, resolution, inventory):
        assert record.selftest is not None
        trips = (*record.selftest.round_trips, trip)
        record.selftest = replace(record.selftest, round_trips=trips)


def _prove_others(record: Recording, inventory: Inventory) -> None:
    """Do so on one device of each other usable backend; last, to leave the machine quiet."""
    from gpumap.app.proving import prove_others
    from gpumap.backends import REGISTRY

    assert record.selftest is not None
    done = {trip.device.backend for trip in record.selftest.round_trips} | {"fake"}
    names = [name for name in REGISTRY if name not in done]
    for trip in prove_others(record, inventory, names):
        trips = (*record.selftest.round_trips, trip)
        record.selftest = replace(record.selftest, round_trips=trips)
    record.probes = inventory.probes


def _measure(
    record: Recording,
    program: Program,
    resolution: Resolution,
    inventory: Inventory,
    settings: Settings,
    output: Output,
) -> None:
    """Measure A against A on every device of the map, and judge it."""
    from gpumap.app.benchmark import measure
    from gpumap.bench.selftest import RUNS, SHORTEST, SIZES, plan

    if record.selftest is not None and any(t.reason for t in record.selftest.round_trips):
        return  # what a device multiplies that cannot keep bytes is worth nothing
    simulated = any(b.device.simulated for b in resolution.bindings)
    if simulated:  # a scripted clock may never come to the end of a budget
        settings = replace(settings, blocks=RUNS * SHORTEST // 2)
    settings = replace(settings, budget=settings.budget * (1 - _FOR_OTHERS))
    first = plan(resolution.bindings, {b.name: SIZES[0] for b in resolution.bindings})
    make = _maker(resolution.bindings, settings)
    measure(record, program, inventory, resolution, first, make, settings, output, anchor=False)
    if record.selftest is not None:
        _judge(record, record.measured[-1].rows)


def _maker(bindings: tuple[Binding, ...], settings: Settings) -> Callable[[Opened], SelfTest]:
    """Return what makes the benchmark once its devices are open: their speed decides the size."""

    def make(devices: Opened) -> SelfTest:
        from gpumap.bench.dot import Params, pilot
        from gpumap.bench.pilot import patience
        from gpumap.bench.places import one_of_each
        from gpumap.bench.selftest import PILOT, SelfTest, fitting

        chosen = one_of_each(bindings)
        params = Params((PILOT,), seed=settings.seed)
        most = patience(settings.budget)
        times = pilot(chosen, devices.sessions, devices.clock, params, most)
        share = settings.budget / len(chosen)
        # a device that cannot be piloted: its own rows will tell
        sizes = {b.name: fitting(times.get(b.name, 0.0), share) for b in chosen}
        return SelfTest(bindings, devices.sessions, sizes, settings.seed)

    return make


def _judge(record: Recording, rows: Iterable[Measurement]) -> None:
    """Judge B against A on each device, run by run."""
    from gpumap.bench.figures import by_block
    from gpumap.bench.selftest import false_alarms

    assert record.selftest is not None
    done = {row.case.id: row for row in rows if row.status == "ok"}
    for row in done.values():
        base = done.get(row.case.against or "")
        if base is None or base.samples is None or row.samples is None:
            continue
        a, b = by_block(base.samples), by_block(row.samples)
        ratios = [b[block] / a[block] if a[block] > 0.0 else math.nan for block in b if block in a]
        found = false_alarms(row.case, ratios, _THRESHOLD)
        record.selftest = replace(record.selftest, alarms=(*record.selftest.alarms, found))
        _refuse(record, found)


def _refuse(record: Recording, found: Alarms) -> None:
    """Refuse where noise alone raises an alarm, or where it could hide a change."""
    name = printable(found.name)
    if found.false:
        said = f"{name}: noise was taken for a change of 5% in {found.false} of {found.runs} runs"
        record.refuse(Diagnostic("false-alarm", said, hint=_QUIET, name=found.name))
    elif found.runs < _FEWEST:
        said = f"{name}: {found.runs} runs are too few to count false alarms"
        diagnostic = Diagnostic("inconclusive", said, hint=_LONGER, name=found.name)
        record.refuse(diagnostic, Exit.INCONCLUSIVE)
    elif found.inconclusive:
        said = f"{name}: noise hides a change of 5% in {found.inconclusive} of {found.runs} runs"
        diagnostic = Diagnostic("inconclusive", said, hint=_QUIET, name=found.name)
        record.refuse(diagnostic, Exit.INCONCLUSIVE)

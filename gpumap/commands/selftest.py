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
from gpumap.model import Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from gpumap.bench.base import Settings
    from gpumap.bench.selftest import SelfTest
    from gpumap.commands.opening import Opened
    from gpumap.commands.output import Output
    from gpumap.commands.program import Program
    from gpumap.commands.recording import Recording
    from gpumap.judge.gate import Gate
    from gpumap.model import Binding, Measurement, Noise, Resolution, Verdict
    from gpumap.resolve import Inventory

_BUDGET = 60.0  # seconds
_FOR_OTHERS = 0.05  # of the budget: opening a device of each other backend
_ALARM = 0.05  # the threshold at which noise must neither raise an alarm nor hide a change
_QUIET = "end what else runs on this machine; until then believe no verdict below the noise floor"
_LONGER = "give it more time: --budget 2m"


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
    """Test gpumap itself here: round trips, false alarms, what change it can see.

    4 KiB go to each device of the map and back, verified, then to one device of each other usable
    backend, unless --backend names one. On each device of the map the same product is measured as
    A and as B: verdicts on it show how often noise raises an alarm. The noise floor is stored, and
    no later verdict goes below it.
    """
    from gpumap.commands.measuring import ALL, find, recorded_alone
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
    from gpumap.commands.proving import prove_map

    for trip in prove_map(record, resolution, inventory):
        assert record.selftest is not None
        trips = (*record.selftest.round_trips, trip)
        record.selftest = replace(record.selftest, round_trips=trips)


def _prove_others(record: Recording, inventory: Inventory) -> None:
    """Do so on one device of each other usable backend; last, to leave the machine quiet."""
    from gpumap.backends import REGISTRY
    from gpumap.commands.proving import prove_others

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
    from gpumap.bench.selftest import SIZES, plan
    from gpumap.commands.measuring import measure
    from gpumap.judge.noise import FEWEST, SHORTEST

    if record.selftest is not None and any(t.reason for t in record.selftest.round_trips):
        return  # what a device multiplies that cannot keep bytes is worth nothing
    simulated = any(b.device.simulated for b in resolution.bindings)
    if simulated:  # a scripted clock may never come to the end of a budget
        settings = replace(settings, blocks=FEWEST * SHORTEST)
    settings = replace(settings, budget=settings.budget * (1 - _FOR_OTHERS))
    first = plan(resolution.bindings, {b.name: SIZES[0] for b in resolution.bindings})
    make = _maker(resolution.bindings, settings)
    measure(record, program, inventory, resolution, first, make, settings, output, anchor=False)
    if record.selftest is not None:
        _judge(record, record.measured[-1].rows, settings.confidence)
        _store(record, program, simulated=simulated)


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


def _judge(record: Recording, rows: Iterable[Measurement], confidence: float) -> None:
    """Judge B against A on each device, whole and in runs; an alarm at 5 % is a no."""
    from gpumap.judge.noise import THRESHOLDS, noise
    from gpumap.judge.verdict import verdict

    done = {row.case.id: row for row in rows if row.status == "ok" and row.samples is not None}
    for row in done.values():
        if row.case.against not in done:
            continue
        base = done[row.case.against]
        ratios = _ratios(base, row)
        (binding,) = row.case.bindings
        found = noise(
            ratios,
            id_=row.case.id,
            device=binding.device.id,
            name=binding.name,
            confidence=confidence,
        )
        verdicts = [
            verdict(
                ratios,
                threshold,
                rule="selftest",
                id_=row.case.id,
                against=base.case.id,
                base=base.metrics["time"].value,
                confidence=confidence,
            )
            for threshold in THRESHOLDS
        ]
        record.verdicts += verdicts
        assert record.selftest is not None
        record.selftest = replace(record.selftest, noise=(*record.selftest.noise, found))
        _refuse(record, found, next(v for v in verdicts if v.threshold == _ALARM))


def _ratios(base: Measurement, new: Measurement) -> list[float]:
    """Return new over base for each block that has both; a time of nothing makes no number."""
    from gpumap.bench.figures import by_block

    a, b = (by_block(row.samples or Samples()) for row in (base, new))
    return [b[block] / a[block] if a[block] > 0.0 else math.nan for block in b if block in a]


def _refuse(record: Recording, found: Noise, whole: Verdict) -> None:
    """Say no where noise alone raises an alarm, or where too little is known to tell."""
    alarms = next(alarms for alarms in found.alarms if alarms.threshold == _ALARM)
    name = printable(found.name)
    if alarms.false or whole.verdict in ("regression", "improvement"):
        where = f"in {alarms.false} of {found.runs} runs" if alarms.false else "over all blocks"
        said = f"{name}: {where} noise was taken for a change of 5%"
        record.refuse(Diagnostic("false-alarm", said, hint=_QUIET, name=found.name))
        return
    if found.floor is None:
        few = f"{found.runs} runs of {found.run_blocks} blocks are too few"
        said, hint = f"{name}: {few} to find the noise floor", _LONGER
    elif found.floor > _ALARM or whole.verdict != "same":
        said, hint = f"{name}: noise hides a change of 5%", _QUIET
    else:
        return
    diagnostic = Diagnostic("inconclusive", said, hint=hint, name=found.name)
    record.refuse(diagnostic, Exit.INCONCLUSIVE)


def _store(record: Recording, program: Program, *, simulated: bool) -> None:
    """Keep the noise floors for later verdicts; the record says where, or why not."""
    from gpumap import cache

    assert record.selftest is not None
    floors = {
        n.device: n.floor
        for n in record.selftest.noise
        if n.floor is not None and n.floor <= cache.MOST
    }
    if simulated or not floors or record.fingerprint is None:
        return
    _, spoilt = cache.load(program.env, record.fingerprint.hash)
    path, refused = cache.store(program.env, record.fingerprint.hash, floors)
    record.remarks += [note for note in (spoilt, refused) if note is not None]
    record.selftest = replace(record.selftest, stored=str(path) if path else None)

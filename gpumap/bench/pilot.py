"""Time a short piece of work on each device, to choose the reference and sizes by."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING

from gpumap.bench.figures import UNEQUAL
from gpumap.bench.operands import one_of_each
from gpumap.bench.registry import specified
from gpumap.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpumap.backends.base import Clock
    from gpumap.model import Binding, Device, Report

    Job = Callable[[], None]
    Look = Callable[[Sequence[Binding]], Mapping[str, float]]  # seconds by name

LOOKS = 5
_SECONDS = 0.1  # what is quick is looked at more often, by its shortest time,
_MOST = 50  # up to so many times, or a busy moment would choose,
BUSY = 0.5  # seconds, in which others have their turns too
_OF_BUDGET = 0.03  # that the looks at a device may take


def patience(budget: float) -> float:
    """Return the seconds that looks at a device may take in a run of so many."""
    return min(BUSY, _OF_BUDGET * budget)


def times(
    bindings: Iterable[Binding],
    clock: Clock,
    prepare: Callable[[Binding], Job],
    most: float = BUSY,
) -> dict[str, float]:
    """Return how long a piece of work takes on the device of each name.

    A device is timed once, whatever it is called. The devices take turns, so that a busy moment
    hits all of them.

    Args:
        bindings: names and devices.
        clock: the clock of the devices.
        prepare: puts the work on the device of a name, and returns what does it and waits for it.
        most: seconds of looks at a device, but for the first few.

    Returns:
        Seconds by name, the shortest of a few times: what others on the machine disturb least. A
        device that fails has none: its own rows will say what is wrong with it.
    """
    bindings = tuple(bindings)
    jobs: dict[str, Job] = {}
    seen: dict[str, list[float]] = {}
    for binding in one_of_each(bindings):
        with suppress(DeviceError):
            job = prepare(binding)
            job()  # the first one compiles
            jobs[binding.device.id], seen[binding.device.id] = job, []
    while waiting := [id_ for id_ in jobs if not _enough(seen[id_], most)]:
        for id_ in waiting:
            try:
                seen[id_].append(_time(jobs[id_], clock))
            except DeviceError:
                del jobs[id_], seen[id_]
    return {b.name: min(seen[b.device.id]) for b in bindings if b.device.id in seen}


def reference(bindings: Sequence[Binding], look: Look, base: str | None = None) -> Binding:
    """Return the binding that speed-ups are relative to, where no option names it.

    The name is part of a row's id, on which reports join, so that it must not differ from run to
    run: only the first devices of several models are compared.

    Args:
        bindings: names and devices.
        look: returns the times of some of them.
        base: the name of the reference in the baseline.

    Returns:
        The baseline's, else the first name where all devices are of one model, else the first one
        that no other is clearly faster than.
    """
    if found := next((binding for binding in bindings if binding.name == base), None):
        return found
    first: dict[object, Binding] = {}
    for binding in bindings:
        first.setdefault(_model(binding.device), binding)
    models = tuple(first.values())
    return models[0] if len(models) == 1 else fastest(models, look(models))


def fastest(bindings: Sequence[Binding], times: Mapping[str, float]) -> Binding:
    """Return the first binding that no other is clearly faster than; one without a time is not."""
    enough = UNEQUAL * min(times.values(), default=0.0)
    return next((b for b in bindings if times.get(b.name, math.inf) <= enough), bindings[0])


def reference_of(report: Report, bench: str, backend: str) -> str | None:
    """Return the name that the reference of a backend ran on in a report; None without one."""
    alone = (
        row.case.bindings[0]
        for row in report.measurements
        if row.case.bench == bench
        and specified(row.case).role != "solo"
        and len(row.case.names) == 1
    )
    return next((b.name for b in alone if b.device.backend == backend), None)


def _model(device: Device) -> tuple[object, ...]:
    """Return what devices have in common that should be equally fast."""
    return (device.backend, device.kind, device.name, device.memory_total, device.units)


def _enough(seconds: Sequence[float], most: float) -> bool:
    looks = len(seconds)
    if looks < LOOKS:
        return False
    return looks >= _MOST or looks * min(seconds) >= _SECONDS or sum(seconds) >= most


def _time(job: Job, clock: Clock) -> float:
    start = clock.now()
    job()
    return clock.now() - start

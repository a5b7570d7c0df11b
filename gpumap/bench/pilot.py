"""A quick look at each device before anything is measured, to choose by: which one is fastest."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from gpumap.bench.places import one_of_each
from gpumap.bench.speedup import UNEQUAL
from gpumap.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpumap.backends.base import Clock
    from gpumap.model import Binding, Device, Report

    Job = Callable[[], None]
    Look = Callable[[Sequence[Binding]], Mapping[str, float]]  # seconds by name

LOOKS = 5
ALIKE = 1.5  # devices of one model that are closer than this differ by what disturbs them
_SECONDS = 0.1  # what is quick is looked at more often, by its shortest time,
_MOST = 50  # up to so many times, or a busy moment would choose,
BUSY = 0.5  # seconds, in which others have their turns too
_OF_BUDGET = 0.03  # that the looks at a device may take
_MOMENT = 0.25  # seconds until a second look: what disturbed the first one may be gone


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


def reference(
    bindings: Sequence[Binding],
    look: Look,
    clock: Clock,
    before: str | None = None,
    moment: float = _MOMENT,
) -> Binding:
    """Return the device that the reference runs on: the first one, unless another is faster.

    Where another one seems to be, there is a second look a moment later.

    Args:
        bindings: names and devices.
        look: returns the times of some of them.
        clock: the clock of the devices.
        before: the name that it ran on in the report that this one is held against.
        moment: seconds until a second look, at most.
    """
    seen = look(bindings)
    able = sorted((b for b in bindings if b.name in seen), key=lambda b: b.name != before)
    if not able:
        return next((b for b in bindings if b.name == before), bindings[0])
    found = fastest(able, seen, before=before)
    if found is able[0]:
        return found
    clock.sleep(min(moment, _MOMENT))
    return fastest(able, seen, look(able), before=before)


def fastest(
    bindings: Sequence[Binding], *looks: Mapping[str, float], before: str | None = None
) -> Binding:
    """Return the first device that no other is clearly faster than, in one of the looks.

    Devices must not swap places from run to run, because the name stands in the row's id. So the
    one that it was `before`, and one of several of a model, give way to much faster ones only.
    """

    def holds(binding: Binding, times: Mapping[str, float]) -> bool:
        own = times.get(binding.name)
        return own is not None and all(
            own <= times[other.name] * _margin(binding, other, before)
            for other in bindings
            if other.name in times
        )

    return next((b for b in bindings if any(holds(b, times) for times in looks)), bindings[0])


def reference_of(report: Report, bench: str) -> str | None:
    """Return the name that the reference ran on in a report; None where it has none."""
    alone = (
        row.case.names[0]
        for row in report.measurements
        if row.case.bench == bench and row.case.name != "solo" and len(row.case.names) == 1
    )
    return next(alone, None)


def _margin(binding: Binding, other: Binding, before: str | None) -> float:
    """Return how many times as long as the other's its time may be."""
    if before in (binding.name, other.name) or _model(binding.device) == _model(other.device):
        return ALIKE
    return UNEQUAL


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

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
    from gpumap.model import Binding

    Job = Callable[[], None]

LOOKS = 5
_SECONDS = 0.1  # what is quick is looked at more often,
_MOST = 50  # up to so many times, or a busy moment would choose


def times(
    bindings: Iterable[Binding], clock: Clock, prepare: Callable[[Binding], Job]
) -> dict[str, float]:
    """Return how long a piece of work takes on the device of each name.

    A device is timed once, whatever it is called.

    Args:
        bindings: names and devices.
        clock: the clock of the devices.
        prepare: puts the work on the device of a name, and returns what does it and waits for it.

    Returns:
        Seconds by name; a device that fails has none: its own rows will say what is wrong with it.
    """
    bindings = tuple(bindings)
    found = {}
    for binding in one_of_each(bindings):
        with suppress(DeviceError):
            found[binding.device.id] = _shortest(prepare(binding), clock)
    return {b.name: found[b.device.id] for b in bindings if b.device.id in found}


def fastest(
    bindings: Sequence[Binding], times: Mapping[str, float], unequal: float = UNEQUAL
) -> Binding:
    """Return the device that the reference runs on.

    The first one, unless another is clearly faster: equal devices must not swap places from run
    to run, because the name stands in the row's id.
    """
    best = min(times.values(), default=0.0)
    quick = (b for b in bindings if b.name in times and times[b.name] <= best * unequal)
    return next(quick, bindings[0])


def _shortest(job: Job, clock: Clock) -> float:
    """Return the shortest of a few times: what others on the machine disturb least."""
    job()  # the first one compiles
    seconds: list[float] = []
    while len(seconds) < LOOKS or (sum(seconds) < _SECONDS and len(seconds) < _MOST):
        start = clock.now()
        job()
        seconds.append(clock.now() - start)
    return min(seconds)

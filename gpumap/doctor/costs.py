"""What the parts of a call cost on a device: its set-up, launches, waiting, copies and products."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from gpumap.bench.calls import HostCall
from gpumap.bench.keys import REPEATS
from gpumap.bench.workloads import WORKLOADS, Problem
from gpumap.doctor.used_device import SIZE, done, in_turns, timed
from gpumap.engine.products import Pair, Product, multiplied
from gpumap.engine.sampling import Series, calibrate
from gpumap.machine.blas import Cores
from gpumap.machine.topology import read
from gpumap.model import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumap.backends.base import Clock, Session
    from gpumap.doctor.used_device import UsedDevice
    from gpumap.engine.base import Iteration

_TINY = 16  # the size of a product that takes no time
_MANY = 10  # launches, which are waited for one by one or all at once


def setup(session: Session, clock: Clock, start: float) -> Estimate:
    """Return the seconds from `start` to the end of the first launch, less those of a later one."""
    launch = _launching(session)
    launch()
    first = clock.now() - start
    return Estimate.exact(max(first - median(timed(launch, clock)), 0.0), "s")


def costs(used: UsedDevice) -> tuple[None, str, dict[str, Estimate]]:
    """Time a launch, waiting for several, and products of both types."""
    session, clock = used.session, used.clock
    launch = _launching(session)
    works: dict[str, Callable[[], object]] = {
        "launch": launch,
        "waited": partial(launch, _MANY, waiting=True),
        "queued": partial(launch, _MANY),
    }
    if "float64" in session.features:
        product = Product("", session, Pair((1, 0), SIZE, "float64"))
        works["double"] = partial(done, multiplied([product], None, fetched=False))
    figures = {key: _typical(work, clock) for key, work in works.items()}
    waited, queued = (figures.pop(key).value for key in ("waited", "queued"))
    figures["waiting"] = Estimate.exact(max(waited - queued, 0.0) / _MANY, "s")
    return None, "its costs are measured", figures | _with_host(used)


def _launching(session: Session) -> Callable[..., None]:
    """Return what launches a product that takes no time, of whatever is in memory."""
    arrays = [session.empty((_TINY, _TINY), "float32") for _ in range(3)]

    def launch(times: int = 1, *, waiting: bool = False) -> None:
        for _ in range(times):
            session.gemm(*arrays)
            if waiting:
                session.synchronize()
        session.synchronize()

    return launch


def _with_host(used: UsedDevice) -> dict[str, Estimate]:
    """Time a product on a device and on all cores of the host, in turns."""
    workload, clock = WORKLOADS["product"], used.clock
    host = HostCall(Problem(workload, SIZE, 1, used.session), clock, Cores(len(read().cpus)))
    works: dict[str, Iteration] = {"product": used.work(), "host_product": host}
    series = {key: Series(work) for key, work in works.items()}
    for each in series.values():
        calibrate(each, clock, most=REPEATS)
    return {key: _spread(seconds) for key, seconds in in_turns(series, clock).items()}


def _typical(action: Callable[[], object], clock: Clock) -> Estimate:
    """Return the seconds of an action; its first run does not count."""
    action()
    return _spread(timed(action, clock))


def _spread(seconds: Sequence[float]) -> Estimate:
    return Estimate(median(seconds), min(seconds), max(seconds), "s")

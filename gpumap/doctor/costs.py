"""What the parts of a call cost on a device: its set-up, launches, waiting, copies and products."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from gpumap.bench.calls import HostCall
from gpumap.bench.keys import REPEATS
from gpumap.bench.verified_copies import HostCopy
from gpumap.bench.workloads import WORKLOADS, Problem
from gpumap.doctor.at_once import SIZE
from gpumap.engine.products import Pair, Product, multiplied
from gpumap.engine.sampling import Series, calibrate, in_turns
from gpumap.engine.verify import is_hollow, lighten
from gpumap.machine.blas import Cores
from gpumap.machine.topology import read
from gpumap.model import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumap.backends.base import Clock, Session
    from gpumap.bench.verified_copies import Buffers
    from gpumap.engine.base import Iteration

_TINY = 16  # the size of a product that takes no time
_SMALL = 4 << 10  # bytes of a small call
_REPEATS = 6  # all values together are an interval of 95 % of their median
_MANY = 10  # launches, which are waited for one by one or all at once


def setup(session: Session, clock: Clock, start: float) -> Estimate:
    """Return the seconds from `start` to the end of the first launch, less those of a later one."""
    launch = _Launch(session)
    launch.run()
    first = clock.now() - start
    return Estimate.exact(max(first - median(timed(launch.run, clock)), 0.0), "s")


def costs(
    session: Session, clock: Clock, buffers: Buffers
) -> tuple[None, str, dict[str, Estimate]]:
    """Time a launch, waiting for several, a small call, and products of both types."""
    lighten(session)  # results were verified before
    launch, part = _Launch(session), buffers.part(_SMALL)
    ways = [HostCopy([part], way, sync=True).queue for way in ("h2d", "d2h")]
    works: dict[str, Callable[[], object]] = {
        "launch": launch.run, "waited": partial(launch.many, waiting=True),
        "queued": launch.many, "call": partial(_each, (ways[0], launch.run, ways[1])),
    }  # fmt: skip
    if "float64" in session.features:
        works["double"] = partial(done, _product(session, "float64"))
    figures = {key: _typical(work, clock) for key, work in works.items()}
    waited, queued = (figures.pop(key).value for key in ("waited", "queued"))
    figures["waiting"] = Estimate.exact(max(waited - queued, 0.0) / _MANY, "s")
    return None, "its costs are measured", figures | _with_host(session, clock)


class _Launch:
    """A product that takes no time, of whatever is in memory: it costs its launch."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._arrays = [session.empty((_TINY, _TINY), "float32") for _ in range(3)]

    def run(self) -> None:
        """Launch it, and wait."""
        self._session.gemm(*self._arrays)
        self._session.synchronize()

    def many(self, *, waiting: bool = False) -> None:
        """Launch several, and wait for each of them, or at their end."""
        for _ in range(_MANY):
            self._session.gemm(*self._arrays)
            if waiting:
                self._session.synchronize()
        self._session.synchronize()


def _product(session: Session, dtype: Any) -> Iteration:
    return multiplied([Product("", session, Pair((1, 0), SIZE, dtype))], None, fetched=False)


def _with_host(session: Session, clock: Clock) -> dict[str, Estimate]:
    """Time a product on a device and on all cores of the host, in turns."""
    workload = WORKLOADS["product"]
    problem = Problem(workload, SIZE, 1, hollow=is_hollow(session, int(workload.nbytes(SIZE))))
    host = HostCall(problem, clock, Cores(len(read().cpus)))
    works = {"product": _product(session, "float32"), "host_product": host}
    series = {key: Series(work) for key, work in works.items()}
    for each in series.values():
        calibrate(each, clock, most=REPEATS)
    times = in_turns(series, clock, _REPEATS)
    return {key: _spread(seconds) for key, seconds in times.items()}


def done(work: Iteration) -> None:
    """Do a work, and wait for its end."""
    work.queue()
    work.finish()


def _each(actions: Sequence[Callable[[], object]]) -> None:
    for action in actions:
        action()


def timed(action: Callable[[], object], clock: Clock) -> list[float]:
    """Return the seconds of an action that waits for its end, a few times."""
    seconds = []
    for _ in range(_REPEATS):
        start = clock.now()
        action()
        seconds.append(clock.now() - start)
    return seconds


def _typical(action: Callable[[], object], clock: Clock) -> Estimate:
    """Return the seconds of an action; its first run does not count."""
    action()
    return _spread(timed(action, clock))


def _spread(seconds: Sequence[float]) -> Estimate:
    return Estimate(median(seconds), min(seconds), max(seconds), "s")

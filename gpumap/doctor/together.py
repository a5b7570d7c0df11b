"""Do several names work at once? One product for each, by the runner and judge of `bench dot`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpumap.bench.base import Settings
from gpumap.bench.dot import Dot, Params, pilot
from gpumap.bench.pilot import fastest
from gpumap.bench.runner import Runner
from gpumap.doctor.evidence import Together
from gpumap.judge.few import refused
from gpumap.machine.state import Neighbours
from gpumap.model import Around

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumap.backends.base import Clock, Session
    from gpumap.bench.seen import Seen
    from gpumap.model import Binding, Measurement, Plan

_PILOT = 512  # size of the pilot's product
_WORK = 1.1e-2  # seconds of a product: one of them is long enough for a sample of `bench dot`
_LEAST, _MOST = 128, 4096
_STEP = 64
_BLOCKS = 40
_SCRIPTED = 6  # blocks of scripted devices: each is as the others


class _Nobody:
    """Watches nothing."""

    def planned(self, plan: Plan) -> None:
        """Hear of the plan."""

    def block(self, seen: Seen) -> None:
        """Hear of a block."""

    def ended(self, measurements: Sequence[Measurement]) -> None:
        """Hear of the rows."""


def together(
    bindings: Sequence[Binding], sessions: Mapping[str, Session], clock: Clock, seconds: float
) -> Together | None:
    """Return what all names gain together; None where it could not be measured."""
    params = Params((_PILOT,))
    times = pilot(bindings, sessions, clock, params)
    if not times:
        return None
    scripted = any(binding.device.backend == "fake" for binding in bindings)
    size = _PILOT if scripted else _size(max(times.values()))
    params = Params((size,), cases=("solo", "one", "many"))
    benchmark = Dot(bindings, sessions, clock, params, fastest(bindings, times))
    if scripted:  # a scripted clock is exact: a round is a sample
        groups = tuple(replace(group, shortest=0.0) for group in benchmark.plan.groups)
        benchmark.plan = replace(benchmark.plan, groups=groups)
    around = Around if scripted else Neighbours().read
    settings = Settings(seconds, seconds, blocks=_SCRIPTED if scripted else _BLOCKS)
    rows = list(Runner(benchmark, clock, settings, _Nobody(), around).run())
    many = next((row for row in rows if row.case.name == "many" and row.status == "ok"), None)
    if many is None or refused(many) or not {"speedup", "ideal"} <= set(many.metrics):
        return None
    return Together(many.metrics["speedup"], many.metrics["ideal"], many.explanation)


def _size(seconds: float) -> int:
    """Return the size of a product that takes long enough, by what the pilot's took."""
    if seconds <= 0.0:
        return _MOST
    wanted: float = _PILOT * (_WORK / seconds) ** (1 / 3)
    return min(max(round(wanted / _STEP) * _STEP, _LEAST), _MOST)

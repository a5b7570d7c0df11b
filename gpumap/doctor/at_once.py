"""A product for each device at once, against one device: by the runner and judge of `bench dot`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpumap.bench.causes import explaining
from gpumap.bench.dot import Dot, Params, pilot
from gpumap.doctor.used_device import SIZE
from gpumap.engine.base import Settings
from gpumap.engine.runner import Runner
from gpumap.engine.sampling import fastest
from gpumap.judge.inconclusive import refused
from gpumap.machine.state import Neighbours
from gpumap.model import Around

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumap.backends.base import Clock, Session
    from gpumap.model import Binding, Estimate, Measurement

_WORK = 1.1e-2  # seconds of a product: one of them is long enough for a sample of `bench dot`
_LEAST, _MOST, _STEP = 128, 4096, 64  # sizes of it
_BLOCKS = 40
_SCRIPTED = 6  # blocks of scripted devices: each is as the others
_IDEAL = 0.75  # of an ideal speed-up: more than noise takes away


def at_once(
    bindings: Sequence[Binding], sessions: Mapping[str, Session], clock: Clock, seconds: float
) -> tuple[str | None, str, Mapping[str, Estimate]]:
    """Return what limits all devices at once, if anything, in words, and by how much."""
    row = _measured(bindings, sessions, clock, seconds)
    if row is None or refused(row) or not {"speedup", "ideal"} <= set(row.metrics):
        return "cannot-tell", "too noisy for a figure", {}
    figures = {key: row.metrics[key] for key in ("speedup", "ideal")}
    speedup, ideal = figures["speedup"], figures["ideal"].value
    if not math.isfinite(speedup.value):
        return "cannot-tell", "too short for a figure", {}
    text = f"{speedup.value:.2f} times one device's rate, {ideal:.2f} is ideal"
    if speedup.high >= _IDEAL * ideal:
        return None, text, figures
    return row.explanation.cause if row.explanation else "slow", text, figures


def _measured(
    bindings: Sequence[Binding], sessions: Mapping[str, Session], clock: Clock, seconds: float
) -> Measurement | None:
    """Return the row of all devices; None where there is none."""
    times = pilot(bindings, sessions, clock, Params((SIZE,)))
    if not times:
        return None
    scripted = any(binding.device.backend == "fake" for binding in bindings)
    params = Params((fitting_size(max(times.values())),), cases=("solo", "one", "many"))
    benchmark = Dot(bindings, sessions, clock, params, fastest(bindings, times))
    around = Around if scripted else Neighbours().read
    settings = Settings(seconds, seconds, blocks=_SCRIPTED if scripted else _BLOCKS)
    explain = explaining(benchmark.key)
    rows = Runner(benchmark, clock, settings, around, explain=explain).run()
    return next((r for r in [*rows] if r.case.name == "many" and r.status == "ok"), None)


def fitting_size(seconds: float) -> int:
    """Return the size of a product that takes long enough, by what the pilot's took."""
    if seconds <= 0.0:
        return _MOST
    size: float = SIZE * (_WORK / seconds) ** (1 / 3)
    return min(max(round(size / _STEP) * _STEP, _LEAST), _MOST)

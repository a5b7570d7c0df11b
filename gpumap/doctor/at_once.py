"""A product for each device at once, against one device: by the runner and judge of `bench dot`."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from gpumap.bench.dot import Dot, Params
from gpumap.bench.rows import with_causes
from gpumap.engine.base import OpenDevices, Settings
from gpumap.engine.runner import Runner
from gpumap.judge.inconclusive import refused
from gpumap.machine.state import Neighbours
from gpumap.model import Around, Binding

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumap.doctor.used_device import Found, UsedDevice
    from gpumap.model import Measurement

_BLOCKS = 40
_SCRIPTED = 6  # blocks of scripted devices: each is as the others
_IDEAL = 0.75  # of an ideal speed-up: more than noise takes away


def at_once(every: Sequence[UsedDevice], size: int, seconds: float) -> Found:
    """Return what limits products of a size on all devices, if anything, and by how much."""
    bindings = tuple(Binding(used.name, used.device) for used in every)
    sessions = {used.name: used.session for used in every}
    clock, scripted = every[0].clock, any(used.scripted for used in every)
    params = Params((size,), cases=("solo", "one", "many"))
    devices = OpenDevices(bindings, sessions, clock, sessions.__getitem__, cpus=1)
    benchmark = Dot(devices, params, bindings[0])
    around = Around if scripted else Neighbours().read
    settings = Settings(seconds, seconds, blocks=_SCRIPTED if scripted else _BLOCKS)
    explain = partial(with_causes, benchmark.key)
    runner = Runner(benchmark, clock, settings, around, explain=explain)
    return _judged(runner.run())


def _judged(rows: Iterable[Measurement]) -> Found:
    """Return what the row of all devices says."""
    row = next((r for r in rows if r.case.name == "many" and r.status == "ok"), None)
    unknown = row is None or refused(row) or not {"speedup", "ideal"} <= set(row.metrics)
    if row is None or unknown or not math.isfinite(row.metrics["speedup"].value):
        return "cannot-tell", "too noisy or too short for a figure", {}
    figures = {key: row.metrics[key] for key in ("speedup", "ideal")}
    speedup, ideal = figures["speedup"], figures["ideal"].value
    text = f"{speedup.value:.2f} times one device's rate, {ideal:.2f} is ideal"
    if speedup.high >= _IDEAL * ideal:
        return None, text, figures
    return row.explanation.cause if row.explanation else "slow", text, figures

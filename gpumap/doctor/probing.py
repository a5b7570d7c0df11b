"""Run the probes in a subprocess, name by name: a hang or crash costs no other name.

The child is ``python -m gpumap.doctor.probing FD``; it reads the names and their devices from
stdin, and writes a line for each name that it begins, each that it ends, and one for all at once.

Do several names work at once? One product for each, by the runner and judge of `bench dot`.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.backends import load
from gpumap.backends.base import Host
from gpumap.backends.probe import answer, in_child
from gpumap.bench.base import Settings
from gpumap.bench.dot import Dot, Params, pilot
from gpumap.bench.runner import Runner
from gpumap.bench.sampling import fastest
from gpumap.doctor.evidence import Gain, Measured
from gpumap.judge.ceilings import refused
from gpumap.machine.state import Neighbours
from gpumap.model import Around, Binding, Device, Reason, replace
from gpumap.model.trees import plain, typed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.backends.base import Clock, Session

    Tree = dict[str, Any]
    from gpumap.bench.base import Snapshot
    from gpumap.model import Measurement, Plan

_PILOT = 512  # size of the pilot's product
_WORK = 1.1e-2  # seconds of a product: one of them is long enough for a sample of `bench dot`
_CONCURRENT_LEAST, _MOST = 128, 4096
_STEP = 64
_BLOCKS = 40
_SCRIPTED = 6  # blocks of scripted devices: each is as the others
BUDGET = 6.0  # seconds for the probes of all names, and as much again for what they take to start
_LEAST = 0.25  # seconds of a name, however many there are
_CONCURRENT = 0.3  # of the budget, where there are several names
# Seconds beyond its probes, after which a name without an answer hangs: a sound driver opens a
# device and compiles its kernels in one or two of them. Less is inconclusive.
START = 4.0
NO_TIME = Reason("no-time", "no time was left for its probes")


class _NoObserver:
    """An observer that ignores everything."""

    def planned(self, plan: Plan) -> None:
        """Ignore the plan."""

    def block(self, snapshot: Snapshot) -> None:
        """Ignore a block."""

    def ended(self, measurements: Sequence[Measurement]) -> None:
        """Ignore the rows."""


def concurrent_gain(
    bindings: Sequence[Binding], sessions: Mapping[str, Session], clock: Clock, seconds: float
) -> Gain | None:
    """Return the speed-up of all names at once; None where it could not be measured."""
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
    rows = list(Runner(benchmark, clock, settings, _NoObserver(), around).run())
    many = next((row for row in rows if row.case.name == "many" and row.status == "ok"), None)
    if many is None or refused(many) or not {"speedup", "ideal"} <= set(many.metrics):
        return None
    return Gain(many.metrics["speedup"], many.metrics["ideal"], many.explanation)


def _size(seconds: float) -> int:
    """Return the size of a product that takes long enough, by what the pilot's took."""
    if seconds <= 0.0:
        return _MOST
    size: float = _PILOT * (_WORK / seconds) ** (1 / 3)
    return min(max(round(size / _STEP) * _STEP, _CONCURRENT_LEAST), _MOST)


class ProbeRun:
    """Probe the names in sequence; each result is in `results` as soon as it is known.

    Args:
        bindings: names and devices.
        env: the environment of the program.
        end: the moment (`time.monotonic`) at which to be done.
    """

    def __init__(self, bindings: Sequence[Binding], env: Mapping[str, str], end: float) -> None:
        self.results: dict[str, Measured] = {}
        self.gain: Gain | None = None
        self._bindings, self._env, self._end = bindings, env, end

    def run(self) -> None:
        """Probe every name that there is time for."""
        while (remaining := self._remaining()) and (seconds := self._end - time.monotonic()) > 0.0:
            self._run_child(remaining, seconds)

    def all(self, missing: Reason = NO_TIME) -> dict[str, Measured]:
        """Return the results of each name; those that were not probed have a reason."""
        return self.results | {b.name: Measured(failure=missing) for b in self._remaining()}

    def _remaining(self) -> list[Binding]:
        return [binding for binding in self._bindings if binding.name not in self.results]

    def _run_child(self, remaining: Sequence[Binding], seconds: float) -> None:
        """Run one subprocess: at least one name has a result then, or hangs."""
        budget = min(BUDGET, seconds / 2)  # what there is more is for starts
        concurrent = budget * _CONCURRENT
        own = budget - concurrent * _several(remaining)
        share = max(own / len(remaining), _LEAST)
        watch = _Watch(remaining, self.results, share + START, self._end)
        names = [{"name": b.name, "device": plain(b.device)} for b in remaining]
        job = json.dumps({"names": names, "share": share, "together": concurrent})
        child = in_child("gpumap.doctor.probing", (), self._env, seconds, job, watch.over)
        watch.over(child.answer, 0.0)
        self.gain = watch.gain
        if watch.doing is None:
            return
        failure = watch.late() if child.code is None else _ended(child.code, child.errors)
        self.results[watch.doing.name] = Measured(failure=failure)
        if failure.code == "hangs":  # the device is not tried again by another name
            hung = watch.doing
            why = replace(failure, text=f"it is the device of {hung.name}: {failure.text}")
            same = (b for b in self._remaining() if b.device.id == hung.device.id)
            self.results |= {b.name: Measured(failure=why) for b in same}


class _Watch:
    """Follows the output of a subprocess: its current name, and since when.

    Args:
        bindings: the names that the child was given.
        found: receives the results.
        fair: seconds of a name that tell that it hangs, in which it had a core if it wanted one.
        end: the moment at which to be done.
    """

    def __init__(
        self, bindings: Sequence[Binding], results: dict[str, Measured], fair: float, end: float
    ) -> None:
        self.gain: Gain | None = None
        # what starts the child is a part of its first name
        self.doing: Binding | None = bindings[0]
        self._names = {binding.name: binding for binding in bindings}
        self._results, self._fair, self._end = results, fair, end
        self._length, self._starved, self._since = 0, 0.0, time.monotonic()

    def over(self, text: str, starved: float) -> bool:
        """Return whether the name has used its time: the others need the rest.

        `starved` are the seconds in which the child has waited for a core.
        """
        self._starved = max(self._starved, starved)
        if len(text) != self._length:
            self._length = len(text)
            self._read(text)
        now = time.monotonic()
        if self.doing is None:
            return now >= self._end
        waiting = (b for name, b in self._names.items() if name not in self._results)
        others = {binding.device.id for binding in waiting} - {self.doing.device.id}
        reserved = self._fair * len(others)
        return now >= self._end or (self._passed() >= self._fair and now >= self._end - reserved)

    def late(self) -> Reason:
        """Return why the interrupted name has no result."""
        if (passed := self._passed()) < self._fair:
            return Reason("no-time", f"its time was over after {passed:.1f} s, before its end")
        return Reason("hangs", f"no answer within {passed:.0f} s")

    def _read(self, text: str) -> None:
        doing, rows, self.gain = _read(text)
        self._results |= rows
        now = self._names[doing] if doing is not None else None
        if now is not None or rows:
            self.doing, self._since = now, time.monotonic() - self._starved

    def _passed(self) -> float:
        """Return the seconds of the name, without those in which the child waited for a core."""
        return time.monotonic() - self._starved - self._since


def _several(bindings: Sequence[Binding]) -> bool:
    return len({binding.device.id for binding in bindings}) > 1


def _ended(code: int, errors: str) -> Reason:
    """Return why a child ended in the middle of a name."""
    if code < 0:
        return Reason("crashes", f"the process that used it ended with signal {-code}")
    last = errors.strip().rpartition("\n")[2]
    return Reason("probe-failed", last or f"the process that used it ended with {code}")


def _read(text: str) -> tuple[str | None, dict[str, Measured], Gain | None]:
    """Return the unfinished name, the results, and the gain of all names."""
    doing, rows, gain = None, {}, None
    for line in text.splitlines():
        with suppress(ValueError):  # the last one may be incomplete
            tree = json.loads(line)
            if "begin" in tree:
                doing = tree["begin"]
            elif "together" in tree:
                gain = typed(tree["together"], Gain)
            else:
                rows[tree["name"]], doing = typed(tree["found"], Measured), None
    return doing, rows, gain


# --- the child
def _work(env: Mapping[str, str]) -> Iterator[Tree]:
    """Yield the lines for names, and for all at once, in the seconds that the job has for each."""
    import numpy as np  # noqa: F401 - before any thread is pinned: OpenBLAS sizes itself now

    from gpumap.doctor.probes import Probes
    from gpumap.machine.blas import Cores
    from gpumap.machine.topology import read

    job = json.load(sys.stdin)
    share, concurrent = job["share"], job["together"]
    bindings = [Binding(one["name"], typed(one["device"], Device)) for one in job["names"]]
    topology = read()
    host, cores = Host(env, topology), Cores(len(topology.cpus))
    backends = {name: load(name, host) for name in {b.device.backend for b in bindings}}
    opened: dict[str, Session] = {}
    for binding in bindings:
        yield {"begin": binding.name}
        backend = backends[binding.device.backend]
        clock = backend.clock()
        probes = Probes(binding, partial(backend.open, binding.device, clock), clock, cores, share)
        measured = probes.run()
        if measured.failure is None:
            opened[binding.name] = probes.session
        yield {"name": binding.name, "found": measured}
    usable = [binding for binding in bindings if binding.name in opened]
    if _several(bindings) and len(backends) == 1 and len(usable) == len(bindings):
        gain = concurrent_gain(usable, opened, backends.popitem()[1].clock(), concurrent)
        if gain is not None and math.isfinite(gain.speedup.value):
            yield {"together": gain}


if __name__ == "__main__":
    answer(int(sys.argv[1]), _work(dict(os.environ)))

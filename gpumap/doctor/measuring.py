"""The probes in a child process, name by name: one that hangs or crashes costs no other name.

The child is ``python -m gpumap.doctor.measuring FD``; it reads the names and their devices from
stdin, and writes a line for each name that it begins, each that it ends, and one for all together.

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
from gpumap.doctor.evidence import Measured, Together
from gpumap.judge.ceilings import refused
from gpumap.machine.state import Neighbours
from gpumap.model import Around, Binding, Device, Reason, replace
from gpumap.model.trees import plain, typed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.backends.base import Clock, Session

    Tree = dict[str, Any]
    from gpumap.bench.base import Seen
    from gpumap.model import Measurement, Plan

_PILOT = 512  # size of the pilot's product
_WORK = 1.1e-2  # seconds of a product: one of them is long enough for a sample of `bench dot`
_TOGETHER_LEAST, _MOST = 128, 4096
_STEP = 64
_BLOCKS = 40
_SCRIPTED = 6  # blocks of scripted devices: each is as the others
BUDGET = 6.0  # seconds for the probes of all names, and as much again for what they take to start
_LEAST = 0.25  # seconds of a name, however many there are
_TOGETHER = 0.3  # of the budget, where there are several names
# Seconds beyond its probes, after which a name without an answer hangs: a sound driver opens a
# device and compiles its kernels in one or two of them. Less is no fair time, and tells nothing.
START = 4.0
NO_TIME = Reason("no-time", "no time was left for its probes")


class _Nobody:
    """Watches nothing."""

    def planned(self, plan: Plan) -> None:
        """Hear of the plan."""

    def block(self, seen: Seen) -> None:
        """Hear of a block."""

    def ended(self, measurements: Sequence[Measurement]) -> None:
        """Hear of the rows."""


def at_once(
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
    return min(max(round(wanted / _STEP) * _STEP, _TOGETHER_LEAST), _MOST)


class Turns:
    """The names, one after the other; each result is in `found` as soon as it is known.

    Args:
        bindings: names and devices.
        env: the environment of the program.
        end: the moment (`time.monotonic`) at which to be done.
    """

    def __init__(self, bindings: Sequence[Binding], env: Mapping[str, str], end: float) -> None:
        self.found: dict[str, Measured] = {}
        self.together: Together | None = None
        self._bindings, self._env, self._end = bindings, env, end

    def run(self) -> None:
        """Examine every name that there is time for."""
        while (left := self._left()) and (seconds := self._end - time.monotonic()) > 0.0:
            self._ask(left, seconds)

    def all(self, missing: Reason = NO_TIME) -> dict[str, Measured]:
        """Return what was found on each name; those that were not examined say why."""
        return self.found | {b.name: Measured(failure=missing) for b in self._left()}

    def _left(self) -> list[Binding]:
        return [binding for binding in self._bindings if binding.name not in self.found]

    def _ask(self, left: Sequence[Binding], seconds: float) -> None:
        """Ask one child: at least of one name something is known then, be it that it hangs."""
        share = _share(left, seconds)
        watch = _Watch(left, self.found, share + START, self._end)
        job = _job(left, share, seconds)
        child = in_child("gpumap.doctor.measuring", (), self._env, seconds, job, watch.over)
        watch.over(child.answer, 0.0)
        self.together = watch.together
        if watch.doing is None:
            return
        failure = watch.late() if child.code is None else _ended(child.code, child.errors)
        self.found[watch.doing.name] = Measured(failure=failure)
        if failure.code == "hangs":
            self.found |= _same(watch.doing, self._left(), failure)


class _Watch:
    """Follows what a child writes: it knows the name that it is at, and since when.

    Args:
        bindings: the names that the child was given.
        found: takes what has ended.
        fair: seconds of a name that tell that it hangs, in which it had a core if it wanted one.
        end: the moment at which to be done.
    """

    def __init__(
        self, bindings: Sequence[Binding], found: dict[str, Measured], fair: float, end: float
    ) -> None:
        self.together: Together | None = None
        # what starts the child is a part of its first name
        self.doing: Binding | None = bindings[0]
        self._names = {binding.name: binding for binding in bindings}
        self._found, self._fair, self._end = found, fair, end
        self._seen, self._starved, self._since = 0, 0.0, time.monotonic()

    def over(self, text: str, starved: float) -> bool:
        """Return whether the name has had its time: the others need what is left.

        `starved` are the seconds in which the child has waited for a core.
        """
        self._starved = max(self._starved, starved)
        if len(text) != self._seen:
            self._seen = len(text)
            self._read(text)
        now = time.monotonic()
        if self.doing is None:
            return now >= self._end
        kept = self._fair * len(self._awaiting(self.doing))
        return now >= self._end or (self._passed() >= self._fair and now >= self._end - kept)

    def late(self) -> Reason:
        """Return why the name that was cut off has no answer."""
        if (passed := self._passed()) < self._fair:
            return Reason("no-time", f"its time was over after {passed:.1f} s, before its end")
        return Reason("hangs", f"no answer within {passed:.0f} s")

    def _read(self, text: str) -> None:
        doing, rows, self.together = _read(text)
        self._found |= rows
        now = self._names[doing] if doing is not None else None
        if now is not None or rows:
            self.doing, self._since = now, time.monotonic() - self._starved

    def _passed(self) -> float:
        """Return the seconds of the name, without those in which the child waited for a core."""
        return time.monotonic() - self._starved - self._since

    def _awaiting(self, doing: Binding) -> set[str]:
        """Return the other devices whose turn is still to come."""
        left = (b for name, b in self._names.items() if name not in self._found)
        return {binding.device.id for binding in left} - {doing.device.id}


def _share(bindings: Sequence[Binding], seconds: float) -> float:
    """Return the seconds for the probes of a name: half of what there is, their start the rest."""
    together = _TOGETHER * _several(bindings)
    return max(min(BUDGET, seconds / 2) * (1.0 - together) / len(bindings), _LEAST)


def _several(bindings: Sequence[Binding]) -> bool:
    return len({binding.device.id for binding in bindings}) > 1


def _same(hung: Binding, left: Sequence[Binding], failure: Reason) -> dict[str, Measured]:
    """Return the other names of a device that hangs: it is not tried again."""
    why = replace(failure, text=f"it is the device of {hung.name}: {failure.text}")
    return {b.name: Measured(failure=why) for b in left if b.device.id == hung.device.id}


def _ended(code: int, errors: str) -> Reason:
    """Return why a child ended in the middle of a name."""
    if code < 0:
        return Reason("crashes", f"the process that used it ended with signal {-code}")
    last = errors.strip().rpartition("\n")[2]
    return Reason("probe-failed", last or f"the process that used it ended with {code}")


def _job(bindings: Sequence[Binding], share: float, seconds: float) -> str:
    names = [{"name": b.name, "device": plain(b.device)} for b in bindings]
    together = min(BUDGET, seconds / 2) * _TOGETHER
    return json.dumps({"names": names, "share": share, "together": together})


def _read(text: str) -> tuple[str | None, dict[str, Measured], Together | None]:
    """Return the name that was begun and not ended, what ended, and all together."""
    doing, rows, together = None, {}, None
    for line in text.splitlines():
        with suppress(ValueError):  # the last one may be cut
            tree = json.loads(line)
            if "begin" in tree:
                doing = tree["begin"]
            elif "together" in tree:
                together = typed(tree["together"], Together)
            else:
                rows[tree["name"]], doing = typed(tree["found"], Measured), None
    return doing, rows, together


# --- the child
def _work(env: Mapping[str, str]) -> Iterator[Tree]:
    """Yield the lines for names, and for all at once, in the seconds that the job has for each."""
    import numpy as np  # noqa: F401 - before any thread is pinned: OpenBLAS sizes itself now

    from gpumap.doctor.probes import Probes
    from gpumap.machine.blas import Cores
    from gpumap.machine.topology import read

    job = json.load(sys.stdin)
    share, together = job["share"], job["together"]
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
        found = probes.run()
        if found.failure is None:
            opened[binding.name] = probes.session
        yield {"name": binding.name, "found": found}
    usable = [binding for binding in bindings if binding.name in opened]
    if _several(bindings) and len(backends) == 1 and len(usable) == len(bindings):
        gain = at_once(usable, opened, backends.popitem()[1].clock(), together)
        if gain is not None and math.isfinite(gain.speedup.value):
            yield {"together": gain}


if __name__ == "__main__":
    answer(int(sys.argv[1]), _work(dict(os.environ)))

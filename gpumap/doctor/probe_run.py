"""Probe the devices of a map in child processes, one after the other, within a time limit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from gpumap.doctor.child_run import ChildRun, written
from gpumap.doctor.evidence import Gain, Measured
from gpumap.engine.verify import one_of_each
from gpumap.model import Reason
from gpumap.model.io import typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumap.doctor.child_run import Key, Line
    from gpumap.model import Binding, Device

BUDGET = 6.0  # seconds for the probes of all devices, and as much again for what they take to start
_LEAST = 0.25  # seconds of a device, however many there are
_CONCURRENT = 0.3  # of the budget, where there are several
# Seconds beyond its probes, after which a device without an answer hangs: a sound driver opens one
# and compiles its kernels in one or two of them. Less is inconclusive.
START = 4.0
NO_TIME = Reason("no-time", "no time was left for its probes")


class ProbeRun(ChildRun):
    """The probes of each device; `gain` is that of all at once, where there are several.

    Args:
        bindings: names and devices.
        env: the environment of the program.
        end: the moment (`time.monotonic`) at which to be done.
        calls: whether calls of Theano's users are measured on what works in host memory too.
    """

    module = "gpumap.doctor.probes"

    def __init__(
        self, bindings: Iterable[Binding], env: Mapping[str, str], end: float, *, calls: bool
    ) -> None:
        super().__init__(env, end)
        self.gain: Gain | None = None
        self._bindings, self._calls = one_of_each(bindings), calls
        self._results: dict[str, Measured] = {}  # by the first name of a device
        self._fair = START

    def of(self, device: Device, missing: Reason = NO_TIME) -> Measured:
        """Return the results of a device; one that was not probed has a reason."""
        name = next(each.name for each in self._bindings if each.device.id == device.id)
        return self._results.get(name) or Measured(failure=missing)

    def _left(self) -> list[Binding]:
        return [each for each in self._bindings if each.name not in self._results]

    def job(self) -> Mapping[str, Any] | None:
        """Share the time among the devices that are left; what there is more is for starts."""
        if not (left := self._left()):
            return None
        budget = min(BUDGET, (self._end - time.monotonic()) / 2)
        concurrent = budget * _CONCURRENT
        share = max((budget - concurrent * (len(left) > 1)) / len(left), _LEAST)
        self._fair = share + START
        return {"names": written(left), "calls": self._calls, "together": concurrent}

    def limit(self, step: str) -> float:  # noqa: ARG002 - the same of each
        """Let a device take what those after it do not need."""
        kept = self._fair * (len(self._left()) - 1)
        return max(self._fair, self._end - kept - self._since - self._starved)

    def certain(self, step: str) -> float:  # noqa: ARG002 - as above
        """Count what takes longer than a sound driver may."""
        return self._fair

    def take(self, line: Line) -> None:
        """Take the results of a device, or the gain of all."""
        if "together" in line:
            self.gain = typed(line["together"], Gain)
        else:
            self._results[line["name"]] = typed(line["found"], Measured)

    def lose(self, key: Key, why: Reason) -> None:
        """Note why a device has no results; what starts a child is a part of its first one."""
        left = self._left()
        if left:
            self._results.setdefault(key[1] or left[0].name, Measured(failure=why))

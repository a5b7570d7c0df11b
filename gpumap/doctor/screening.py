"""The steps that `preflight` and `doctor` take on devices, in processes that can be ended.

A child writes a line before each step and one for what came of it. The step that hangs, or ends its
process, is named and not tried again; the rest goes on in another process while there is time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import TYPE_CHECKING, Literal

from gpumap.backends.probe import own_module, run_child
from gpumap.model import Estimate, FitnessCheck, Reason
from gpumap.model.io import plain, typed
from gpumap.text import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumap.backends.probe import Ended
    from gpumap.model import Binding, Fitness

    Key = tuple[str, str | None, str | None]  # a step, and the names that it is of

Tier = Literal["doctor", "quick", "long", "soak"]

BASIC = ("open", "upload", "download", "product")
_QUICK = (*BASIC, "siblings")
_LONGER = (*_QUICK, "upload-rate", "download-rate", "memory-rate")
# What there must be of each name.
_ITEMS: dict[Tier, tuple[str, ...]] = {
    "doctor": (*BASIC, "costs"), "quick": _QUICK, "long": _LONGER, "soak": (*_LONGER, "soak"),
}  # fmt: skip
_LONG, _SOAK = 60.0, 600.0  # seconds from which on a tier begins
# shares of the whole time
_LIMITS = {"open": 0.4, "siblings": 0.5, "all-at-once": 0.5, "allreduce": 0.3}
_LIMIT, _CAP = 0.15, 30.0  # of any other step; seconds of any
# seconds that a step has at least: a driver opens in one or two
_LEAST = {"open": 3.5}
_ELSE = 1.0
_LAST = 0.5  # seconds of a child's end, in which its last lines are written
_FITNESS: dict[str | None, Fitness] = {
    None: "fit", "wrong-data": "wrong-data", "no-time": "cannot-tell", "cannot-tell": "cannot-tell",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StepResult:
    """What came of a step of a name, of a pair or of all: without a code it went well."""

    what: str
    name: str | None
    other: str | None
    code: str | None
    text: str
    figures: Mapping[str, Estimate] = field(default_factory=dict)

    @property
    def check(self) -> FitnessCheck:
        """Return what it says of whether the machine may take a job."""
        fitness = _FITNESS.get(self.code, "unfit")
        figure = next(iter(self.figures.values()), None)
        return FitnessCheck(self.what, fitness, self.text, None, self.name, self.other, figure)


def tier_of(within: float) -> Tier:
    """Return what there is time for."""
    if within >= _SOAK:
        return "soak"
    return "long" if within >= _LONG else "quick"


class DeviceRun:
    """The child processes of one run, and the step that the present one is in.

    Args:
        bindings: one name for each device.
        env: the environment of the program.
        tier: which steps there are.
        within: seconds of the whole command, of which each step has a share.
        end: the moment (`time.monotonic`) at which to be done.
        found: takes each result as soon as it is known.
    """

    def __init__(
        self,
        bindings: Sequence[Binding],
        env: Mapping[str, str],
        tier: Tier,
        within: float,
        end: float,
        found: Callable[[StepResult], None],
    ) -> None:
        self._bindings, self._env, self._tier = bindings, env, tier
        self._within, self._end, self._found = within, end, found
        self._done: set[Key] = set()
        self._lost: set[str] = set()
        self._doing: Key = ("open", None, None)
        self._read, self._complete = 0, False
        self._since, self._starved = 0.0, 0.0

    def run(self) -> None:
        """Do all that there is time for; the rest is not known."""
        while not self._complete and time.monotonic() < self._end and self._usable():
            self._child()
        for key in self._missing():
            self._note(StepResult(*key, "no-time", "no time was left for it"))

    def _usable(self) -> list[Binding]:
        return [binding for binding in self._bindings if binding.name not in self._lost]

    def _missing(self) -> Iterator[Key]:
        """Yield what there must be and is not, of devices that answer."""
        names = [binding.name for binding in self._usable()]
        keys: list[Key] = [(what, name, None) for what in _ITEMS[self._tier] for name in names]
        if self._tier != "doctor":
            keys += [("pair", *pair) for pair in permutations(names, 2)]
        yield from (key for key in keys if key not in self._done)

    def _child(self) -> None:
        """Run one process until it ends, or one of its steps takes too long."""
        left = self._end - time.monotonic()
        self._doing, self._read = ("open", None, None), 0
        self._since, self._starved = time.monotonic(), 0.0
        program = own_module("gpumap.doctor.screening_child", (), self._env)
        child = run_child(*program, left, self._job(left), self._over)
        self._take_lines(child.answer)
        if not self._complete:
            self._lose(self._doing, self._why(child))

    def _job(self, left: float) -> str:
        """Return what is left to do, without devices that cannot be used."""
        names = [{"name": each.name, "device": plain(each.device)} for each in self._usable()]
        job = {"names": names, "done": sorted(self._done, key=str), "tier": self._tier}
        return json.dumps({**job, "seconds": left, "end": self._end - _LAST})

    def _why(self, child: Ended) -> Reason:
        """Return what the end of a process says of the step that it was in."""
        if child.code is not None:
            how = f"the process that used it {ended(child.code)}"
            last = child.errors.strip().rpartition("\n")[2]
            return Reason("crashes", how) if child.code < 0 else Reason("probe-failed", last or how)
        waited, endless = self._waited(), self._doing[0] == "all-at-once"  # it has no pace
        if waited >= self._limit() and not endless:
            return Reason("hangs", f"no answer in {waited:.1f} s")
        return Reason("no-time", f"its time was over after {waited:.1f} s, before its end")

    def _over(self, text: str, starved: float) -> bool:
        """Return whether a step has used its time; that in which it had no core is not counted."""
        self._starved = max(self._starved, starved)
        self._take_lines(text)
        return time.monotonic() >= self._end or self._waited() >= self._limit()

    def _limit(self) -> float:
        """Return the seconds that a step may take."""
        what = self._doing[0]
        share = _LIMITS.get(what, _LIMIT) * self._within
        return min(max(share, _LEAST.get(what, _ELSE)), _CAP)

    def _waited(self) -> float:
        """Return the seconds of a step in which it had a core if it wanted one."""
        return time.monotonic() - self._starved - self._since

    def _take_lines(self, text: str) -> None:
        """Take the whole lines that are new."""
        lines = text.split("\n")[:-1]
        for line in map(json.loads, lines[self._read :]):
            self._since = time.monotonic() - self._starved
            if "begin" in line:
                step, name, other = line["begin"]
                self._doing = (step, name, other)
            elif "end" in line:
                self._complete = True
            else:
                self._note(typed(line["result"], StepResult))
        self._read = len(lines)

    def _lose(self, key: Key, why: Reason) -> None:
        """Note the step in which a process ended, and leave out what cannot be used."""
        what, name, other = key
        if name is None and what == "open":  # it ended before its first step
            code = "no-time" if why.code == "no-time" else "cannot-tell"
            for binding in self._usable():
                self._note(StepResult(what, binding.name, None, code, why.text))
            return
        self._note(StepResult(what, name, other, why.code, why.text))
        if other is None and name is not None:
            self._lost.add(name)

    def _note(self, result: StepResult) -> None:
        key: Key = (result.what, result.name, result.other)
        if key not in self._done or result.code is not None:  # a later process may find it wrong
            self._done.add(key)
            self._found(result)
        if result.what in BASIC and result.code is not None and result.name is not None:
            self._lost.add(result.name)

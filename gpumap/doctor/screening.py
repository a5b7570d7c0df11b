"""The steps that `preflight` takes on the devices of a map, each with a limit of its own."""

from __future__ import annotations

import math
from itertools import permutations
from typing import TYPE_CHECKING, Any, Literal

from gpumap.doctor.child_run import ChildRun, written
from gpumap.model import FitnessCheck
from gpumap.model.io import typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpumap.doctor.child_run import Key, Line
    from gpumap.model import Binding, Fitness, Reason

Tier = Literal["quick", "long", "soak"]
Step = Literal[
    "open", "upload", "download", "pair", "product", "siblings", "throttle", "upload-rate",
    "download-rate", "memory-rate", "all-at-once", "soak",
]  # fmt: skip

# What is checked of each name, by the tiers that have it.
_ITEMS: dict[tuple[Tier, ...], tuple[Step, ...]] = {
    ("quick", "long", "soak"): ("open", "upload", "download", "product", "siblings"),
    ("long", "soak"): ("upload-rate", "download-rate", "memory-rate"),
    ("soak",): ("soak",),
}
_LONG, _SOAK = 60.0, 600.0  # seconds from which on a tier begins
_LIMITS = {"open": 0.4, "siblings": 0.5, "all-at-once": 0.5}  # shares of the whole time
_LIMIT, _CAP = 0.15, 30.0  # of any other step; seconds of any
# seconds without an answer that tell a hang: a driver opens in one or two
_CERTAIN = {"open": 3.5, "all-at-once": math.inf}
_ELSE = 1.0
_FIXES = {
    "wrong-data": "do not trust this device: check its memory, cable and driver",
    "cannot-tell": "repeat with a longer --within, on an idle machine",
}
_FIXES_OF = {
    "open": "`gpumap doctor` says why",
    "pair": "use one of the two alone; see `dmesg` and the settings of IOMMU and ACS",
    "siblings": "compare clocks and limits of power (nvidia-smi -q -d CLOCK,POWER,PERFORMANCE)",
    "throttle": "look at its cooling and power supply",
    "all-at-once": "look at what the devices share: power, cooling, links, cores",
}
_OTHER = "take this device out of the job; see `dmesg`"


def tier_of(within: float) -> Tier:
    """Return what there is time for."""
    if within >= _SOAK:
        return "soak"
    return "long" if within >= _LONG else "quick"


def fix_of(what: str, fitness: Fitness) -> str:
    """Return what to do about an item."""
    return _FIXES.get(fitness) or _FIXES_OF.get(what, _OTHER)


class DeviceRun(ChildRun):
    """The child processes of one run; `found` gets each check as soon as it is known.

    Args:
        bindings: one name for each device.
        env: the environment of the program.
        within: seconds of the whole command, of which each step has a share.
        end: the moment (`time.monotonic`) at which to be done.
        found: takes the checks.
    """

    module = "gpumap.doctor.screening_child"

    def __init__(
        self,
        bindings: Sequence[Binding],
        env: Mapping[str, str],
        within: float,
        end: float,
        found: Callable[[FitnessCheck], None],
    ) -> None:
        super().__init__(env, end)
        self._bindings, self._within, self._found = bindings, within, found
        self._done: set[Key] = set()
        self._lost: set[str] = set()

    def run(self) -> None:
        """Check all that there is time for; the rest is not known."""
        super().run()
        for key in self._missing():
            self._note(_check(key, "cannot-tell", "no time was left for it"))

    def _usable(self) -> list[Binding]:
        return [binding for binding in self._bindings if binding.name not in self._lost]

    def _missing(self) -> Iterator[Key]:
        """Yield what is always checked and was not, of devices that answer."""
        names, tier = [binding.name for binding in self._usable()], tier_of(self._within)
        whats = [what for each, every in _ITEMS.items() if tier in each for what in every]
        keys: list[Key] = [(what, name, None) for what in whats for name in names]
        keys += [("pair", *pair) for pair in permutations(names, 2)]
        yield from (key for key in keys if key not in self._done)

    def job(self) -> Mapping[str, Any] | None:
        """Leave out what is done, and devices that cannot be used."""
        usable = self._usable()
        done, tier = sorted(self._done, key=str), tier_of(self._within)
        return {"names": written(usable), "done": done, "tier": tier} if usable else None

    def limit(self, step: str) -> float:
        """Return a share of the whole time."""
        return min(_LIMITS.get(step, _LIMIT) * self._within, _CAP)

    def certain(self, step: str) -> float:
        """Return what no sound driver takes."""
        return _CERTAIN.get(step, _ELSE)

    def take(self, line: Line) -> None:
        """Note a check."""
        self._note(typed(line["check"], FitnessCheck))

    def lose(self, key: Key, why: Reason) -> None:
        """Note the step in which a process ended, and leave out what cannot be used."""
        what, name, other = key
        if name is None and what == "open":  # it ended before its first step
            for binding in self._usable():
                self._note(_check((what, binding.name, None), "cannot-tell", why.text))
            return
        self._note(_check(key, "cannot-tell" if why.code == "no-time" else "unfit", why.text))
        if other is None and name is not None:
            self._lost.add(name)

    def _note(self, check: FitnessCheck) -> None:
        key: Key = (check.what, check.name, check.other)
        if key not in self._done or check.fitness != "fit":  # a later process may find it wrong
            self._done.add(key)
            self._found(check)
        first = check.what in ("open", "upload", "download", "product")
        if first and check.fitness != "fit" and check.name is not None:
            self._lost.add(check.name)


def _check(key: Key, fitness: Fitness, text: str) -> FitnessCheck:
    return FitnessCheck(key[0], fitness, text, fix_of(key[0], fitness), key[1], key[2])

"""Let a child process use the devices of a map for `preflight`, and end it where one hangs.

Each step has a limit of its own. What hangs, or ends the process, is named and not tried again; the
rest goes on in another process while there is time.
"""

from __future__ import annotations

import json
import math
import time
from itertools import permutations
from typing import TYPE_CHECKING, Any, Literal

from gpumap.backends.probe import in_child
from gpumap.model import FitnessCheck
from gpumap.model.io import plain, typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpumap.backends.probe import Ended
    from gpumap.model import Binding, Fitness

Tier = Literal["quick", "long", "soak"]
Step = Literal[
    "open", "upload", "download", "pair", "product", "siblings", "throttle", "upload-rate",
    "download-rate", "memory-rate", "all-at-once", "soak",
]  # fmt: skip
Key = tuple[Step, str | None, str | None]

ALONE = "end"
# What is checked of each name, by the tiers that have it.
_ITEMS: dict[tuple[Tier, ...], tuple[Step, ...]] = {
    ("quick", "long", "soak"): ("open", "upload", "download", "product", "siblings"),
    ("long", "soak"): ("upload-rate", "download-rate", "memory-rate"),
    ("soak",): ("soak",),
}
_LAST = 0.5  # seconds of a soak's end, in which its last lines are written
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


class DeviceRun:
    """The child processes of one run; `found` gets each check as soon as it is known.

    Args:
        bindings: one name for each device.
        env: the environment of the program.
        within: seconds of the whole command, of which each step has a share.
        end: the moment (`time.monotonic`) at which to be done.
        found: takes the checks.
    """

    def __init__(
        self,
        bindings: Sequence[Binding],
        env: Mapping[str, str],
        within: float,
        end: float,
        found: Callable[[FitnessCheck], None],
    ) -> None:
        self._bindings, self._env = bindings, env
        self._within, self._end, self._found = within, end, found
        self._done: set[Key] = set()
        self._lost: set[str] = set()
        self._doing: Key | None = None
        self._read, self._complete = 0, False
        self._since, self._starved = 0.0, 0.0

    def run(self) -> None:
        """Check all that there is time for; the rest is not known."""
        while self._usable() and not self._complete and time.monotonic() < self._end:
            self._child()
        for key in self._missing():
            self._take(key, "cannot-tell", "no time was left for it")

    def _usable(self) -> list[Binding]:
        return [binding for binding in self._bindings if binding.name not in self._lost]

    def _missing(self) -> Iterator[Key]:
        """Yield what is always checked and was not, of devices that answer."""
        names, tier = [binding.name for binding in self._usable()], tier_of(self._within)
        whats = [what for each, every in _ITEMS.items() if tier in each for what in every]
        keys: list[Key] = [(what, name, None) for what in whats for name in names]
        keys += [("pair", *pair) for pair in permutations(names, 2)]
        yield from (key for key in keys if key not in self._done)

    def _child(self) -> None:
        """Run one process until it ends, or one of its steps takes too long."""
        left = self._end - time.monotonic()
        names = [{"name": b.name, "device": plain(b.device)} for b in self._usable()]
        job = {"names": names, "done": sorted(self._done, key=str), "tier": tier_of(self._within)}
        text = json.dumps({**job, "seconds": left, "end": self._end - _LAST})
        self._doing, self._read = None, 0
        self._since, self._starved = time.monotonic(), 0.0
        module = "gpumap.doctor.screening_child"
        child = in_child(module, (), self._env, left, text, self._over)
        self._take_lines(child.answer)
        if not self._complete:
            self._ended(self._doing, child)

    def _ended(self, key: Key | None, child: Ended) -> None:
        """Note the step in which a process ended, and leave out what cannot be used."""
        if key is None:  # it ended before its first step
            last = child.errors.strip().rpartition("\n")[2]
            why = f"no process: {last}" if last else "its process did not begin in time"
            for binding in self._usable():
                self._take(("open", binding.name, None), "cannot-tell", why)
            return
        fitness, text = self._why(key, child.code)
        self._take(key, fitness, text)
        if key[0] != "pair" and key[1] is not None:
            self._lost.add(key[1])

    def _why(self, key: Key, code: int | None) -> tuple[Fitness, str]:
        """Return what the end of a process says of the step that it was in."""
        if code is not None:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            return "unfit", f"the process that used it ended with {how}"
        waited, certain = self._waited(), _CERTAIN.get(key[0], _ELSE)
        if waited < min(certain, self._limit(key)):
            return "cannot-tell", "its time was over before its end"
        return "unfit" if waited >= certain else "cannot-tell", f"no answer in {waited:.1f} s"

    def _limit(self, key: Key) -> float:
        return min(_LIMITS.get(key[0], _LIMIT) * self._within, _CAP)

    def _over(self, text: str, starved: float) -> bool:
        """Return whether a step has used its time; that in which it had no core is not counted."""
        self._starved = max(self._starved, starved)
        self._take_lines(text)
        limit = self._limit(self._doing or ("open", None, None))
        return time.monotonic() >= self._end or self._waited() >= limit

    def _waited(self) -> float:
        """Return the seconds of a step in which it had a core if it wanted one."""
        return time.monotonic() - self._starved - self._since

    def _take_lines(self, text: str) -> None:
        """Take the whole lines that are new."""
        lines = text.split("\n")[:-1]
        for line in lines[self._read :]:
            self._since = time.monotonic() - self._starved
            self._line(json.loads(line))
        self._read = len(lines)

    def _line(self, tree: dict[str, Any]) -> None:
        if "begin" in tree:
            what, name, other = tree["begin"]
            self._doing = (what, name, other)
        elif "check" in tree:
            self._note(typed(tree["check"], FitnessCheck))
        else:
            self._complete = True

    def _note(self, check: FitnessCheck) -> None:
        key: Key = (check.what, check.name, check.other)  # type: ignore[assignment] # of a child's
        if key not in self._done or check.fitness != "fit":  # a later process may find it wrong
            self._done.add(key)
            self._found(check)
        first = check.what in ("open", "upload", "download", "product")
        if first and check.fitness != "fit" and check.name is not None:
            self._lost.add(check.name)

    def _take(self, key: Key, fitness: Fitness, text: str) -> None:
        self._note(FitnessCheck(key[0], fitness, text, fix_of(key[0], fitness), key[1], key[2]))

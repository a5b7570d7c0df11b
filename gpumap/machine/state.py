"""How busy the machine is, and how fast its cores run, while something is measured."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpumap.machine import cpuinfo
from gpumap.machine.topology import allowed
from gpumap.machine.tree import Tree, number
from gpumap.model import Around, Others, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumap.machine.gpu_state import Gpus

_FIELDS = 8  # user nice system idle iowait irq softirq steal; "guest" is in "user" already
_IDLE, _IOWAIT, _STEAL = 3, 4, 7
_SHORT = 0.25  # seconds; the kernel counts in hundredths


class Watch:
    """Reads the state of the machine again and again; shares are of the time since the last look.

    The first look is at the construction.
    """

    def __init__(self, root: Path = Path("/"), gpus: Gpus | None = None) -> None:
        self._tree = Tree(root)
        self._gpus = gpus
        self._cpus = allowed(self._tree)
        self._last = _ticks(self._tree)

    def read(self) -> State:
        """Return the state since the last look; what the system does not tell is None."""
        last, self._last = self._last, _ticks(self._tree)
        shares = _shares(last, self._last)
        return State(
            load1=_load1(self._tree),
            steal=shares.steal if shares else None,
            busy=shares.busy if shares else None,
            clocks_hz=_clocks(self._tree, self._cpus),
            gpus=self._gpus.read() if self._gpus else (),
        )


class Neighbours:
    """What others take from the machine: other processes, and other machines on its hardware.

    `ours` are processes that belong to this one, on this machine; `before` is what others took
    before it measured.
    """

    def __init__(
        self, root: Path = Path("/"), ours: Iterable[int] = (), before: Others | None = None
    ) -> None:
        self._before = None if before is None else before.cores
        self._watch = Watch(root)
        self._cores = os.cpu_count() or 1
        self._ours = tuple(ours)
        self._last = (time.monotonic(), self._spent())

    def read(self) -> Around:
        """Return what they took since the last look; nothing where that is too short to tell."""
        (wall, own), self._last = self._last, (time.monotonic(), self._spent())
        passed, spent = self._last[0] - wall, self._last[1] - own
        state = self._watch.read()
        if passed < _SHORT or state.busy is None:
            return Around(
                None, state.steal if passed >= _SHORT else None, self._before, self._cores
            )
        foreign = max(state.busy * self._cores - spent / passed, 0.0)
        return Around(foreign, state.steal, self._before, self._cores)

    def _spent(self) -> float:
        """Return the seconds of CPU time that this process and its own have had."""
        children = os.times()[2:4]  # of those that have ended: what a driver's compiler took
        found = time.process_time() + sum(children)
        if self._ours:
            import psutil

            for process in self._ours:
                with suppress(psutil.Error):  # it has ended
                    found += sum(psutil.Process(process).cpu_times()[:2])
        return found


@dataclass(frozen=True, slots=True)
class _Shares:
    steal: float
    busy: float


def _ticks(tree: Tree) -> tuple[int, ...] | None:
    line = (tree.text("proc/stat") or "").partition("\n")[0].split()
    ticks = tuple(n for n in map(number, line[1 : _FIELDS + 1]) if n is not None and n >= 0)
    return ticks if line[:1] == ["cpu"] and len(ticks) == _FIELDS else None


def _shares(before: tuple[int, ...] | None, after: tuple[int, ...] | None) -> _Shares | None:
    if before is None or after is None:
        return None
    # iowait is known to step back (proc(5)): less than nothing is nothing.
    passed = [max(0, b - a) for a, b in zip(before, after, strict=True)]
    total = sum(passed)
    if total == 0:
        return None
    busy = total - passed[_IDLE] - passed[_IOWAIT] - passed[_STEAL]
    return _Shares(steal=passed[_STEAL] / total, busy=busy / total)


def _load1(tree: Tree) -> float | None:
    try:
        load = float((tree.text("proc/loadavg") or "").split(" ")[0])
    except ValueError:
        return None
    return load if 0 <= load < float("inf") else None


def _clocks(tree: Tree, cpus: tuple[int, ...]) -> Mapping[str, float]:
    rates = {cpu: hertz for cpu in cpus if (hertz := frequency(tree, cpu)) is not None}
    rates = rates or cpuinfo.clocks(tree)
    return {f"cpu:{cpu}": rates[cpu] for cpu in cpus if cpu in rates}


def frequency(tree: Tree, cpu: int) -> float | None:
    """Return the clock of a core as its governor tells it, in hertz."""
    kilohertz = tree.number(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq")
    return kilohertz * 1e3 if kilohertz and 0 < kilohertz < 2**40 else None

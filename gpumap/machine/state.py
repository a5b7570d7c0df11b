"""How busy the machine is while something is measured.

Who else uses the machine: its cores, and the map's CUDA devices.

What the system tells of the links between the host and its devices, at this moment.

An idle link slows down: ask right after it was used. Nothing is asked of a driver.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumap.machine import topology
from gpumap.machine.topology import Tree, number, pci_address
from gpumap.model import Around, LinkState, Others, Process, State

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gpumap.machine.topology import Topology
    from gpumap.model import Device


_LOOK = 0.5  # seconds
_TICK = 0.01  # seconds, in which the kernel counts
_NAMED = 3  # processes
# A script may be named: other arguments may be secrets.
_SCRIPT = re.compile(r"(?:.*/)?([\w.+-]{1,40}\.(?:py|sh|pl|rb|jl|R|js|jar))", re.ASCII)
_LONGEST = 40  # characters of a name: any process may choose its own
_FIELDS = 8  # user nice system idle iowait irq softirq steal; "guest" is in "user" already
_IDLE, _IOWAIT, _STEAL = 3, 4, 7
_SHORT = 0.25  # seconds; the kernel counts in hundredths


class Look:
    """Looks at what other processes do, from its construction to `read`.

    Processes of other containers are not listed, but the kernel's counters know of them: the
    larger of both counts. Named is only what a user can end: no thread of the kernel's.
    """

    def __init__(self, ours: Collection[int] = ()) -> None:
        """Look for the first time; `ours` are processes that belong to this one, beside its own."""
        self._ours = frozenset(ours)
        self._around = Neighbours(ours=ours)
        self._before, self._began = _times(self._ours), time.monotonic()

    def read(self, *, scripts: bool = False) -> Others:
        """Return what they took since, with the scripts that they run if that is requested."""
        after = _times(self._ours)
        passed = max(time.monotonic() - self._began, _TICK)
        foreign = self._around.read().foreign or 0.0
        used = {who: (after[who] - self._before.get(who, 0.0)) / passed for who in after}
        most = sorted((who for who in used if used[who] > 0.0), key=lambda who: -used[who])
        known = ((who, name_of(who[0], script=scripts)) for who in most)
        named = ((who, name) for who, name in known if name)
        found = tuple(Process(who[0], name, used[who]) for who, name in islice(named, _NAMED))
        every = os.cpu_count() or 1
        return Others(min(max(sum(used.values()), foreign), every), every, found)


def others() -> Others:
    """Look for half a second at what other processes do, and which scripts they run."""
    look = Look()
    time.sleep(_LOOK)
    return look.read(scripts=True)


def name_of(pid: int, *, script: bool = True) -> str:
    """Return what to call a process: its program, and with `script` what it runs if that is plain.

    One that has ended, may not be asked, or has no command line (the kernel's own) has no name.
    """
    import psutil

    try:
        process = psutil.Process(pid)
        name, line = str(process.name()), process.cmdline()
    except (psutil.Error, OSError):
        return ""
    if not line:
        return ""
    runs = _SCRIPT.fullmatch(line[1]) if script and len(line) > 1 else None
    return name[:_LONGEST] + (f" {runs[1]}" if runs else "")


def _times(ours: Collection[int]) -> Mapping[tuple[int, float], float]:
    """Return the CPU seconds of each other process, by its id and start: ids come again."""
    import psutil

    listed: Iterable[Any] = psutil.process_iter(("pid", "ppid", "create_time", "cpu_times"))
    every = [process.info for process in listed]
    own = _family(every, ours)
    return {
        (one["pid"], one["create_time"]): one["cpu_times"].user + one["cpu_times"].system
        for one in every
        if one["pid"] not in own and one["cpu_times"] is not None
    }


def _family(every: Iterable[Mapping[str, Any]], ours: Iterable[int]) -> set[int]:
    """Return the ids of this process, of those that belong to it, and of all they have started."""
    children: dict[Any, list[int]] = {}
    for one in every:
        children.setdefault(one.get("ppid"), []).append(one["pid"])
    found: set[int] = set()
    left = [os.getpid(), *ours]
    while left:
        if (pid := left.pop()) not in found:
            found.add(pid)
            left += children.get(pid, ())
    return found


class Watch:
    """Reads the state of the machine again and again; shares are of the time since the last look.

    The first look is at the construction.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._tree = Tree(root)
        self._last = _ticks(self._tree)

    def read(self) -> State:
        """Return the state since the last look; what the system does not tell is None."""
        last, self._last = self._last, _ticks(self._tree)
        steal, busy = _shares(last, self._last) or (None, None)
        load = None
        with suppress(OSError):  # there is no /proc
            load = os.getloadavg()[0]
        return State(load, steal, busy)


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
            return Around(None, None, self._before, self._cores)
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


def _ticks(tree: Tree) -> tuple[int, ...] | None:
    line = (tree.text("proc/stat") or "").partition("\n")[0].split()
    ticks = tuple(n for n in map(number, line[1 : _FIELDS + 1]) if n is not None and n >= 0)
    return ticks if line[:1] == ["cpu"] and len(ticks) == _FIELDS else None


def _shares(
    before: tuple[int, ...] | None, after: tuple[int, ...] | None
) -> tuple[float, float] | None:
    """Return the shares of time that were stolen, and busy."""
    if before is None or after is None:
        return None
    # iowait is known to step back (proc(5)): less than nothing is nothing.
    passed = [max(0, b - a) for a, b in zip(before, after, strict=True)]
    total = sum(passed)
    if total == 0:
        return None
    busy = total - passed[_IDLE] - passed[_IOWAIT] - passed[_STEAL]
    return passed[_STEAL] / total, busy / total


def link_states(devices: Iterable[Device], root: Path = Path("/")) -> dict[str, LinkState]:
    """Return the state of each device's link, by the device's id.

    A scripted device is no part of this machine, whatever its PCI address: it has none.
    """
    here = topology.read(root)
    real = (device for device in devices if device.backend != "fake")
    return {device.id: _state(device, here) for device in real}


def _state(device: Device, here: Topology) -> LinkState:
    address = pci_address(device.pci or "")
    place = next((one for one in here.pci if one.address == address), None)
    node = place.numa_node if place else None
    nodes = {cpu.numa_node for cpu in here.cpus}
    # lanes in use do not fall when a link idles, so a driver's word will do
    width = place.link_width if place and place.link_width else _whole(device, "link_width")
    return LinkState(
        node=device.numa_node if node is None else node,
        nodes=tuple(sorted(node for node in nodes if node is not None)),
        width=width,
        max_width=place.max_link_width if place else _whole(device, "max_link_width"),
    )


def _whole(device: Device, fact: str) -> int | None:
    value = device.facts.get(fact)
    return value if isinstance(value, int) else None

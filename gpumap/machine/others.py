"""Who else uses the machine: its cores, and the map's CUDA devices."""

from __future__ import annotations

import os
import re
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

from gpumap.machine.state import Neighbours
from gpumap.model import Others, Process

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from gpumap.model import Around

_LOOK = 0.5  # seconds
_TICK = 0.01  # seconds, in which the kernel counts
_NAMED = 3  # processes
# A script may be named: other arguments may be secrets.
_SCRIPT = re.compile(r"(?:.*/)?([\w.+-]{1,40}\.(?:py|sh|pl|rb|jl|R|js|jar))", re.ASCII)
_LONGEST = 40  # characters of a name: any process may choose its own


class Look:
    """Looks at what other processes do, from its construction to `read`.

    Processes of other containers are not listed, but the kernel's counters know of them: the
    larger of both counts. Named is only what a user can end: no thread of the kernel's.
    """

    def __init__(
        self,
        ours: Collection[int] = (),
        system: Any = None,
        around: Callable[[], Around] | None = None,
    ) -> None:
        """Look for the first time.

        Args:
            ours: processes that belong to this one, beside those that it has started.
            system: stands in for the module `psutil`.
            around: stands in for what the kernel's counters say.
        """
        self._ours = frozenset(ours)
        self._system = system or _psutil()
        self._around = around or Neighbours(ours=ours).read
        self._before, self._began = _times(self._system, self._ours), time.monotonic()

    def read(self, *, scripts: bool = False, least: float = 0.0) -> Others:
        """Return what they took since, with the scripts that they run if that is asked for.

        No time is shorter than `least` seconds.
        """
        after = _times(self._system, self._ours)
        passed = max(time.monotonic() - self._began, least, _TICK)
        told = self._around().foreign or 0.0
        used = {who: (after[who] - self._before.get(who, 0.0)) / passed for who in after}
        most = sorted((who for who in used if used[who] > 0.0), key=lambda who: -used[who])
        known = ((who, name_of(who[0], self._system, script=scripts)) for who in most)
        named = ((who, name) for who, name in known if name)
        found = tuple(Process(who[0], name, used[who]) for who, name in islice(named, _NAMED))
        every = os.cpu_count() or 1
        return Others(min(max(sum(used.values()), told), every), every, found)


def others(
    sleep: Callable[[float], None] = time.sleep,
    system: Any = None,
    around: Callable[[], Around] | None = None,
) -> Others:
    """Look for half a second at what other processes do, and which scripts they run.

    Args:
        sleep: lets the time pass.
        system: stands in for the module `psutil`.
        around: stands in for what the kernel's counters say.
    """
    look = Look((), system, around)
    sleep(_LOOK)
    return look.read(scripts=True, least=_LOOK)


def name_of(pid: int, system: Any = None, *, script: bool = True) -> str:
    """Return what to call a process: its program, and with `script` what it runs if that is plain.

    One that has ended, may not be asked, or has no command line (the kernel's own) has no name.
    """
    system = system or _psutil()
    try:
        process = system.Process(pid)
        name, line = str(process.name()), process.cmdline()
    except (system.Error, OSError):
        return ""
    if not line:
        return ""
    runs = _SCRIPT.fullmatch(line[1]) if script and len(line) > 1 else None
    return name[:_LONGEST] + (f" {runs[1]}" if runs else "")


def _psutil() -> Any:
    import psutil

    return psutil


def _times(system: Any, ours: Collection[int]) -> Mapping[tuple[int, float], float]:
    """Return the CPU seconds of each other process, by its id and start: ids come again."""
    listed: Iterable[Any] = system.process_iter(("pid", "ppid", "create_time", "cpu_times"))
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

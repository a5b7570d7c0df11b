"""Who else uses the machine: its cores, and the map's CUDA devices."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from gpumap.machine.state import Neighbours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gpumap.model import Around

_LOOK = 0.5  # seconds
_NAMED = 3  # processes
# A script may be named: other arguments may be secrets.
_SCRIPT = re.compile(r"(?:.*/)?([\w.+-]{1,40}\.(?:py|sh|pl|rb|jl|R|js|jar))", re.ASCII)
_LONGEST = 40  # characters of a name: any process may choose its own


@dataclass(frozen=True, slots=True)
class Process:
    """Another process, and the cores that it kept busy."""

    pid: int
    name: str  # as it calls itself: hostile
    cores: float


@dataclass(frozen=True, slots=True)
class Others:
    """What other processes took of the cores, and the few that took most of it."""

    cores: float
    of: int
    processes: tuple[Process, ...]


def others(
    sleep: Callable[[float], None] = time.sleep,
    system: Any = None,
    around: Callable[[], Around] | None = None,
) -> Others:
    """Look for half a second at what other processes do.

    Processes of other containers are not listed, but the kernel's counters know of them: the
    larger of both counts. Named is only what a user can end: no thread of the kernel's.

    Args:
        sleep: lets the time pass.
        system: stands in for the module `psutil`.
        around: stands in for what the kernel's counters say.
    """
    system = system or _psutil()
    around = around or Neighbours().read
    before, began = _times(system), time.monotonic()
    sleep(_LOOK)
    after, passed = _times(system), max(time.monotonic() - began, _LOOK)
    told = around().foreign or 0.0
    used = {who: (after[who] - before.get(who, 0.0)) / passed for who in after}
    most = sorted((who for who in used if used[who] > 0.0), key=lambda who: -used[who])
    named = ((who, name) for who in most if (name := name_of(who[0], system)))
    found = tuple(Process(who[0], name, used[who]) for who, name in islice(named, _NAMED))
    every = os.cpu_count() or 1
    return Others(min(max(sum(used.values()), told), every), every, found)


def name_of(pid: int, system: Any = None) -> str:
    """Return what to call a process: its program, and the script that it runs if that is plain.

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
    script = _SCRIPT.fullmatch(line[1]) if len(line) > 1 else None
    return name[:_LONGEST] + (f" {script[1]}" if script else "")


def _psutil() -> Any:
    import psutil

    return psutil


def _times(system: Any) -> Mapping[tuple[int, float], float]:
    """Return the CPU seconds of each other process, by its id and start: ids come again."""
    listed: Iterable[Any] = system.process_iter(("pid", "ppid", "create_time", "cpu_times"))
    every = [process.info for process in listed]
    own = _family(every)
    return {
        (one["pid"], one["create_time"]): one["cpu_times"].user + one["cpu_times"].system
        for one in every
        if one["pid"] not in own and one["cpu_times"] is not None
    }


def _family(every: Iterable[Mapping[str, Any]]) -> set[int]:
    """Return the ids of this process and of all that it has started."""
    children: dict[Any, list[int]] = {}
    for one in every:
        children.setdefault(one.get("ppid"), []).append(one["pid"])
    found: set[int] = set()
    left = [os.getpid()]
    while left:
        if (pid := left.pop()) not in found:
            found.add(pid)
            left += children.get(pid, ())
    return found

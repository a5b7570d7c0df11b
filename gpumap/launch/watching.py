"""What the processes of a run do with named devices, looked at from outside, once a second.

Cores: CPU time of each process and thread, to the core that it last ran on; of a process that is
bound to the cores of a name all to that name. DRM devices: engine times of the files that the
processes have open. CUDA devices: NVML, by process.

    idle       an interval between two looks with less than 5 % of work
    used       of cores: work of 0.25 s or of 1 % of the run, whichever is more, but of 20 % of the
               run at most (to start an interpreter is no use of a core); of other devices: any
    not used   where work would have shown, else unknown

What no look sees is in the CPU time that the kernel adds up of all that end. It, and that of
threads that may have moved between two looks, can be of any core, as far as the core was busy at
all: where it would be the use of a core, the core is not `not-used`. Nor is a GPU, where children
that no look saw took as much as to open one does.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap.launch import device_usage as usage
from gpumap.launch.device_usage import Devices, Sight
from gpumap.launch.timeline import phases
from gpumap.model import TimedRun, Use, Utilisation
from gpumap.model.programs import Unseen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from gpumap.model import Binding
    from gpumap.model.programs import UseVerdict

    Verdict = tuple[UseVerdict, Unseen | None]

INTERVAL = 1.0  # seconds between two looks
_FIRST = 0.1  # seconds to the first one; the next ones each double the time since the start
# Of a core, for looks, once a second and more often: where they take more, there are fewer.
_SHARE, _DENSE = 0.001, 0.01
_EARLY = 5  # looks, whose cost is of what the next ones have
_IDLE = 0.05
_WORK = 0.25, 0.01, 0.2  # seconds; shares of a run: at least, at most
_TICKED = 0.02  # seconds: so much may be missing of what the kernel counts in ticks
# Seconds of CPU time: to open a device takes a process more (0.047 s with PoCL), and what the
# kernel tells in ticks may be 0.02 s less.
_OPENED = 0.03


@dataclass(slots=True)
class _Sum:
    """What was seen of a name's device so far."""

    why: Unseen | None = None
    worked: float = 0.0  # seconds
    known: float = 0.0  # seconds for which its share is known
    doubt: float = 0.0  # seconds of a core: of threads that may have moved there in between
    until: float = 0.0  # when it last worked
    idle: float = 0.0

    def add(self, sight: Sight, began: float, ended: float) -> None:
        """Take what was seen from one moment to another, in seconds since the start."""
        self.why = sight.why or self.why
        if sight.share is not None:
            self.known += ended - began
            self.worked += sight.share * (ended - began)
            if sight.share >= _IDLE:
                self.idle = max(self.idle, began - self.until)
                self.until = ended


class Watch:
    """Looks at processes and at the devices of a map; `glance` does it when it is `due`."""

    def __init__(
        self,
        bindings: Sequence[Binding],
        interval: float = INTERVAL,
        *,
        root: str = "",
        clock: Callable[[], float] = time.monotonic,
        library: object = None,
    ) -> None:
        """Prepare to look.

        Args:
            bindings: the names and their devices.
            interval: seconds between two looks.
            root: a recorded tree, or "" for the running system.
            clock: replaces the time.
            library: replaces the module `pynvml`.
        """
        self._worked: list[tuple[float, float]] = []  # seconds; cores or devices at work in them
        self.looks, self.cpu = 0, 0.0
        # Of a thread: the cores that it may run on, beside the one that it last ran on.
        self.allowed: Callable[[int], Collection[int]] = (lambda _: ()) if root else _allowed
        self._root, self._clock, self._interval = root, clock, interval
        self._share = _SHARE if interval >= INTERVAL else _DENSE
        self._bindings = tuple(bindings)
        cpus = [b for b in self._bindings if b.device.kind.row.cores and b.device.cores]
        self._widths = {binding.name: len(binding.device.cores) for binding in cpus}
        self._names: dict[int, list[str]] = {}  # of the names that have a core
        for binding in cpus:
            for core in binding.device.cores:
                self._names.setdefault(core, []).append(binding.name)
        self._sums = {binding.name: _Sum() for binding in bindings}
        self._roots: dict[int, str | None] = {}
        self._before: dict[int, usage.ProcessSnapshot] = {}
        # Seconds of CPU time: of a known core; of what the roots start; of it, seen while it ran.
        self._placed = self._below = self._alive = 0.0
        self._late = True  # whether most of a process came after the last look
        self._devices = Devices((binding.device for binding in bindings), root, library)
        self.begin()

    def begin(self) -> None:
        """Begin now."""
        self._processors = self._after = usage.processors(self._root)
        self._began = self._last = self._clock()
        self._until: float | None = None  # the end of what ended last
        self.due = self._began + _FIRST

    def add(self, pid: int, name: str | None) -> None:
        """Look at a process and all that it starts; `name` has the cores that it is bound to."""
        self._roots[pid] = name if name in self._widths else None  # a GPU has cores near it

    @property
    def elapsed(self) -> float:
        """Return the seconds from the start to now, or to `end`."""
        return (self._clock() if self._until is None else self._until) - self._began

    def glance(self) -> None:
        """Look if it is due."""
        if self._clock() >= self.due:
            self.look()

    def look(self) -> None:
        """Look once, and say when it is due again."""
        spent, now = time.thread_time(), self._clock()
        began, ended = self._last - self._began, now - self._began
        passed = max(ended - began, 1e-6)
        processes = self._walk()
        sights = self._devices.look(processes, passed)
        seen = self._cores(processes, passed)
        seen |= {b.name: sights[b.device.id] for b in self._bindings if b.device.id in sights}
        for name, sight in seen.items():
            self._sums[name].add(sight, began, ended)
        working = [(s.share or 0.0) * self._widths.get(n, 1) for n, s in seen.items()]
        self._worked.append((ended - began, sum(working)))
        self._before, self._last = processes, now
        self.looks += 1
        self.due = now + min(self._interval, max(ended, _FIRST))
        if self.looks > _EARLY:
            self.due = max(self.due, now + (time.thread_time() - spent) / self._share)

    def last(self, pid: int) -> None:
        """Look at a process that has ended while the kernel shows it: until it is waited for."""
        if pid in self._roots:
            self._stop()
            self._late = pid not in self._before or self._last - self._began < self.elapsed / 2
            self.look()

    def reaped(self, pid: int, seconds: float) -> None:
        """Take the CPU time of a process that has ended, and of what it has waited for."""
        self.cpu += seconds
        last = self._before.get(pid) if pid in self._roots else None
        self._below += seconds if last is None or self._late else last.waited
        if name := self._roots.get(pid):  # all its work was on the cores of this name
            found = self._sums[name]
            found.worked = max(found.worked, seconds / self._widths[name])
            found.known = self.elapsed

    def _stop(self) -> None:
        """Take the cores' time at the moment that is the program's end."""
        self._until, self._after = self._clock(), usage.processors(self._root)

    def end(self) -> None:
        """Look no more."""
        if self._until is None:  # nothing that was started has ended
            self._stop()
        self._devices.close()

    def uses(self) -> tuple[Use, ...]:
        """Return what was done with each name's device."""
        return tuple(map(self._use, self._bindings))

    def found(self, command: Sequence[str], code: int | None) -> Utilisation:
        """Return all that was seen of a program."""
        elapsed, cpu = round(self.elapsed, 3), round(self.cpu, 3)
        return Utilisation(tuple(command), code, elapsed, self.looks, cpu, self.uses())

    def timed(self, turn: int) -> TimedRun:
        """Return the whole of it: of cores what they worked is the CPU time of the program."""
        shares = [use.busy for use in self.uses() if use.busy is not None]
        worked = sum(shares) * self.elapsed if len(shares) == len(self._bindings) else None
        others = None
        if len(self._widths) == len(self._bindings):  # all are cores
            worked = self.cpu
            others = max(self._busy(self._names) - worked, 0.0)  # looks are, too: 1 % at most
        start, serial, uneven, idle = (round(seconds, 3) for seconds in phases(self._worked))
        each = ((found.worked * self._widths.get(n, 1)) for n, found in self._sums.items())
        names, lost = tuple(round(seconds, 3) for seconds in each), (start, serial, uneven, idle)
        return TimedRun(turn, self.elapsed, worked, *lost, names, self.looks, others)

    # --- processes

    def _walk(self) -> dict[int, usage.ProcessSnapshot]:
        """Return the processes that live, below those that were added and below this one."""
        own = usage.process(self._root, os.getpid())
        waiting = [*self._roots, *(own.children if own else ())]
        found: dict[int, usage.ProcessSnapshot] = {}
        while waiting:
            pid = waiting.pop()
            if pid in found:
                continue
            if (seen := usage.process(self._root, pid)) is not None:
                found[pid] = seen
                waiting += seen.children
        return found

    def _cores(
        self, processes: Mapping[int, usage.ProcessSnapshot], passed: float
    ) -> dict[str, Sight]:
        """Return what each name of cores got of their time."""
        worked = dict.fromkeys(self._widths, 0.0)
        for pid, seen in processes.items():
            before, spent = self._before.get(pid), 0.0
            last = before.threads if before and before.start == seen.start else {}
            for thread, (now, processor) in seen.threads.items():
                more = max(0.0, now - (last[thread].seconds if thread in last else 0.0))
                spent += more
                here = self._names.get(processor, ())
                for name in here:
                    worked[name] += more
                for name in self._reached(thread).difference(here) if more else ():
                    self._sums[name].doubt += more
            self._placed += spent
            self._alive += spent if pid not in self._roots and not seen.ended else 0.0
        shares = {name: each / passed / self._widths[name] for name, each in worked.items()}
        for name, share in shares.items():  # a child's first time is of more than one interval
            self._sums[name].worked += max(share - 1.0, 0.0) * passed
        return {name: Sight(min(share, 1.0)) for name, share in shares.items()}

    def _reached(self, thread: int) -> set[str]:
        """Return the names where a thread may have been since the last look."""
        return {name for core in self.allowed(thread) for name in self._names.get(core, ())}

    # --- the end

    def _use(self, binding: Binding) -> Use:
        found, device = self._sums[binding.name], binding.device
        elapsed = max(self.elapsed, 1e-6)
        verdict, why = self._verdict(binding, found, elapsed)
        share = round(min(found.worked / elapsed, 1.0), 4) if found.known else None
        idle = round(max(found.idle, elapsed - found.until), 3) if found.known else None
        return Use(binding.name, device.id, verdict, why, share, idle)

    def _verdict(self, binding: Binding, found: _Sum, elapsed: float) -> Verdict:
        if binding.name in self._widths:
            return self._verdict_on_cores(binding, found, elapsed)
        if found.worked > 0.0:
            return "used", None
        if found.why is not None:
            return "unknown", found.why
        if round(self._below - self._alive, 6) >= _OPENED:  # a process that no look saw may have
            return "unknown", "short-lived"
        return ("not-used", None) if found.known else ("unknown", "short-lived")

    def _verdict_on_cores(self, binding: Binding, found: _Sum, elapsed: float) -> Verdict:
        seconds, share, most = _WORK
        least = max(min(max(seconds, share * elapsed), most * elapsed), _TICKED)
        worked = found.worked * self._widths[binding.name]
        if worked >= least:
            return "used", None
        bound = self._roots and all(self._roots.values())  # all is of a known core
        unseen = 0.0 if bound else max(0.0, self.cpu - self._placed)
        perhaps = worked + found.doubt + unseen
        if self._counted(binding.device.cores):  # it did no more than the cores did at all
            perhaps = min(perhaps, self._busy(binding.device.cores))
        return ("unknown", "short-lived") if perhaps >= least else ("not-used", None)

    def _counted(self, cores: Iterable[int]) -> bool:
        """Return whether the kernel tells how busy cores are; some containers show zeros."""
        known = set(cores) <= set(self._processors) & set(self._after)
        return known and self._busy(self._after) >= self.cpu / 2

    def _busy(self, cores: Collection[int]) -> float:
        """Return the seconds in which cores worked, for whomever."""
        before, after = self._processors, self._after
        ticks = sum(after.get(core, 0) - before.get(core, 0) for core in cores)
        return min(ticks / usage.TICKS, self.elapsed * len(cores))


def _allowed(thread: int) -> Collection[int]:
    with suppress(OSError):  # it has ended
        return os.sched_getaffinity(thread)
    return ()


def units_of(bindings: Collection[Binding]) -> int:
    """Return how many cores names have; if one is no core, how many devices they are."""
    cores = [b.device.cores if b.device.kind.row.cores else () for b in bindings]
    return len({core for each in cores for core in each}) if all(cores) else len(bindings)

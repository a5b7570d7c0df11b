"""Read settings, files, drivers and the machine, which decide placement. Nothing read is run.

Drivers may crash or hang: they are queried in subprocesses, concurrently, each with a time limit.

The child process for NVIDIA's driver and NVML is ``python -m gpumap.doctor.gather nvidia FD``.

The probes run in one too, name by name: a hang or crash costs no other name. That one is
``python -m gpumap.doctor.gather probes FD``; it reads the names and their devices from stdin, and
writes a line for each name that it begins, each that it ends, and one for all at once.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap import sources
from gpumap.backends import DEFAULTS, load
from gpumap.backends.base import Host
from gpumap.backends.probe import answer, in_child
from gpumap.config import default_device, refused_device, renamed
from gpumap.doctor.evidence import Evidence, Gain, Gpu, MapName, Measured, Nvidia, Setting
from gpumap.errors import AbsentError, Diagnostic, MapError, QuestionError, SourceError
from gpumap.kinds import KINDS, Kind
from gpumap.machine.nvml import NvmlUnavailable
from gpumap.machine.state import link_states, others
from gpumap.machine.topology import Tree, read
from gpumap.model import Binding, ContextMap, Device, Reason, replace
from gpumap.model.io import plain, typed
from gpumap.parse import parse_map
from gpumap.resolve import claimed, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gpumap.backends.base import Session
    from gpumap.inventory import Inventory
    from gpumap.machine.nvml import NvmlGpu
    from gpumap.model import Entry, MapText

VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "THEANO_GPU_IS_ALREADY_ACTIVE",
    *(name for row in KINDS.values() for name in row.hides if "identity" not in row.forms),
)
_PATIENCE, _SHARE = 8.0, 2 / 7  # seconds for a driver at least, and of the whole examination
BUSY = 0.5  # cores that others may use before their load is read again
_SHOWN = 80
_FILES = ("dev/nvidiactl", "dev/nvidia-uvm", "dev/kfd")
_NUMBERED = ("nvidia", "renderD")  # dev/nvidia0, dev/dri/renderD128
BUDGET = 6.0  # seconds for the probes of all names, and as much again for what they take to start
_LEAST = 0.25  # seconds of a name, however many there are
_CONCURRENT = 0.3  # of the budget, where there are several names
# Seconds beyond its probes, after which a name without an answer hangs: a sound driver opens a
# device and compiles its kernels in one or two of them. Less is inconclusive.
START = 4.0
NO_TIME = Reason("no-time", "no time was left for its probes")


def query_nvidia(env: Mapping[str, str], time_limit: float) -> Nvidia:
    """Return the answers of the driver, or why there are none."""
    child = in_child("gpumap.doctor.gather", ("nvidia",), env, time_limit)
    if child.code is None:
        return Nvidia(silent=f"it did not answer within {time_limit:g} s", hangs=True)
    try:
        return typed(json.loads(child.answer), Nvidia)
    except ValueError:
        return Nvidia(silent=f"it ended the process that asked (exit {child.code})")


def _answer() -> Nvidia:
    """Query driver and NVML in this process."""
    from gpumap.machine.cuda import driver
    from gpumap.machine.nvml import gpus

    try:
        return Nvidia(driver(), tuple(_gpus(gpus())))
    except NvmlUnavailable as error:
        return Nvidia(driver(), nvml=error.reason, code=error.status, forbidden=error.forbidden)


def _gpus(known: tuple[NvmlGpu, ...]) -> list[Gpu]:
    """Return each GPU with the processes on it."""
    from gpumap.machine.nvml import Gpus
    from gpumap.machine.state import name_of
    from gpumap.model import DeviceRef

    refs = [DeviceRef(Kind.CUDA, gpu.index) for gpu in known]
    devices = [
        Device(str(ref), ref.kind, ref, "", "nvml", gpu.pci, gpu.uuid)
        for gpu, ref in zip(known, refs, strict=True)
    ]
    with Gpus(devices) as opened:
        uses = list(opened.uses())
    return [
        Gpu(
            gpu.index,
            gpu.pci,
            gpu.uuid,
            tuple(part.uuid for part in gpu.instances if part.uuid),
            gpu.mig,
            use.busy,
            tuple(f"pid {one.pid} {name_of(one.pid)}".strip() for one in use.processes or ()),
        )
        for gpu, use in zip(known, uses, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a program's settings are: its environment and folder."""

    env: Mapping[str, str]
    cwd: str


def patience(seconds: float) -> float:
    """Return how many of the examination's seconds a driver may take to list its devices.

    The probes need the rest.
    """
    return max(_PATIENCE, seconds * _SHARE)


def configuration(place: Place, source: MapText | None, inventory: Inventory) -> Evidence:
    """Return the evidence of settings and the machine's files, before drivers are queried."""
    theano, unreadable = _theano(place)
    return Evidence(
        topology=inventory.host.topology,
        source=source,
        variables={name: place.env[name] for name in VARIABLES if name in place.env},
        theano=theano,
        unreadable=unreadable,
    )


def theano_map(place: Place) -> ContextMap | None:
    """Return the map of the device that Theano's `device` sends all work to; None for none.

    Raises:
        MapError: it is no device.
    """
    theano, _ = _theano(place)
    options = {k: (s.value, s.origin) for k, s in theano.items()}
    refused = refused_device(options)
    device = default_device(options) or renamed(refused or "") or refused
    if device is None:
        return None
    if ";" in device or "->" in device or not device.startswith(("cuda", "opencl")):
        message = f"device={device[:_SHOWN]} is no device"
        raise MapError((Diagnostic("unknown-device", message, hint="write device=cuda0"),))
    return parse_map(f"dev0->{device}")


def surroundings(
    known: Evidence, context_map: ContextMap, inventory: Inventory, root: Path
) -> Evidence:
    """Return the evidence with the answers of drivers, libraries and the system."""
    fake = inventory.requested == "fake"
    busy = None if fake else others()
    if busy is not None and busy.cores >= BUSY:  # a high load is read twice
        busy = min(busy, others(), key=lambda each: each.cores)
    with ThreadPoolExecutor(1) as pool:  # the driver and the backends concurrently
        host = inventory.host
        pending = None if fake else pool.submit(query_nvidia, host.env, host.patience)
        probe_backends(inventory)
        nvidia = pending.result() if pending else Nvidia()
    names = map_names(context_map, inventory)
    devices = [named.device for named in names if named.device is not None]
    return replace(
        known,
        probes=inventory.probes,
        nvidia=nvidia,
        denied=() if fake else denied(Tree(root)),
        others=busy,
        links=link_states(devices, root),
        names=names,
    )


def bindings(known: Evidence) -> tuple[Binding, ...]:
    """Return the names that have a device."""
    return tuple(Binding(one.name, one.device) for one in known.names if one.device is not None)


def denied(tree: Tree) -> tuple[str, ...]:
    """Return the existing device files that this process may not open."""
    numbered = [f"dev/{name}" for name in tree.names("dev") if name[6:].isdecimal()]
    numbered += [f"dev/dri/{name}" for name in tree.names("dev/dri") if name[7:].isdecimal()]
    files = (*_FILES, *(path for path in numbered if path.rpartition("/")[2].startswith(_NUMBERED)))
    paths = (tree.root / path for path in files)
    return tuple(str(p) for p in paths if p.exists() and not os.access(p, os.R_OK | os.W_OK))


def _theano(place: Place) -> tuple[dict[str, Setting], Diagnostic | None]:
    try:
        options = sources.theano_options(env=place.env, cwd=place.cwd)
    except SourceError as error:
        return {}, error.diagnostics[0]
    return {key: Setting(*setting) for key, setting in options.items()}, None


def probe_backends(inventory: Inventory) -> None:
    """Probe every default backend, or the requested one, concurrently."""
    every = sorted({name for names in DEFAULTS.values() for name in names})
    inventory.ask(every if inventory.requested is None else [inventory.requested])


def map_names(context_map: ContextMap, inventory: Inventory) -> tuple[MapName, ...]:
    """Return each name with its device or the reason for none; offer no free device twice."""
    entries = list(enumerate(context_map.entries, 1))
    every = [_map_name(entry, number, inventory, set()) for number, entry in entries]
    taken = {element for one in every if one.device for element in claimed(one.device)}
    return tuple(
        one if one.device else _map_name(entry, number, inventory, taken)
        for one, (number, entry) in zip(every, entries, strict=True)
    )


def _map_name(entry: Entry, number: int, inventory: Inventory, taken: set[str]) -> MapName:
    ref = entry.ref
    named = MapName(entry.name, str(ref), ref.kind, ref.index)
    try:
        resolved = resolve(ContextMap((entry,), str(entry)), inventory, taken)
    except (AbsentError, QuestionError) as error:
        return replace(named, absent=replace(error.diagnostics[0], entry=number))
    return replace(named, device=resolved.bindings[0].device)


class ProbeRun:
    """Probe the names in sequence; each result is in `results` as soon as it is known.

    Args:
        bindings: names and devices.
        env: the environment of the program.
        end: the moment (`time.monotonic`) at which to be done.
        calls: whether calls of Theano's users are measured on what works in host memory too.
    """

    def __init__(
        self, bindings: Sequence[Binding], env: Mapping[str, str], end: float, *, calls: bool
    ) -> None:
        self.results: dict[str, Measured] = {}
        self.gain: Gain | None = None
        self._bindings, self._env, self._end, self._calls = bindings, env, end, calls

    def run(self) -> None:
        """Probe every name that there is time for."""
        while (remaining := self._remaining()) and (seconds := self._end - time.monotonic()) > 0.0:
            self._run_child(remaining, seconds)

    def all(self, missing: Reason = NO_TIME) -> dict[str, Measured]:
        """Return the results of each name; those that were not probed have a reason."""
        return self.results | {b.name: Measured(failure=missing) for b in self._remaining()}

    def _remaining(self) -> list[Binding]:
        return [binding for binding in self._bindings if binding.name not in self.results]

    def _run_child(self, remaining: Sequence[Binding], seconds: float) -> None:
        """Run one subprocess: at least one name has a result then, or hangs."""
        budget = min(BUDGET, seconds / 2)  # what there is more is for starts
        concurrent = budget * _CONCURRENT
        own = budget - concurrent * _several(remaining)
        share = max(own / len(remaining), _LEAST)
        watch = _Watch(remaining, self.results, share + START, self._end)
        names = [{"name": b.name, "device": plain(b.device)} for b in remaining]
        job = json.dumps(
            {"names": names, "share": share, "together": concurrent, "calls": self._calls}
        )
        child = in_child("gpumap.doctor.gather", ("probes",), self._env, seconds, job, watch.over)
        watch.over(child.answer, 0.0)
        self.gain = watch.gain
        if watch.doing is None:
            return
        failure = watch.late() if child.code is None else _ended(child.code, child.errors)
        self.results[watch.doing.name] = Measured(failure=failure)
        if failure.code == "hangs":  # the device is not tried again by another name
            hung = watch.doing
            why = replace(failure, text=f"it is the device of {hung.name}: {failure.text}")
            same = (b for b in self._remaining() if b.device.id == hung.device.id)
            self.results |= {b.name: Measured(failure=why) for b in same}


class _Watch:
    """Follows the output of a subprocess: its current name, and since when.

    Args:
        bindings: the names that the child was given.
        found: receives the results.
        fair: seconds of a name that tell that it hangs, in which it had a core if it wanted one.
        end: the moment at which to be done.
    """

    def __init__(
        self, bindings: Sequence[Binding], results: dict[str, Measured], fair: float, end: float
    ) -> None:
        self.gain: Gain | None = None
        # what starts the child is a part of its first name
        self.doing: Binding | None = bindings[0]
        self._names = {binding.name: binding for binding in bindings}
        self._results, self._fair, self._end = results, fair, end
        self._length, self._starved, self._since = 0, 0.0, time.monotonic()

    def over(self, text: str, starved: float) -> bool:
        """Return whether the name has used its time: the others need the rest.

        `starved` are the seconds in which the child has waited for a core.
        """
        self._starved = max(self._starved, starved)
        if len(text) != self._length:
            self._length = len(text)
            self._read(text)
        now = time.monotonic()
        if self.doing is None:
            return now >= self._end
        waiting = (b for name, b in self._names.items() if name not in self._results)
        others = {binding.device.id for binding in waiting} - {self.doing.device.id}
        reserved = self._fair * len(others)
        return now >= self._end or (self._passed() >= self._fair and now >= self._end - reserved)

    def late(self) -> Reason:
        """Return why the interrupted name has no result."""
        if (passed := self._passed()) < self._fair:
            return Reason("no-time", f"its time was over after {passed:.1f} s, before its end")
        return Reason("hangs", f"no answer within {passed:.0f} s")

    def _read(self, text: str) -> None:
        doing, rows, self.gain = _read(text)
        self._results |= rows
        now = self._names[doing] if doing is not None else None
        if now is not None or rows:
            self.doing, self._since = now, time.monotonic() - self._starved

    def _passed(self) -> float:
        """Return the seconds of the name, without those in which the child waited for a core."""
        return time.monotonic() - self._starved - self._since


def _several(bindings: Sequence[Binding]) -> bool:
    return len({binding.device.id for binding in bindings}) > 1


def _ended(code: int, errors: str) -> Reason:
    """Return why a child ended in the middle of a name."""
    if code < 0:
        return Reason("crashes", f"the process that used it ended with signal {-code}")
    last = errors.strip().rpartition("\n")[2]
    return Reason("probe-failed", last or f"the process that used it ended with {code}")


def _read(text: str) -> tuple[str | None, dict[str, Measured], Gain | None]:
    """Return the unfinished name, the results, and the gain of all names."""
    doing, rows, gain = None, {}, None
    for line in text.splitlines():
        with suppress(ValueError):  # the last one may be incomplete
            tree = json.loads(line)
            if "begin" in tree:
                doing = tree["begin"]
            elif "together" in tree:
                gain = typed(tree["together"], Gain)
            else:
                rows[tree["name"]], doing = typed(tree["found"], Measured), None
    return doing, rows, gain


def _probed(env: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the lines for names, and for all at once, in the seconds that the job has for each."""
    import numpy as np  # noqa: F401 - before any thread is pinned: OpenBLAS sizes itself now

    from gpumap.doctor.probes import Probes, concurrent_gain
    from gpumap.machine.blas import Cores

    job = json.load(sys.stdin)
    share, concurrent = job["share"], job["together"]
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
        measured = probes.run(calls=job["calls"] or not binding.device.in_host_memory)
        if measured.failure is None:
            opened[binding.name] = probes.session
        yield {"name": binding.name, "found": measured}
    usable = [binding for binding in bindings if binding.name in opened]
    if _several(bindings) and len(backends) == 1 and len(usable) == len(bindings):
        gain = concurrent_gain(usable, opened, backends.popitem()[1].clock(), concurrent)
        if gain is not None and math.isfinite(gain.speedup.value):
            yield {"together": gain}


if __name__ == "__main__":
    probing = sys.argv[1] == "probes"
    answer(int(sys.argv[2]), _probed(dict(os.environ)) if probing else [_answer()])

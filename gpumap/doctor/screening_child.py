"""Use devices: bytes and arithmetic, each against its siblings for `preflight`; costs for `doctor`.

It is a child process that can be ended: ``python -m gpumap.doctor.screening_child FD`` reads its
job from stdin, and writes a line before each step and one for each result that comes of it. What
the job names as done is not tried again.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from contextlib import suppress
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, Any

from gpumap.backends import load
from gpumap.backends.base import Host
from gpumap.backends.probe import answering
from gpumap.bench.exchanges import ITEM, Exchanging, Job, LocalRanks
from gpumap.bench.verified_copies import HostCopy, PairCopy
from gpumap.doctor.at_once import at_once
from gpumap.doctor.costs import costs, setup
from gpumap.doctor.screening import BASIC, StepResult, Tier
from gpumap.doctor.used_device import COPY, SIZE, UsedDevice, copied, in_turns
from gpumap.errors import GpumapError, Unsupported
from gpumap.judge.fitness import TOLERANCE, TOLERANCE_OF_CORES, compared
from gpumap.machine.state import Neighbours
from gpumap.machine.topology import read
from gpumap.model import Binding, Device, Estimate
from gpumap.model.io import typed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpumap.backends.base import Backend, Clock
    from gpumap.bench.verified_copies import Buffers
    from gpumap.doctor.screening import Key
    from gpumap.doctor.used_device import Found
    from gpumap.engine.base import Iteration
    from gpumap.engine.sampling import Series

    Work = Callable[[UsedDevice], Iteration]
    Say = Callable[[Mapping[str, Any]], object]

_ANEW = ("open", "product")  # what another process needs to go on
_LARGE = 64 << 20  # bytes
_SCRIPTED, _LONGER = 64, 2048  # sizes of products: with data; longer than a launch on any GPU
_BLOCKS, _WARM = 30, 3  # samples of each device, and those before them that do not count
_COMPARING = 0.12  # of the job's time, for each comparison of siblings
_AT_ONCE, _AT_ONCE_BRIEFLY = 10.0, 2.0  # seconds
_CONTENTION = 0.2  # cores that others use, from which on a slow core is no finding
_TURN = 1.0  # seconds of a soak on one device, before the next one's turn
_TURNS = 4  # that each device has at least
_RATES: Mapping[str, Work] = {  # from 60 s on: memory and links against siblings
    "upload-rate": lambda used: HostCopy([used.room(_LARGE)], "h2d", sync=True),
    "download-rate": lambda used: HostCopy([used.room(_LARGE)], "d2h", sync=True),
    "memory-rate": lambda used: _within(used.room(_LARGE)),
}


class Screening:
    """The steps of a job on opened devices; what was lost, or is done, is not touched.

    `say` takes a line before each step, and one for each result that comes of it.
    """

    def __init__(self, job: Mapping[str, Any], env: Mapping[str, str], say: Say) -> None:
        self._host, self._say = Host(env, read()), say
        self._tier: Tier = job["tier"]
        self._seconds: float = job["seconds"]
        self._end: float = job["end"]
        self._done: set[Key] = {tuple(key) for key in job["done"]}
        self._bindings = [
            Binding(each["name"], typed(each["device"], Device)) for each in job["names"]
        ]
        self._libraries: dict[str, tuple[Backend, Clock]] = {}
        self._every: dict[str, UsedDevice] = {}  # by name
        self._doing: Key = ("open", None, None)

    def run(self) -> None:
        """Take the steps of the tier."""
        for binding in self._bindings:
            self._step(("open", binding.name, None), partial(self._open, binding))
            if binding.name in self._every:
                self._examine(self._every[binding.name])
        if self._tier == "doctor":
            self._together(_AT_ONCE_BRIEFLY)
            return
        for one, other in permutations(self._well(), 2):
            self._step(("pair", one.name, other.name), partial(_pair, one, other))
        self._siblings("siblings", UsedDevice.work)
        if self._tier != "quick":
            for what, work in _RATES.items():
                self._siblings(what, work)
            self._together(_AT_ONCE)
        if self._tier == "soak":
            self._soak()

    def _examine(self, used: UsedDevice) -> None:
        """Use a device alone, until a step of it fails."""
        steps: dict[str, Callable[[], Found]] = {
            "upload": partial(used.moved, "h2d"),
            "download": partial(used.moved, "d2h"),
            "product": partial(used.multiplied, self._size(used)),
        }
        if self._tier == "doctor":
            steps["costs"] = partial(costs, used)
        for what, action in steps.items():
            if used.well:
                self._step((what, used.name, None), action)

    def _size(self, used: UsedDevice) -> int:
        """Return the size of a device's product."""
        if used.scripted and self._tier != "doctor":
            return _SCRIPTED
        return SIZE if used.device.in_host_memory or self._tier == "doctor" else _LONGER

    def _well(self) -> list[UsedDevice]:
        """Return the devices on which no step has failed so far."""
        return [used for used in self._every.values() if used.well]

    def _step(self, key: Key, action: Callable[[], Found]) -> None:
        """Do a step unless it is done, and say so before; an error is its result."""
        if key in self._done and key[0] not in _ANEW:
            return
        self._begin(key)
        try:
            self._report(key, action())
        except GpumapError as error:
            self._failed(error)

    def _begin(self, key: Key) -> None:
        self._doing = key
        self._say({"begin": key})

    def _failed(self, error: GpumapError) -> None:
        self._report(self._doing, (error.diagnostics[0].code, str(error), {}))

    def _report(self, key: Key, found: Found) -> None:
        """Say what came of a step; a device that failed one of its own takes no other."""
        what, name, _ = key
        used = self._every.get(name or "")
        if used is not None and found[0] is not None and what in (*BASIC, "soak"):
            used.well = False
        self._say({"result": StepResult(*key, *found)})

    def _open(self, binding: Binding) -> Found:
        library = binding.device.backend
        if library not in self._libraries:
            backend = load(library, self._host)
            self._libraries[library] = backend, backend.clock()
        backend, clock = self._libraries[library]
        start = clock.now()
        session = backend.open(binding.device, clock)
        used = UsedDevice(binding, len(self._every), session, clock)
        self._every[binding.name] = used
        figures = {"setup": setup(session, clock, start)} if self._tier == "doctor" else {}
        return None, f"{binding.device.name} is open", figures

    # --- each against its siblings

    def _siblings(self, what: str, work: Work) -> None:
        """Compare each device with the others of its model: is it as fast?"""
        models = defaultdict(list)
        for used in self._well():
            models[_model(used, what)].append(used)
        for every in models.values():
            left = any((what, used.name, None) not in self._done for used in every)
            if left and len(every) == 1:
                text = "the only device of its model here: nothing to compare with"
                self._report((what, every[0].name, None), (None, text, {}))
            elif left:
                self._compare(what, work, every)

    def _compare(self, what: str, work: Work, every: Sequence[UsedDevice]) -> None:
        """Take samples of each, in blocks with each once, and judge them."""

        def begin(name: str) -> None:
            self._begin((what, name, None))

        try:
            series: dict[str, Series] = {}
            for used in every:
                begin(used.name)
                series[used.name] = used.series(work(used))
            around, end = Neighbours(), time.monotonic() + _COMPARING * self._seconds
            times = in_turns(series, every[0].clock, _BLOCKS + _WARM, begin, end)
        except GpumapError as error:
            self._failed(error)
            return
        self._judge(what, every, times, around.read().foreign or 0.0)

    def _judge(
        self, what: str, every: Sequence[UsedDevice], times: Mapping[str, list[float]], load: float
    ) -> None:
        """Report how each device compares; `load`: cores that other programs used meanwhile."""
        on_host = any(used.device.in_host_memory for used in every)
        later = {name: seconds[_WARM:] for name, seconds in times.items()}
        shares = compared(later, TOLERANCE_OF_CORES if on_host else TOLERANCE)
        for used in every:
            others = load if used.device.in_host_memory else 0.0
            self._report((what, used.name, None), _share(*shares[used.name], others))

    # --- all at once; and a soak

    def _together(self, seconds: float) -> None:
        """Use all devices at once, if there are several and one library drives them."""
        every = self._well()
        if len(every) < 2 or len(self._libraries) > 1:  # noqa: PLR2004 - several
            return
        size = SIZE if all(used.device.in_host_memory for used in every) else _LONGER
        limit = min(seconds, self._seconds / 4)
        self._step(("all-at-once", None, None), partial(at_once, every, size, limit))
        if self._tier != "doctor":
            self._step(("allreduce", None, None), partial(_summed, every))

    def _soak(self) -> None:
        """Multiply until the end of the job; every bit of every launch must be as the first one."""
        turn = min(_TURN, self._seconds / _TURNS / max(len(self._well()), 1))
        while self._well() and time.monotonic() < self._end:
            for used in self._well():
                self._begin(("soak", used.name, None))
                text = used.soaked(min(time.monotonic() + turn, self._end))
                if text is not None:
                    self._report(self._doing, ("wrong-data", text, {}))
        for used in self._well():
            if used.launches > 1:
                text = f"{used.launches} launches, every bit as in the first, which is verified"
                self._report(("soak", used.name, None), (None, text, {}))


def _within(space: Buffers) -> Iteration:
    return PairCopy(space, space, sync=True)


def _pair(source: UsedDevice, target: UsedDevice) -> Found:
    work = PairCopy(source.space, target.space, sync=True)
    code, text, figures = copied(work, source)
    if code == "wrong-data" and work.route == "peer":
        text += "; right by way of the host: peer copies are broken"
    return code, text, figures


def _model(used: UsedDevice, what: str) -> tuple[object, ...]:
    """Return what devices have in common that should be as fast; a link has a node, too."""
    device = used.device
    near = device.numa_node if what in ("upload-rate", "download-rate") else None
    return device.backend, device.kind, device.name, device.memory_total, device.units, near


def _share(share: Estimate | None, slow: bool, others: float) -> Found:  # noqa: FBT001 - a verdict
    """Return what a share of the siblings' rate says; `others`: its cores that programs use."""
    if share is None:
        return "cannot-tell", "too little time for a comparison", {}
    text = f"{share.value:.2f} of its siblings' rate (CI {share.low:.2f} to {share.high:.2f})"
    code = "slow" if slow else None
    if slow and others > _CONTENTION:
        code, text = "cannot-tell", f"{text}, while other programs use {others:.1f} cores"
    return code, text, {"share": share}


def _summed(every: Sequence[UsedDevice]) -> Found:
    """Sum an array over all devices, by NCCL where CuPy has it; every element is compared."""
    sessions = [used.session for used in every]
    library = None
    algorithm = "ring" if all("kernels" in session.features for session in sessions) else "host"
    if sessions[0].device.backend == "cupy":
        from gpumap.backends.cupy import nccl

        with suppress(Unsupported):  # it is not installed
            library, algorithm = nccl(sessions), "native"
    work = Exchanging(LocalRanks(sessions, library), Job(algorithm, COPY // ITEM))
    code, text, figures = copied(work, every[0])
    return code, text if code else f"{algorithm}: the sum is right on each device", figures


if __name__ == "__main__":
    with answering(int(sys.argv[-1])) as say:
        Screening(json.load(sys.stdin), dict(os.environ), say).run()
        say({"end": True})

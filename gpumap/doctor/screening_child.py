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
from functools import partial
from itertools import permutations
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpumap.backends import load
from gpumap.backends.base import Host
from gpumap.backends.probe import answer
from gpumap.bench.verified_copies import Buffers, BufferSlice, HostCopy, PairCopy
from gpumap.doctor.at_once import SIZE, at_once, fitting_size
from gpumap.doctor.costs import costs, done, setup, timed
from gpumap.doctor.health import HARMLESS
from gpumap.doctor.screening import Step, StepResult, Tier
from gpumap.engine.base import Iteration, wrong
from gpumap.engine.products import Pair, Product, multiplied
from gpumap.engine.sampling import Series, calibrate, sample
from gpumap.errors import GpumapError
from gpumap.judge.fitness import TOLERANCE, TOLERANCE_OF_CORES, alike, compared
from gpumap.machine.nvml import Gpus
from gpumap.machine.state import Neighbours
from gpumap.machine.topology import read
from gpumap.model import Binding, Device, Estimate
from gpumap.model.io import typed
from gpumap.units import memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpumap.backends.base import Backend, Clock, Session
    from gpumap.doctor.screening import Key

    Works = Mapping[str, Callable[[], Iteration]]  # by name
    Found = tuple[str | None, str, Mapping[str, Estimate]]  # a code, a text and figures
    Line = Mapping[str, Any]

_ANEW = ("open", "product")  # what another process needs to go on
_COPY, _LARGE = 4 << 20, 64 << 20  # bytes
_LIGHTER = 1 << 6  # times: a scripted device takes no time for real bytes
_SCRIPTED, _MOST = 64, 2048  # sizes of products
_DTYPE: Final = "float32"
_SAMPLE = 5e-3  # seconds of a sample
_BLOCKS, _WARM = 30, 3  # samples of each device, and those before them that do not count
_COMPARING = 0.12  # of the job's time, for each comparison of siblings
_AT_ONCE, _AT_ONCE_BRIEFLY = 10.0, 2.0  # seconds
_CONTENTION = 0.2  # cores that others use, from which on a slow core is no finding
_TURN = 1.0  # seconds of a soak on one device, before the next one's turn
_TURNS = 4  # that each device has at least


class Screening:
    """The steps of a job on opened devices; what was lost, or is done, is not touched."""

    def __init__(self, job: Mapping[str, Any], env: Mapping[str, str]) -> None:
        self._host = Host(env, read())
        self._tier: Tier = job["tier"]
        self._seconds: float = job["seconds"]
        self._end: float = job["end"]
        self._done: set[Key] = {tuple(key) for key in job["done"]}
        self._bindings = [
            Binding(each["name"], typed(each["device"], Device)) for each in job["names"]
        ]
        self._backends: dict[str, Backend] = {}
        self._clocks: dict[str, Clock] = {}
        self._sessions: dict[str, Session] = {}
        self._buffers: dict[str, Buffers] = {}
        self._pilots: dict[str, float] = {}
        self._unpaired: set[str] = set()
        self._products: dict[str, Product] = {}

    def lines(self) -> Iterator[Line]:
        """Yield a line before each step, and the results that come of it."""
        if self._tier == "doctor":
            yield from self._examination()
            return
        for binding in self._bindings:
            yield from self._step("open", binding.name, None, partial(self._open, binding))
        yield from self._bytes()
        yield from self._arithmetic()
        if self._tier != "quick":
            yield from self._longer()
        if self._tier == "soak":
            yield from self._soak()

    def _step(
        self, what: Step, name: str | None, other: str | None, action: Callable[[], Found]
    ) -> Iterator[Line]:
        """Do a step unless it is done, and say so before; an error is its result."""
        key = (what, name, other)
        if key in self._done and what not in _ANEW:
            return
        yield {"begin": key}
        try:
            code, text, figures = action()
        except GpumapError as error:
            code, text, figures = _failed(error)
        if what in ("upload", "download") and code is not None and name is not None:
            self._unpaired.add(name)  # what a pair moves is compared by way of these
        yield _result(key, code, text, figures)

    def _open(self, binding: Binding) -> Found:
        library = binding.device.backend
        if library not in self._backends:
            self._backends[library] = load(library, self._host)
            self._clocks[library] = self._backends[library].clock()
        clock = self._clocks[library]
        start = clock.now()
        session = self._backends[library].open(binding.device, clock)
        self._sessions[binding.name] = session
        figures: dict[str, Estimate] = {}
        if self._tier == "doctor":
            figures["setup"] = setup(session, clock, start)
        else:
            self._pilots[binding.name] = self._pilot(binding)
        return None, f"{binding.device.name} is open", figures

    def _clock(self, name: str) -> Clock:
        return self._clocks[self._device(name).backend]

    def _device(self, name: str) -> Device:
        return next(binding.device for binding in self._bindings if binding.name == name)

    # --- bytes

    def _bytes(self) -> Iterator[Line]:
        for name in self._sessions:
            yield from self._there_and_back(name)
        for pair in permutations([n for n in self._sessions if n not in self._unpaired], 2):
            yield from self._step("pair", *pair, partial(self._pair, *pair))

    def _there_and_back(self, name: str) -> Iterator[Line]:
        make = partial(self._host_copy, name)
        yield from self._step("upload", name, None, partial(make, "h2d"))
        yield from self._step("download", name, None, partial(make, "d2h"))

    def _host_copy(self, name: str, direction: str) -> Found:
        buffers = self._buffer(name)
        part = buffers.part(buffers.source.nbytes)
        return self._copied(HostCopy([part], direction, sync=True), name, part.source.nbytes)

    def _buffer(self, name: str) -> Buffers:
        if name not in self._buffers:
            session, number = self._sessions[name], [*self._sessions].index(name)
            nbytes = self._bytes_of(name, _COPY)
            self._buffers[name] = Buffers(name, session, nbytes, "pageable", (1, number))
        return self._buffers[name]

    def _pair(self, source: str, target: str) -> Found:
        nbytes = min(self._buffer(name).source.nbytes for name in (source, target))
        parts = [self._buffer(name).part(nbytes) for name in (source, target)]
        work = PairCopy(*parts, sync=True)
        code, text, figures = self._copied(work, source, nbytes)
        if code == "wrong-data" and work.route == "peer":
            text += "; right by way of the host: peer copies are broken"
        return code, text, figures

    def _bytes_of(self, name: str, nbytes: int) -> int:
        lighter = self._device(name).backend == "fake" and self._tier != "doctor"
        return nbytes // _LIGHTER if lighter else nbytes

    def _copied(self, work: Iteration, name: str, nbytes: int) -> Found:
        """Make a copy once on wrong bytes, compare each; then time some more."""
        if (text := _proved(work)) is not None:
            return "wrong-data", text, {}
        seconds = timed(partial(done, work), self._clock(name))
        text = f"every byte of {memory(nbytes)} is right" + (
            f" ({work.route})" if work.route else ""
        )
        return None, text, _rate(nbytes, seconds)

    # --- arithmetic

    def _arithmetic(self) -> Iterator[Line]:
        size = self._size()
        for number, name in enumerate(self._sessions):
            yield from self._step("product", name, None, partial(self._product, name, number, size))
        works = {
            name: partial(multiplied, [product], None, fetched=False)
            for name, product in self._products.items()
        }
        yield from self._siblings("siblings", works)

    def _size(self) -> int:
        """Return a size whose product takes long enough on the slowest device to be timed."""
        slowest = max(self._pilots.values(), default=0.0)
        return min(fitting_size(slowest), _MOST) if slowest else _SCRIPTED

    def _pilot(self, binding: Binding) -> float:
        """Return the seconds of a product; of a scripted device, whose clock is its own, none."""
        if binding.device.backend == "fake":
            return 0.0
        session, clock = self._sessions[binding.name], self._clock(binding.name)
        product = Product(binding.name, session, Pair((1, 0), SIZE, _DTYPE))
        return min(timed(partial(done, multiplied([product], None, fetched=False)), clock))

    def _product(self, name: str, number: int, size: int) -> Found:
        product = Product(name, self._sessions[name], Pair((1, number), size, _DTYPE))
        if (text := _proved(multiplied([product], None, fetched=False))) is not None:
            return "wrong-data", text, {}
        self._products[name] = product
        return None, f"{size} x {size} {_DTYPE} is right", {}

    def _siblings(self, what: Step, works: Works) -> Iterator[Line]:
        """Yield a result for each device: is it as fast as the others of its model?"""
        groups = alike({name: self._model(name, what) for name in works})
        for names in groups:
            if not all((what, name, None) in self._done for name in names):
                yield from self._group(what, {name: works[name] for name in names})
        for name in (name for name in works if not any(name in names for names in groups)):
            text = "the only device of its model here: there is none to compare it with"
            yield _result((what, name, None), None, text, {})

    def _group(self, what: Step, works: Works) -> Iterator[Line]:
        """Yield a result for each of some devices that are alike, and what holds one back."""
        name = ""
        try:
            series: dict[str, Series] = {}
            for name, make in works.items():
                yield {"begin": (what, name, None)}
                series[name] = self._calibrated(name, make())
            for line in self._compared(what, series):
                name = line["begin"][1] if "begin" in line else name
                yield line
        except GpumapError as error:
            yield _result((what, name, None), *_failed(error))

    def _compared(self, what: Step, series: Mapping[str, Series]) -> Iterator[Line]:
        around = Neighbours()
        devices = map(self._device, series)  # of a scripted one the system says nothing
        with Gpus(one for one in devices if one.backend != "fake") as gpus:
            times: dict[str, list[float]] = {name: [] for name in series}
            yield from self._blocks(what, series, times)
            held = gpus.throttled()
        others = around.read().foreign or 0.0
        own_memory = not any(self._device(name).in_host_memory for name in series)
        tolerance = TOLERANCE if own_memory else TOLERANCE_OF_CORES
        for name, found in compared(times, tolerance).items():
            yield _result((what, name, None), *self._judged(name, found, others))
        for name in series:
            why = ", ".join(held.get(self._device(name).id, ()))
            if why and why not in HARMLESS:
                yield _result(("throttle", name, None), "throttled", why, {})

    def _calibrated(self, name: str, work: Iteration) -> Series:
        """Return the samples of a device to be; of a scripted one each is an iteration."""
        series = Series(work, warmup=1)
        shortest = 0.0 if self._device(name).backend == "fake" else _SAMPLE
        calibrate(series, self._clock(name), shortest, computes=True)
        return series

    def _model(self, name: str, what: Step) -> tuple[object, ...]:
        """Return what devices have in common that should be as fast; a link has a node, too."""
        device = self._device(name)
        near = device.numa_node if what in ("upload-rate", "download-rate") else None
        return device.backend, device.kind, device.name, device.memory_total, device.units, near

    def _blocks(
        self, what: Step, series: Mapping[str, Series], times: dict[str, list[float]]
    ) -> Iterator[Line]:
        """Take the seconds of each, in blocks with each once, in alternating order."""
        order, end = list(series), time.monotonic() + _COMPARING * self._seconds
        for block in range(_BLOCKS + _WARM):
            for name in order:
                yield {"begin": (what, name, None)}
                seconds = _seconds(series[name], self._clock(name))
                if block >= _WARM:
                    times[name].append(seconds)
            order.reverse()
            if time.monotonic() > end:
                break

    def _judged(self, name: str, found: tuple[Estimate | None, bool], others: float) -> Found:
        """Return what a share of the siblings' rate says; `others`: cores that programs use."""
        share, slow = found
        if share is None:
            return "cannot-tell", "too little time for a comparison", {}
        figures = {"share": share}
        text = f"{share.value:.2f} of its siblings' rate (CI {share.low:.2f} to {share.high:.2f})"
        if not slow:
            return None, text, figures
        if self._device(name).in_host_memory and others > _CONTENTION:
            return "cannot-tell", f"{text}, while other programs use {others:.1f} cores", figures
        return "slow", text, figures

    # --- more time: memory and links against siblings, all at once; and a soak

    def _longer(self) -> Iterator[Line]:
        ways: dict[Step, Callable[[BufferSlice], Iteration]] = {
            "upload-rate": lambda part: HostCopy([part], "h2d", sync=True),
            "download-rate": lambda part: HostCopy([part], "d2h", sync=True),
            "memory-rate": lambda part: PairCopy(part, part, sync=True),
        }
        for what, way in ways.items():
            copies = {name: partial(self._large, name, way) for name in self._products}
            yield from self._siblings(what, copies)
        yield from self._together(_AT_ONCE)

    def _together(self, seconds: float) -> Iterator[Line]:
        """Use all devices at once, if there are several and one library drives them."""
        if len(self._products) > 1 and len(self._clocks) == 1:
            usable = [binding for binding in self._bindings if binding.name in self._products]
            (clock,) = self._clocks.values()
            time_limit = min(seconds, self._seconds / 4)
            action = partial(at_once, usable, self._sessions, clock, time_limit)
            yield from self._step("all-at-once", None, None, action)

    def _large(self, name: str, way: Callable[[BufferSlice], Iteration]) -> Iteration:
        nbytes = self._bytes_of(name, _LARGE)
        return way(Buffers(name, self._sessions[name], nbytes, "pageable", (2, 0)).part(nbytes))

    def _soak(self) -> Iterator[Line]:
        """Multiply until the end of the job; every bit of every launch must be as the first one."""
        right: dict[str, Any] = {}
        launches = dict.fromkeys(self._products, 0)
        turn = min(_TURN, self._seconds / _TURNS / max(len(launches), 1))
        while self._products and time.monotonic() < self._end:
            for name in [*self._products]:
                yield {"begin": ("soak", name, None)}
                text = self._turn(name, min(time.monotonic() + turn, self._end), launches, right)
                if text is not None:
                    yield _result(("soak", name, None), "wrong-data", text, {})
                    del self._products[name]
        for name in self._products:
            if launches[name] > 1:
                text = f"{launches[name]} launches, every bit as in the first, which is verified"
                yield _result(("soak", name, None), None, text, {})

    def _turn(
        self, name: str, end: float, launches: dict[str, int], right: dict[str, Any]
    ) -> str | None:
        """Multiply on a device until `end`; return what is wrong of a launch."""
        product = self._products[name]
        while time.monotonic() < end:
            launches[name] += 1
            bits = _launched(product)
            if name not in right and not (check := product.check(fetched=False)).passed:
                return f"launch {launches[name]}: {wrong(check).text}"
            if (right.setdefault(name, bits) != bits).any():
                return f"launch {launches[name]}: {_bits(right[name], bits)}"
        return None

    # --- for doctor: what the parts of a call cost

    def _examination(self) -> Iterator[Line]:
        """Use one device after the other: what hangs costs no other its time."""
        for number, binding in enumerate(self._bindings):
            name = binding.name
            yield from self._step("open", name, None, partial(self._open, binding))
            if name in self._sessions:
                yield from self._there_and_back(name)
                product = partial(self._product, name, number, SIZE)
                yield from self._step("product", name, None, product)
                yield from self._step("costs", name, None, partial(self._costs, name))
        yield from self._together(_AT_ONCE_BRIEFLY)

    def _costs(self, name: str) -> Found:
        return costs(self._sessions[name], self._clock(name), self._buffer(name))


def _proved(work: Iteration) -> str | None:
    """Do a work once on wrong destinations; return what is wrong behind it."""
    work.poison()
    done(work)
    check = work.check()
    return None if check.passed else wrong(check).text


def _launched(product: Product) -> Any:
    """Return the bits of one product, on a destination that was wrong."""
    product.poison()
    product.queue()
    product.session.synchronize()
    landed = np.full(product.out.shape, np.nan, product.out.dtype)
    product.session.download(product.out, landed)
    product.session.synchronize()
    return landed.view(np.uint32)


def _bits(right: Any, found: Any) -> str:
    """Return which bits differ: how many, and those of the first element."""
    changed = right ^ found
    at = int(changed.ravel().nonzero()[0][0])
    count = int(np.unpackbits(changed.view(np.uint8)).sum())
    first = f"element {at} has 0x{found.ravel()[at]:08x} for 0x{right.ravel()[at]:08x}"
    return f"{count} wrong bits, {first}"


def _seconds(series: Series, clock: Clock) -> float:
    """Return the seconds of an iteration: by the device's thread, which preemption is not in."""
    taken = sample(series, clock)
    worked = [part.worked for part in taken.intervals.values() if part.worked]
    return worked[0] if worked and series.iterations_per_sample == 1 else taken.seconds


def _rate(amount: float, seconds: Sequence[float]) -> dict[str, Estimate]:
    if min(seconds) <= 0.0:
        return {}
    low, value, high = (amount / s for s in (max(seconds), median(seconds), min(seconds)))
    return {"bandwidth": Estimate(value, low, high, "B/s")}


def _failed(error: GpumapError) -> Found:
    return error.diagnostics[0].code, str(error), {}


def _result(key: Key, code: str | None, text: str, figures: Mapping[str, Estimate]) -> Line:
    return {"result": StepResult(*key, code, text, figures)}


def _serve() -> Iterator[Line]:
    """Do the job of stdin."""
    yield from Screening(json.load(sys.stdin), dict(os.environ)).lines()
    yield {"end": True}


if __name__ == "__main__":
    answer(int(sys.argv[-1]), _serve())

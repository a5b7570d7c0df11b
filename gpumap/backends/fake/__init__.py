"""Scripted devices: exact times on a clock of their own, and faults on demand.

`gpumap.backends.fake.script` explains the script. A session moves data and computes products as any
other one does, so that a program gets its results; only time is scripted. For a benchmark it
`holds` no more than a little data: what is larger is scripted too, results and faults.
Such memory has no data. It knows whether a command that was due to go wrong has written to it,
directly or by what it was made of; an iteration asks for that instead of looking at it.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from gpumap.backends import base
from gpumap.backends.base import Backend, Elements, EventMark, Session
from gpumap.backends.fake import script as scripts
from gpumap.backends.fake.script import Engine, FakeClock, FakeDevice
from gpumap.backends.fake.visible import visible
from gpumap.dtypes import Array, np, numpy_dtype
from gpumap.errors import DeviceLost, OutOfMemory
from gpumap.machine import blas
from gpumap.model import Device, Kind, Limit, Probe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumap.backends.base import Clock, Host, HostMemory, Product, Route
    from gpumap.dtypes import Arithmetic, Dtype


SCRIPT = "GPUMAP_FAKE"
_TF32 = 0xFFFFE000  # what TF32 keeps of a float32: sign, exponent, ten bits of the fraction
_HANG = 3600.0  # seconds, of real time: longer than any time limit


class Memory:
    """Elements of one allocation, in a row; data are made when they are first looked at."""

    __slots__ = ("__weakref__", "_data", "_spoilt", "dtype", "hollow", "size")

    def __init__(self, size: int, dtype: np.dtype[Any], *, hollow: bool) -> None:
        self.size, self.dtype, self.hollow = size, dtype, hollow
        self._spoilt: list[tuple[int, int]] = []  # from which element to which
        self._data: Array | None = None

    def write(self, start: int, stop: int, *, spoilt: bool) -> None:
        """Note that elements are written, rightly or not."""
        parts = (p for a, b in self._spoilt for p in ((a, min(b, start)), (max(a, stop), b)))
        self._spoilt = [(a, b) for a, b in parts if a < b]
        if spoilt:
            self._spoilt.append((start, stop))

    def is_spoilt(self, start: int, stop: int) -> bool:
        """Return whether something wrong was written to any of the elements."""
        return any(a < stop and start < b for a, b in self._spoilt)

    @property
    def data(self) -> Array:
        """Return the elements; at first no numbers, the same in each run."""
        if self.hollow:
            raise AssertionError("a scripted device has no data here")
        if self._data is None:
            unwritten = np.full(self.size * self.dtype.itemsize, 0xFF, np.uint8)
            self._data = unwritten.view(self.dtype)
        return self._data


class FakeBuffer(Elements):
    """An array in memory that plays a device's, or a part of one."""

    memory: Memory

    @property
    def native(self) -> Array:
        """The elements, in NumPy's array."""
        return self.memory.data[self.start : self.start + self.size].reshape(self.shape)

    @property
    def hollow(self) -> bool:
        """Whether there are no data."""
        return self.memory.hollow

    @property
    def spoilt(self) -> bool:
        """Whether something wrong was written there."""
        return self.memory.is_spoilt(self.start, self.start + self.size)

    def write(self, *, hollow: bool, spoilt: bool) -> bool:
        """Note what is written over all of it; return whether there is data to write.

        Of a part the rest of the memory stays what it is: hollow memory has no data anywhere.
        """
        memory = self.memory
        memory.hollow = hollow or (memory.hollow and self.size != memory.size)
        memory.write(self.start, self.start + self.size, spoilt=spoilt)
        return not memory.hollow


if TYPE_CHECKING:
    Held = Array | FakeBuffer  # what a copy goes between


@dataclass(slots=True)
class FakeSession(Session):
    """A scripted device, opened."""

    device: Device
    script: FakeDevice
    clock: FakeClock
    engine: Engine
    log: str | None = None  # a file
    commands: int = 0
    holds: int = sys.maxsize  # bytes of an array, above which there are no data
    features: frozenset[Any] = field(init=False)
    _known: set[str] = field(default_factory=set)  # commands that came at least once
    _drawn: Random = field(init=False)
    _alike: bool = field(init=False)  # whether nothing tells a command from an equal one before

    def __post_init__(self) -> None:
        drawn = Random(f"{self.script.noise_seed} {self.device.id} noise")  # noqa: S311 - no secret
        self._drawn = self.engine.drawn.setdefault(self.device.id, drawn)
        self.features = scripts.features(self.script)
        exact = not (self.script.fault or self.log)
        self._alike = exact and not self.script.varies
        self.clock.follow(self.engine, even=self._alike, draws=exact)
        blas.hold()  # its products are small: one that waits for a thread takes longer

    def empty(self, shape: tuple[int, ...], dtype: Dtype) -> FakeBuffer:
        """Return memory that no one has written yet."""
        held = numpy_dtype(dtype)
        nbytes = base.bytes_of(shape, held)
        if self.script.fault == "memory" or nbytes > self.script.memory:
            message = f"{self.device.ref} has no room for {nbytes} bytes"
            raise OutOfMemory(message, "free some of its memory")
        memory = Memory(nbytes // held.itemsize, held, hollow=nbytes > self.holds)
        return FakeBuffer(self, memory, held, tuple(shape))

    def host(self, shape: tuple[int, ...], dtype: Dtype, memory: HostMemory) -> Array:
        """Return host memory of a kind that the script lists as a feature."""
        held = numpy_dtype(dtype)
        if memory != "pageable":
            base.require(self, memory, f"{memory} host memory")
        if base.bytes_of(shape, held) <= self.holds:
            return base.pageable(shape, held)
        from gpumap.backends.host_memory import hollow_array

        return hollow_array(shape, held)

    def _upload(self, source: Array, target: FakeBuffer, repeat: int) -> None:
        """Queue a copy from the host."""
        self._moved("upload", source, target, repeat)

    def _download(self, source: FakeBuffer, target: Array, repeat: int) -> None:
        """Queue a copy to the host."""
        self._moved("download", source, target, repeat)

    def _route(self, there: Any) -> Route:
        if there is self:
            return "same"
        return "peer" if isinstance(there, FakeSession) else "staged"

    def _copy(self, source: FakeBuffer, target: FakeBuffer, repeat: int) -> None:
        self._moved("copy", source, target, repeat)

    def _multiply(self, product: Product, repeat: int) -> None:
        a, b, out, (rows, columns, inner), transpose, alpha, beta, tf32 = product
        times = self.script.double if out.dtype == "float64" else 1.0
        seconds = times * 2 * rows * columns * inner / self.script.rate
        faulty = self._take_many("gemm", seconds, repeat) and self.script.fault == "wrong-product"
        given = (a, b) if beta == 0.0 else (a, b, out)
        if not self._written((out,), given, 0 if faulty else None):
            return
        left, right = (
            _read_by_product(factor.native.T if turned else factor.native, tf32=tf32)
            for factor, turned in zip((a, b), transpose, strict=True)
        )
        with np.errstate(all="ignore"):  # as a device, which warns of nothing
            values, target = left @ right, out.native
            values = values if alpha == 1.0 else alpha * values
            for _ in range(repeat if beta else 1):
                target[...] = values if beta == 0.0 else values + beta * target
        if faulty:
            out.native[0, 0] += 1000

    def prepare(self, kernel: str, *arguments: FakeBuffer | float, size: int) -> Callable[[], None]:
        """Return what queues a kernel as `run` would."""
        known, _ = self._fitting(kernel, arguments, size)
        buffers = [a for a in arguments if isinstance(a, FakeBuffer)]
        nbytes = buffers[0].nbytes if buffers else 0

        def queue_one() -> None:
            self._take(kernel, nbytes / self.script.bandwidth)
            if self._written(buffers, buffers, None):
                known.reference(*known.reference_views(arguments, size))

        return queue_one

    def mark(self) -> EventMark:
        """Return the moment at which all that is queued will be done."""
        return EventMark(self, max(self.engine.free, self.clock.now()))

    def _queued_wait(self, mark: Any) -> bool:
        if not isinstance(mark.session, FakeSession):
            return False
        self.clock.joined = True
        self.engine.free = max(self.engine.free, mark.event)
        return True

    def seconds(self, start: EventMark, stop: EventMark) -> float | None:
        """Return the scripted time between two marks."""
        return stop.event - start.event if "events" in self.features else None

    def at(self, mark: EventMark) -> Any:
        """Return the moment of a mark on the fake clock."""
        return mark.event

    def peak(self, arithmetic: Arithmetic) -> Limit | None:  # noqa: ARG002 - the contract's
        """Return what the script says that the device could do at most."""
        rate = self.script.peak
        return Limit("rate", rate, "FLOP/s", "scripted", "computed") if rate else None

    def synchronize(self) -> None:
        """Let the clock run until all is done."""
        self.clock.reach(self.engine.free)

    def _close(self) -> None:
        """Give BLAS its threads back."""
        blas.release()

    def _moved(self, command: str, source: Held, target: Held, repeat: int) -> None:
        """Copy `repeat` times, in the way that the script says that it goes."""
        script, nbytes = self.script, target.nbytes
        seconds = script.latency + nbytes / script.bandwidth
        if script.large_from and nbytes >= script.large_from:
            seconds = script.large_latency + nbytes / script.large_bandwidth
        due = self._take_many(command, seconds, repeat)
        fault = self.script.fault if due and command == self.script.fault_in else ""
        places = {"nothing": 0, "short": nbytes - 1, "flip": _flipped(nbytes)}
        if self._written((target,), (source,), places.get(fault)):
            here, there = (e.native if isinstance(e, FakeBuffer) else e for e in (source, target))
            _copy(here, there, fault)

    def _written(self, targets: Sequence[Held], sources: Sequence[Held], wrong: int | None) -> bool:
        """Note what a command writes, made of what, and its first wrong byte.

        Return whether there are data to work on: not where one of the sources has none.
        """
        empty, spoilt = False, wrong is not None
        for one in sources:  # plain loops: this is done for each command
            empty |= not base.has_data(one)
            spoilt |= getattr(one, "spoilt", False)
        if spoilt and self.clock.spoilt is None:
            self.clock.spoilt = wrong or 0
        full = True
        for target in targets:
            if isinstance(target, FakeBuffer):
                full &= target.write(hollow=empty, spoilt=spoilt)
            else:  # whoever gives room for data looks at them
                assert not (empty and base.has_data(target)), "a scripted device has no data here"
                full &= base.has_data(target)
        return full

    def _take(self, command: str, seconds: float) -> bool:
        """Spend a command's time; return whether the fault is due."""
        self.clock.sleep(self.script.launch)
        start = max(self.engine.free, self.clock.now())
        lasting = seconds * self.script.factor(start, self._drawn)
        if command not in self._known:
            self._known.add(command)
            lasting += self.script.slow_first
        self.engine.free = start + lasting
        if self.log is not None:  # written as it comes: a process may end at any moment
            with Path(self.log).open("a", encoding="utf-8") as file:
                file.write(f"{self.device.id} {command} {start!r} {lasting!r}\n")
        self.commands += 1
        due = bool(self.script.fault) and self.commands > self.script.fault_after
        hangs = ("hang", "hang-copy") if command == "copy" else ("hang",)
        if due and self.script.fault in hangs:
            time.sleep(_HANG)
        if due and self.script.fault == "lost":
            message = f"{self.device.ref} no longer answers"
            raise DeviceLost(message, "look at the system log (dmesg)")
        return due

    def _take_many(self, command: str, seconds: float, repeat: int) -> bool:
        """Spend the time of equal commands, in one step where nothing tells them apart."""
        due = self._take(command, seconds)
        if not self._alike:
            return sum(self._take(command, seconds) for _ in range(repeat - 1)) > 0 or due
        more, launch = repeat - 1, self.script.launch
        first = self.clock.now() + launch
        self.clock.sleep(more * launch)
        if more:  # the device is busy all the time, or waits for the host each time
            queued = max(self.engine.free, first) + more * seconds
            self.engine.free = max(queued, self.clock.now() + seconds)
        self.commands += more
        return due


def _read_by_product(array: Array, *, tf32: bool) -> Array:
    """Return what a product reads and sums: 16 bits in 32, as a device does; TF32 drops bits."""
    wide = array.astype(np.float32) if array.dtype.itemsize == np.dtype("f2").itemsize else array
    if tf32:
        wide = (np.ascontiguousarray(wide).view(np.uint32) & np.uint32(_TF32)).view(np.float32)
    return wide


def _flipped(nbytes: int) -> int:
    """Return the highest byte of an element: as a number it is far off, not a rounding."""
    return min(nbytes // 2 | 7, nbytes - 1)


def _copy(source: Array, target: Array, fault: str) -> None:
    """Copy, or what a fault makes of it."""
    if fault == "nothing":
        return
    kept = target.reshape(-1)[-1:].copy()
    target[...] = source
    flat = target.reshape(-1).view("uint8") if target.flags.c_contiguous else target
    if fault == "short":
        flat[-1] = kept.view("uint8")[-1]
    elif fault == "flip":
        flat[_flipped(target.nbytes)] ^= 0x40


class FakeBackend(Backend):
    """The devices of a script."""

    name = "fake"
    kinds = frozenset(Kind)

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        path = host.env.get(SCRIPT)
        self._script = scripts.read(Path(path)) if path else scripts.default()
        self._clock = FakeClock(self._script.host)
        self._engines: dict[str, Engine] = {}

    def probe(self) -> Probe:
        """Return the scripted devices."""
        devices = visible(map(scripts.device_of, self._script.device), self._host.env)
        reason = None if devices else "its script lists no device"
        return Probe(self.name, bool(devices), "1", reason, devices=devices)

    def open(self, device: Device, clock: Clock) -> FakeSession:
        """Open a scripted device on the backend's own clock."""
        assert clock is self._clock
        script = self._scripted(device)
        engine = self._engines.setdefault(script.engine or device.id, Engine())
        return FakeSession(device, script, self._clock, engine, self._script.log)

    def features(self, device: Device) -> frozenset[Any]:
        """Return what the script says."""
        return scripts.features(self._scripted(device))

    def clock(self) -> FakeClock:
        """Return the scripted clock."""
        return self._clock

    def _scripted(self, device: Device) -> FakeDevice:
        return next(s for s in self._script.device if scripts.device_of(s).id == device.id)

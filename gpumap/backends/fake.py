"""Devices that exist on paper only: exact times on a clock of their own, and faults on demand.

`gpumap.backends.fake_script` explains the script that lists them. Data really move and products are
really computed, so that checks check something; only time is scripted.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumap.backends.base import (
    Closing,
    Peak,
    bytes_of,
    check_copy,
    check_reshape,
    check_shapes,
    contiguous,
    kernel_named,
    require,
    staged_copy,
)
from gpumap.backends.fake_noise import Unevenness
from gpumap.backends.fake_script import FakeDevice, FakeHost, default, device_of, read
from gpumap.dtypes import has_bfloat16, numpy_dtype
from gpumap.errors import DeviceLost, OutOfMemory, SourceError
from gpumap.escape import printable
from gpumap.model import Device, Kind, Probe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from gpumap.backends.base import Clock, Host, HostMemory, Mark, Route
    from gpumap.dtypes import Arithmetic, Dtype

    Array = np.ndarray[Any, Any]

SCRIPT = "GPUMAP_FAKE"
_HANG = 3600.0  # seconds, of real time: longer than any time limit


class FakeClock:
    """A clock that stands still unless something scripted, or `sleep`, takes time."""

    def __init__(self, host: FakeHost | None = None) -> None:
        self._now = 0.0
        self._host = host or FakeHost()

    def now(self) -> float:
        """Return the scripted time in seconds."""
        return self._now

    def cpu(self) -> float | None:
        """Return None: scripted time is no processor's."""
        return None

    def sleep(self, seconds: float) -> None:
        """Let scripted time pass."""
        self._now += seconds

    def reach(self, moment: float) -> None:
        """Wait until `moment`; does nothing if it is past."""
        self._now = max(self._now, moment)

    def together(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Run every job from the same moment on; the clock ends with the last of them."""
        start = self._now
        ends = []
        for job in jobs:
            self._now = start
            job()
            ends.append(self._now)
        self._now = max(ends, default=start)

    def compute(self, job: Callable[[], None], operations: float) -> None:
        """Run a job of the host's own, for as long as the script says."""
        job()
        self._now += self._host.latency + operations / self._host.rate


@dataclass(slots=True)
class Engine:
    """What works off commands: one device's own, or shared by several that never overlap."""

    free: float = 0.0  # the moment at which it has done all it was given
    uneven: dict[str, Unevenness] = field(default_factory=dict)  # of each of its devices, by id


class Log:
    """A file with a line for each command, written as it comes: a process may end at any moment."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._add("")
        except OSError as error:
            place = f"cannot write the log {printable(str(path))}"
            raise SourceError(f"{place}: {error.strerror}", "check its path") from error

    def note(self, device: str, command: str, start: float, seconds: float) -> None:
        """Add a command."""
        self._add(f"{device} {command} {start!r} {seconds!r}\n")

    def _add(self, text: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(text)


class FakeBuffer:
    """An array in host memory that plays a device's."""

    def __init__(self, session: FakeSession, native: Array) -> None:
        self.session = session
        self.native = native
        self.shape: tuple[int, ...] = native.shape
        self.dtype = native.dtype
        self.nbytes: int = native.nbytes

    def __getitem__(self, rows: slice) -> FakeBuffer:
        return FakeBuffer(self.session, self.native[contiguous(rows, self.shape[0])])

    def reshape(self, shape: tuple[int, ...]) -> FakeBuffer:
        """Return a view of the same elements in another shape."""
        check_reshape(self.shape, shape)
        return FakeBuffer(self.session, self.native.reshape(shape))


@dataclass(frozen=True, slots=True)
class FakeMark:
    """The moment at which a session's engine has done all it was given."""

    session: FakeSession
    moment: float


@dataclass(slots=True)
class FakeSession(Closing):
    """A scripted device, opened."""

    device: Device
    script: FakeDevice
    clock: FakeClock
    engine: Engine
    log: Log | None = None
    commands: int = 0
    features: frozenset[Any] = field(init=False)
    _known: set[str] = field(default_factory=set)  # commands that came at least once
    _products: deque[tuple[tuple[Any, ...], Array]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.engine.uneven.setdefault(self.device.id, Unevenness(self.script, self.device.id))
        self.features = _features(self.script)

    def empty(self, shape: tuple[int, ...], dtype: Dtype) -> FakeBuffer:
        """Return memory that no one has written yet."""
        import numpy as np

        held = numpy_dtype(dtype)
        nbytes = bytes_of(shape, held)
        if self.script.fault == "memory" or nbytes > self.script.memory:
            raise OutOfMemory(
                f"{self.device.ref} has no room for {nbytes} bytes", "free some of its memory"
            )
        return FakeBuffer(self, np.empty(shape, held))

    def host(self, shape: tuple[int, ...], dtype: Dtype, memory: HostMemory) -> Array:
        """Return host memory of a kind that the script lists as a feature."""
        import numpy as np

        held = numpy_dtype(dtype)
        if memory != "pageable":
            require(self, memory, f"{memory} host memory")
            nbytes = bytes_of(shape, held)
            if 0 < self.script.locked < nbytes:
                raise OutOfMemory(f"the script locks at most {self.script.locked} bytes at a time")
        return np.empty(shape, held)

    def upload(self, source: Array, target: FakeBuffer, repeat: int = 1) -> None:
        """Queue a copy from the host."""
        check_copy(source, target)
        self._moved("upload", source, target.native, repeat)

    def download(self, source: FakeBuffer, target: Array, repeat: int = 1) -> None:
        """Queue a copy to the host."""
        check_copy(source, target)
        self._moved("download", source.native, target, repeat)

    def copy(self, source: FakeBuffer, target: Any, repeat: int = 1) -> Route:
        """Queue a copy to a buffer of this or of another session."""
        check_copy(source, target)
        if not isinstance(target, FakeBuffer):
            return staged_copy(source, target, repeat)
        if target.session is not self:
            self.wait(target.session.mark())  # what the target does before it must be done
        self._moved("copy", source.native, target.native, repeat)
        target.session.wait(self.mark())
        return "same" if target.session is self else "peer"

    def gemm(
        self,
        a: FakeBuffer,
        b: FakeBuffer,
        out: FakeBuffer,
        *,
        transpose: tuple[bool, bool] = (False, False),
        alpha: float = 1.0,
        beta: float = 0.0,
        tf32: bool = False,
        repeat: int = 1,
    ) -> None:
        """Queue out = alpha a.b + beta out."""
        import numpy as np

        rows, columns, inner = check_shapes(a.shape, b.shape, out.shape, transpose)
        if tf32:
            require(self, "tf32", "TF32 products")
        left = _read_by_product(a.native.T if transpose[0] else a.native, tf32=tf32)
        right = _read_by_product(b.native.T if transpose[1] else b.native, tf32=tf32)
        product = self._known_product(left, right)
        if (alpha, beta, product.dtype) == (1.0, 0.0, out.native.dtype):
            out.native[...] = product
        else:
            with np.errstate(all="ignore"):
                product = alpha * product
                for _ in range(repeat if beta else 1):
                    out.native[...] = product if beta == 0.0 else product + beta * out.native
        times = self.script.double if out.native.dtype == "float64" else 1.0
        seconds = times * 2 * rows * columns * inner / self.script.rate
        faulty = self._take_many("gemm", seconds, repeat)
        if faulty and self.script.fault == "wrong-product":
            out.native[0, 0] += 1000

    def run(self, kernel: str, *arguments: FakeBuffer | float, size: int) -> None:
        """Queue a kernel; it takes as long as a copy of its first buffer."""
        self.prepare(kernel, *arguments, size=size)()

    def prepare(self, kernel: str, *arguments: FakeBuffer | float, size: int) -> Callable[[], None]:
        """Return what queues a kernel as `run` would."""
        known = kernel_named(kernel, self)
        natives = [a.native if isinstance(a, FakeBuffer) else a for a in arguments]
        known.element(arguments, size)  # they fit
        known.constants(arguments, size)
        nbytes = next((a.nbytes for a in arguments if isinstance(a, FakeBuffer)), 0)

        def queue_one() -> None:
            known.reference(*known.seen(natives, size))
            self._take(kernel, nbytes / self.script.bandwidth)

        return queue_one

    def mark(self) -> FakeMark:
        """Return the moment at which all that is queued will be done."""
        return FakeMark(self, max(self.engine.free, self.clock.now()))

    def wait(self, mark: Mark) -> None:
        """Let what is queued from now on start only after `mark`."""
        if isinstance(mark, FakeMark):
            self.engine.free = max(self.engine.free, mark.moment)
        else:
            mark.session.synchronize()

    def seconds(self, start: Mark, stop: Mark) -> float | None:
        """Return the scripted time between two marks."""
        assert isinstance(start, FakeMark)
        assert isinstance(stop, FakeMark)
        return stop.moment - start.moment if "events" in self.features else None

    def at(self, mark: Mark) -> float | None:
        """Return the moment of a mark on the fake clock."""
        assert isinstance(mark, FakeMark)
        return mark.moment

    def worked(self, start: Mark, stop: Mark) -> float | None:  # noqa: ARG002 - the contract's
        """Return None: a scripted device has no thread."""
        return None

    def peak(self, arithmetic: Arithmetic) -> Peak | None:  # noqa: ARG002 - the contract's
        """Return what the script says that the device could do at most."""
        return Peak(self.script.peak, "scripted", "computed") if self.script.peak else None

    def synchronize(self) -> None:
        """Let the clock run until all is done."""
        self.clock.reach(self.engine.free)

    def close(self) -> None:
        """Do nothing: there is nothing to give back."""

    def _moved(self, command: str, source: Array, target: Array, repeat: int) -> None:
        """Copy `repeat` times, in the way that the script says that it goes."""
        seconds = self._copy_seconds(target.nbytes)
        due = self._take_many(command, seconds, repeat)
        fault = self.script.fault if due and command == self.script.fault_in else ""
        if fault == "nothing" or not target.nbytes:
            return
        kept = target.reshape(-1)[-1:].copy()
        target[...] = source
        flat = target.reshape(-1).view("uint8") if target.flags.c_contiguous else target
        if fault == "short":
            flat[-1] = kept.view("uint8")[-1]
        elif fault == "flip":
            # the highest byte of an element: as a number it is far off, not a rounding
            flat[min(target.nbytes // 2 | 7, target.nbytes - 1)] ^= 0x40

    def _known_product(self, left: Array, right: Array) -> Array:
        """Return left.right; one of the last ones for equal factors: comparing bytes is cheaper."""
        import numpy as np

        factors = (left.dtype, left.shape, left.tobytes(), right.shape, right.tobytes())
        for known, product in self._products:
            if known == factors:
                return product
        with np.errstate(all="ignore"):  # as a device, which warns of nothing
            product = left @ right
        self._products.appendleft((factors, product))
        while len(self._products) > (_KEPT if product.nbytes < _LARGE else 1):
            self._products.pop()
        return product

    def _copy_seconds(self, nbytes: int) -> float:
        script = self.script
        if script.large_from and nbytes >= script.large_from:
            return script.large_latency + nbytes / script.large_bandwidth
        return script.latency + nbytes / script.bandwidth

    def _take(self, command: str, seconds: float) -> bool:
        """Spend a command's time; return whether the fault is due."""
        self.clock.sleep(self.script.launch)
        start = max(self.engine.free, self.clock.now())
        lasting = self._lasting(command, seconds, start)
        self.engine.free = start + lasting
        if self.log is not None:
            self.log.note(self.device.id, command, start, lasting)
        self.commands += 1
        due = bool(self.script.fault) and self.commands > self.script.fault_after
        if due and self.script.fault == "hang":
            time.sleep(_HANG)
        if due and self.script.fault == "lost":
            raise DeviceLost(
                f"{self.device.ref} no longer answers", "look at the system log (dmesg)"
            )
        return due

    def _take_many(self, command: str, seconds: float, repeat: int) -> bool:
        """Spend the time of equal commands, in one step where nothing tells them apart."""
        alike = not (self.script.fault or self.log or self.engine.uneven[self.device.id].varies)
        due = self._take(command, seconds)
        if not alike:
            return sum(self._take(command, seconds) for _ in range(repeat - 1)) > 0 or due
        more, launch = repeat - 1, self.script.launch
        first = self.clock.now() + launch
        self.clock.sleep(more * launch)
        if more:  # the device is busy all the time, or waits for the host each time
            queued = max(self.engine.free, first) + more * seconds
            self.engine.free = max(queued, self.clock.now() + seconds)
        self.commands += more
        return due

    def _lasting(self, command: str, seconds: float, start: float) -> float:
        """Return how long a command takes that would take `seconds` on an even device."""
        lasting = seconds * self.engine.uneven[self.device.id].factor(start)
        if command not in self._known:
            self._known.add(command)
            lasting += self.script.slow_first
        return lasting


class FakeBackend:
    """The devices of a script."""

    name = "fake"
    kinds = frozenset(Kind)

    def __init__(self, host: Host) -> None:
        path = host.env.get(SCRIPT)
        self._script = read(Path(path)) if path else default()
        self._clock = FakeClock(self._script.host)
        self._engines: dict[str, Engine] = {}

    def probe(self) -> Probe:
        """Return the scripted devices."""
        devices = tuple(map(device_of, self._script.devices))
        reason = None if devices else "its script lists no device"
        return Probe(self.name, bool(devices), "1", reason, None, devices)

    def open(self, device: Device, clock: Clock) -> FakeSession:
        """Open a scripted device on the backend's own clock."""
        assert clock is self._clock
        script = self._scripted(device)
        engine = self._engines.setdefault(script.engine or device.id, Engine())
        log = None if self._script.log is None else Log(self._script.log)
        return FakeSession(device, script, self._clock, engine, log)

    def features(self, device: Device) -> frozenset[Any]:
        """Return what the script says."""
        return _features(self._scripted(device))

    def clock(self) -> FakeClock:
        """Return the scripted clock."""
        return self._clock

    def _scripted(self, device: Device) -> FakeDevice:
        return next(s for s in self._script.devices if device_of(s).id == device.id)


def _features(script: FakeDevice) -> frozenset[Any]:
    return frozenset(script.features) - (set() if has_bfloat16() else {"bfloat16"})


_KEPT, _LARGE = 8, 2**20  # products that are remembered; a larger one (bytes) is alone
_TF32 = 0xFFFFE000  # what TF32 keeps of a float32: sign, exponent, ten bits of the fraction


def _read_by_product(array: Array, *, tf32: bool) -> Array:
    """Return what a product reads and sums: 16 bits in 32, as a device does; TF32 drops bits."""
    import numpy as np

    wide = array.astype(np.float32) if array.dtype.itemsize == np.dtype("f2").itemsize else array
    if tf32:
        wide = (np.ascontiguousarray(wide).view(np.uint32) & np.uint32(_TF32)).view(np.float32)
    return wide

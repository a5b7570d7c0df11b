"""Devices that exist on paper only: exact times on a clock of their own, and faults on demand.

A script, the TOML file that GPUMAP_FAKE names, lists the devices; without one there are two of
each kind. Data really move and products are really computed, so that checks check something; only
time is scripted. Reports made with it are marked `simulated`.

    log = "commands.log"           # optional; beside the script. A line for each command is added:
                                   # device, command, scripted start, seconds

    [host]                         # optional: what the program's own cores take for a product
    rate = 1e11                    # FLOP/s
    latency = 0.0                  # seconds of each

    [[device]]
    ref = "cuda0"                  # as a map writes it
    name = "Fake GPU A"            # optional, as are all that follow
    pci = "0000:09:00.0"
    uuid = "GPU-00000000-0000-0000-0000-000000000000"
    type = "gpu"                   # or "other"; OpenCL's word for what it drives
    memory = 17179869184           # bytes
    locked = 0                     # bytes of pinned or mapped host memory in one piece; 0: any
    silicon = ["card 0"]           # what it shares with other devices
    engine = "bus 0"               # devices of one engine never work at the same time
    features = ["kernels", "float64"]  # also pinned, mapped, events, float16, bfloat16, tf32
    rate = 1e11                    # FLOP/s of a product
    double = 1.0                   # times as long that a product of float64 takes
    peak = 0.0                     # FLOP/s that no product can exceed; 0: not known
    launch = 0.0                   # host seconds that queueing one command takes
    latency = 0.0                  # seconds of a copy, beside its bytes; with none a small copy is
                                   # repeated a million times to be timed, which is slow
    bandwidth = 1e10               # B/s of a copy
    large_from = 0                 # bytes from which on copies go another way; 0: none do
    large_latency = 0.0            # and what that costs
    large_bandwidth = 1e10
    fault = "lost"                 # lost, memory, wrong-product, hang (for real); of copies: flip
                                   # (a byte), short (of its last byte), nothing (is moved)
    fault_in = "download"          # of which copies: upload, download (if not said) or copy
    fault_after = 3                # commands that go well before it
    slow_first = 0.0               # seconds more for the first of each command: a compiler, say

What follows multiplies the time of each command, by a factor that is drawn when it starts; without
these keys times are exact.

    noise = 0.02                   # deviation of the logarithm of a normal noise; its median is 1
    noise_seed = 1                 # another seed is another run; each device has its own noise
    autocorrelation = 0.9          # what the noise shares with that of `period` seconds before, or,
    period = 0.1                   # without a period, with that of the device's command before
    drift = 0.05                   # share of time gained over the first `drift_over` seconds,
    drift_over = 10.0              # in a straight line, and kept
    spikes = 0.05                  # probability of a command that takes `spike` times as long
    spike = 1.5
    modes = [1.0, 1.3]             # one of these, by chance: for each period, or each command
    throttle_after = 5.0           # seconds of scripted time from which on
    throttle = 1.4                 # a command takes so many times as long

Successive samples of a case are a block apart: where a `period` is as long as a block and a sample
is one command, they correlate by `autocorrelation`. Many commands in a sample average their noise.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from gpumap import config
from gpumap.backends.base import (
    Closing,
    Peak,
    check_copy,
    check_reshape,
    check_shapes,
    contiguous,
    kernel_named,
    require,
    staged_copy,
)
from gpumap.backends.fake_noise import NoiseScript, Unevenness
from gpumap.dtypes import has_bfloat16, numpy_dtype
from gpumap.errors import DeviceLost, MapError, OutOfMemory, SourceError
from gpumap.escape import printable
from gpumap.model import Device, DeviceRef, Kind, Probe
from gpumap.parse import canonical_identity, parse_map

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from gpumap.backends.base import Clock, Host, HostMemory, Mark, Route
    from gpumap.dtypes import Arithmetic, Dtype

    Array = np.ndarray[Any, Any]

SCRIPT = "GPUMAP_FAKE"
Fault = Literal["", "lost", "memory", "flip", "short", "nothing", "wrong-product", "hang"]
_AGES = 1e18  # no figure of a script is larger: sums of it stay exact enough to tell apart
_WHOLE = ("memory", "locked", "noise_seed", "large_from")
_POSITIVE = (
    "rate",
    "double",
    "bandwidth",
    "large_bandwidth",
    "drift_over",
    "spike",
    "throttle",
)  # divided by, or multiplied
_FROM_0 = (
    "peak", "launch", "latency", "large_latency", "fault_after", "slow_first", "period",
    "throttle_after", "noise", "autocorrelation", "spikes",
)  # fmt: skip
_RANGES = {
    **dict.fromkeys((*_POSITIVE, *_FROM_0), (1 / _AGES, _AGES)),
    **dict.fromkeys(("noise", "autocorrelation", "spikes"), (0.0, 1.0)),
    "drift": (-1.0, _AGES),
}
_COPIES = ("upload", "download", "copy")
_HANG = 3600.0  # seconds, of real time: longer than any time limit
_DEFAULT_REFS = ("cuda0", "cuda1", "opencl0:0", "opencl0:1", "cpu0", "cpu1")


@dataclass(frozen=True, slots=True)
class FakeDevice(NoiseScript):
    """One `[[device]]` of a script; the fields are explained in the module's docstring."""

    ref: str
    name: str = "Fake device"
    pci: str | None = None
    uuid: str | None = None
    type: str = "gpu"
    memory: int = 16 << 30
    locked: int = 0
    silicon: tuple[str, ...] = ()
    engine: str | None = None
    features: tuple[str, ...] = (
        "kernels", "float64", "float16", "bfloat16", "tf32", "events", "pinned",
    )  # fmt: skip
    rate: float = 1e11
    double: float = 1.0
    peak: float = 0.0
    launch: float = 0.0
    latency: float = 0.0
    bandwidth: float = 1e10
    large_from: int = 0
    large_latency: float = 0.0
    large_bandwidth: float = 1e10
    fault: Fault = ""
    fault_in: str = "download"
    fault_after: int = 0
    slow_first: float = 0.0


@dataclass(frozen=True, slots=True)
class FakeHost:
    """The `[host]` of a script."""

    rate: float = 1e11
    latency: float = 0.0


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
        lacking = set() if has_bfloat16() else {"bfloat16"}
        self.features = frozenset(self.script.features) - lacking

    def empty(self, shape: tuple[int, ...], dtype: Dtype) -> FakeBuffer:
        """Return memory that no one has written yet."""
        import numpy as np

        held = numpy_dtype(dtype)
        nbytes = int(np.prod(shape, dtype=np.int64)) * held.itemsize
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
            nbytes = int(np.prod(shape, dtype=np.int64)) * held.itemsize
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
                out.native[...] = product if beta == 0.0 else product + beta * out.native
        times = self.script.double if out.native.dtype == "float64" else 1.0
        faulty = self._take("gemm", times * 2 * rows * columns * inner / self.script.rate)
        if faulty and self.script.fault == "wrong-product":
            out.native[0, 0] += 1000

    def run(self, kernel: str, *arguments: FakeBuffer | float, size: int) -> None:
        """Queue a kernel; it takes as long as a copy of its first buffer."""
        known = kernel_named(kernel, self)
        natives = [a.native if isinstance(a, FakeBuffer) else a for a in arguments]
        known.constants(arguments, size)  # they fit
        known.reference(*known.seen(natives, size))
        nbytes = next((a.nbytes for a in arguments if isinstance(a, FakeBuffer)), 0)
        self._take(kernel, nbytes / self.script.bandwidth)

    def prepare(self, kernel: str, *arguments: FakeBuffer | float, size: int) -> Callable[[], None]:
        """Return what queues a kernel as `run` would."""
        kernel_named(kernel, self)
        return partial(self.run, kernel, *arguments, size=size)

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
        return Peak(self.script.peak, "scripted") if self.script.peak else None

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
        self._scripts, self._log, own = _read(Path(path)) if path else _default()
        self._clock = FakeClock(own)
        self._engines: dict[str, Engine] = {}

    def probe(self) -> Probe:
        """Return the scripted devices."""
        devices = tuple(_device(script) for script in self._scripts)
        reason = None if devices else "its script lists no device"
        return Probe(self.name, bool(devices), "1", reason, None, devices)

    def open(self, device: Device, clock: Clock) -> FakeSession:
        """Open a scripted device on the backend's own clock."""
        assert clock is self._clock
        script = next(s for s in self._scripts if _device(s).id == device.id)
        engine = self._engines.setdefault(script.engine or device.id, Engine())
        log = None if self._log is None else Log(self._log)
        return FakeSession(device, script, self._clock, engine, log)

    def clock(self) -> FakeClock:
        """Return the scripted clock."""
        return self._clock


_KEPT, _LARGE = 8, 2**20  # products that are remembered; a larger one (bytes) is alone
_TF32 = 0xFFFFE000  # what TF32 keeps of a float32: sign, exponent, ten bits of the fraction


def _read_by_product(array: Array, *, tf32: bool) -> Array:
    """Return what a product reads and sums: 16 bits in 32, as a device does; TF32 drops bits."""
    import numpy as np

    wide = array.astype(np.float32) if array.dtype.itemsize == np.dtype("f2").itemsize else array
    if tf32:
        wide = (np.ascontiguousarray(wide).view(np.uint32) & np.uint32(_TF32)).view(np.float32)
    return wide


def _default() -> tuple[tuple[FakeDevice, ...], Path | None, FakeHost]:
    # a copy that takes next to nothing would be repeated a million times to be timed
    return tuple(FakeDevice(ref, latency=5e-6) for ref in _DEFAULT_REFS), None, FakeHost()


def _read(path: Path) -> tuple[tuple[FakeDevice, ...], Path | None, FakeHost]:
    """Return the devices of a script, where to log, and the host."""
    script = config.read(path)
    config.check_keys(script, ("device", "host", "log"), path)
    config.check_types(
        {key: script[key] for key in ("log",) if key in script}, {"log": (str,)}, path
    )
    entries = script.get("device", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise SourceError(f"{printable(str(path))}: device must be a list", "write [[device]]")
    scripts = tuple(_fields(entry, path) for entry in entries)
    ids = [_device(script).id for script in scripts]
    if repeated := {id_ for id_ in ids if ids.count(id_) > 1}:
        raise SourceError(
            f"{printable(str(path))}: {min(repeated)} stands there twice", "keep one of them"
        )
    log = path.parent / script["log"] if "log" in script else None
    return scripts, log, _host(script.get("host", {}), path)


def _host(entry: Any, path: Path) -> FakeHost:
    if not isinstance(entry, dict):
        raise SourceError(f"{printable(str(path))}: host must be a table", "write [host]")
    config.check_keys(entry, tuple(FakeHost.__dataclass_fields__), path)
    _check_values(entry, "the host", path)
    return FakeHost(**entry)


def _fields(entry: dict[str, Any], path: Path) -> FakeDevice:
    known = tuple(FakeDevice.__dataclass_fields__)
    config.check_keys(entry, known, path)
    _check_values(entry, "a device", path)
    lists = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
    if entry.get("fault_in", "upload") not in _COPIES:
        copies = ", ".join(_COPIES)
        raise SourceError(
            f"{printable(str(path))}: fault_in is one of {copies}", "name one of them"
        )
    if "ref" not in entry or entry.get("fault", "") not in get_args(Fault):
        faults = ", ".join(get_args(Fault)[1:])
        place = printable(str(path))
        raise SourceError(f"{place}: each [[device]] needs a ref; fault is one of {faults}")
    return FakeDevice(**{**entry, **lists})


def _check_values(entry: Mapping[str, Any], what: str, path: Path) -> None:
    for key, value in entry.items():
        if not _fits(key, value):
            pair = f"{key} = {printable(repr(value))[:60]}"
            hint = "`python -m pydoc gpumap.backends.fake` shows a script"
            raise SourceError(f"{printable(str(path))}: {what} cannot have {pair}", hint)


def _fits(key: str, value: Any) -> bool:
    if key in ("silicon", "features"):
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if key == "modes":
        return isinstance(value, list) and all(_fits("rate", item) for item in value)
    if key in _WHOLE:
        return type(value) is int and 0 <= value < _AGES
    if key not in _RANGES:
        return isinstance(value, str)
    low, high = _RANGES[key]
    return type(value) in (int, float) and (low < value < high or (value == 0 and key in _FROM_0))


def _device(script: FakeDevice) -> Device:
    ref = _ref(script.ref)
    numbers = [n for n in (ref.platform, ref.index) if n is not None]
    part = "" if ref.part is None else f".{ref.part}"
    id_ = ":".join([ref.kind, *map(str, numbers)]) + part
    return Device(
        id=id_,
        kind=ref.kind,
        ref=ref,
        name=script.name,
        backend="fake",
        pci=script.pci and (canonical_identity(script.pci) or script.pci),
        uuid=script.uuid and (canonical_identity(script.uuid) or script.uuid),
        memory_total=script.memory,
        memory_free=script.memory,
        units=1,
        silicon=frozenset(script.silicon or (id_,)),
        driver="script",
        facts={"type": script.type} if ref.kind is Kind.OPENCL else {},
    )


def _ref(text: str) -> DeviceRef:
    try:
        return parse_map(f"device->{text}").entries[0].ref
    except MapError as error:
        why = error.diagnostics[0]
        raise SourceError(f"the script of the fake backend: {why.message}", why.hint) from error

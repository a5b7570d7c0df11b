"""The script of the `fake` backend: which devices there are, what takes how long, what goes wrong.

It is the TOML file that GPUMAP_FAKE names; without one there are two devices of each kind. Reports
made with it are marked `simulated`.

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
    hardware = ["card 0"]           # what it shares with other devices
    engine = "bus 0"               # devices of one engine never work at the same time
    features = ["kernels", "float64"]  # also pinned, events, float16, bfloat16, tf32
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
    fault = "lost"                 # lost, memory, wrong-product, hang (for real), hang-copy (only
                                   # of copies to another device); of copies: flip (a byte), short
                                   # (of its last byte), nothing (is moved)
    fault_in = "download"          # of which copies: upload, download (default) or copy
    fault_after = 3                # commands that go well before it
    slow_first = 0.0               # seconds more for the first of each command: a compiler, say

What follows multiplies the time of each command, by a factor that is drawn when it starts; without
these keys times are exact.

    noise = 0.02                   # deviation of the logarithm of a normal noise; its median is 1
    noise_seed = 1                 # another seed is another run; each device has its own noise
    throttle_after = 5.0           # seconds of scripted time from which on
    throttle = 1.4                 # a command takes so many times as long

Many commands in a sample average their noise; of equal iterations in a row a thousand are drawn,
and the rest take the mean of those. Every device draws from a generator of its own, seeded by its
id and `noise_seed`: the same commands take the same times again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct, ValidationError, convert

from gpumap import config
from gpumap.backends.base import Clock
from gpumap.dtypes import has_bfloat16
from gpumap.errors import MapError, SourceError
from gpumap.files import check_writable
from gpumap.model import Device, Kind, replace
from gpumap.parse import canonical_identity, parse_map

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


Fault = Literal[
    "", "lost", "memory", "flip", "short", "nothing", "wrong-product", "hang", "hang-copy"
]  # fmt: skip


_DEFAULT_REFS = ("cuda0", "cuda1", "opencl0:0", "opencl0:1", "cpu0", "cpu1")


Whole = Annotated[int, Meta(ge=0, lt=10**18)]
# No figure of a script is larger: sums of it stay exact enough to tell apart.
Positive = Annotated[float, Meta(gt=1e-18, lt=1e18)]  # divided by, or multiplied
FromZero = Annotated[float, Meta(ge=0.0, lt=1e18)]


class FakeDevice(Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[device]]` of a script; the fields are explained in the module's docstring."""

    ref: str
    name: str = "Fake device"
    pci: str | None = None
    uuid: str | None = None
    type: str = "gpu"
    memory: Whole = 16 << 30
    hardware: tuple[str, ...] = ()
    engine: str | None = None
    features: tuple[str, ...] = (
        "kernels", "float64", "float16", "bfloat16", "tf32", "events", "pinned",
    )  # fmt: skip
    rate: Positive = 1e11
    double: Positive = 1.0
    peak: FromZero = 0.0
    launch: FromZero = 0.0
    latency: FromZero = 0.0
    bandwidth: Positive = 1e10
    large_from: Whole = 0
    large_latency: FromZero = 0.0
    large_bandwidth: Positive = 1e10
    fault: Fault = ""
    fault_in: Literal["upload", "download", "copy"] = "download"
    fault_after: Whole = 0
    slow_first: FromZero = 0.0
    noise: Annotated[float, Meta(ge=0.0, lt=1.0)] = 0.0
    noise_seed: Whole = 0
    throttle: Positive = 1.0
    throttle_after: FromZero = 0.0

    @property
    def varies(self) -> bool:
        """Whether any command takes longer than another."""
        return bool(self.noise or self.throttle != 1.0)

    def factor(self, moment: float, drawn: Random) -> float:
        """Return what multiplies the time of a command that starts at `moment`."""
        factor = math.exp(self.noise * drawn.gauss(0.0, 1.0)) if self.noise else 1.0
        return factor * self.throttle if moment >= self.throttle_after else factor


class FakeHost(Struct, frozen=True, forbid_unknown_fields=True):
    """The `[host]` of a script."""

    rate: Positive = 1e11
    latency: FromZero = 0.0


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """All that a script says; `log` is a file beside it."""

    device: tuple[FakeDevice, ...] = ()
    log: str | None = None
    host: FakeHost = FakeHost()


def default() -> Script:
    """Return what there is without a script."""
    # a copy that takes next to nothing would be repeated a million times to be timed
    return Script(tuple(FakeDevice(ref, latency=5e-6) for ref in _DEFAULT_REFS))


def read(path: Path) -> Script:
    """Read a script.

    Raises:
        SourceError: it cannot be read, or says what no script can.
    """
    try:
        script = convert(config.read(path), Script)
    except ValidationError as error:
        hint = "`python -m pydoc gpumap.backends.fake.script` shows a script"
        raise SourceError(f"{path}: {error}", hint) from error
    ids = [device_of(each).id for each in script.device]
    if repeated := {id_ for id_ in ids if ids.count(id_) > 1}:
        raise SourceError(f"{path}: {min(repeated)} is defined twice", "keep one of them")
    if script.log is None:
        return script
    log = path.parent / script.log
    check_writable(log)
    return replace(script, log=str(log))


def features(script: FakeDevice) -> frozenset[Any]:
    """Return what a session on a scripted device has."""
    return frozenset(script.features) - (set() if has_bfloat16() else {"bfloat16"})


def device_of(script: FakeDevice) -> Device:
    """Return a scripted device as a backend finds it."""
    try:
        ref = parse_map(f"device->{script.ref}").entries[0].ref
    except MapError as error:
        why = error.diagnostics[0]
        raise SourceError(f"the script of the fake backend: {why.message}", why.hint) from error
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
        hardware=frozenset(script.hardware or (id_,)),
        driver="script",
        facts={"type": script.type} if ref.kind is Kind.OPENCL else {},
    )


_DRAWN = 1000  # equal iterations in a row, for which what differs is drawn


class FakeClock(Clock):
    """A clock that stands still unless something scripted, or `sleep`, takes time."""

    scripted = True

    def __init__(self, host: FakeHost | None = None) -> None:
        self._now = 0.0
        self._host = host or FakeHost()
        self.spoilt: int | None = None  # the first wrong byte that a command since has written
        self.joined = False  # a device was told to wait for another one
        self._engines: list[Engine] = []
        self._even = True
        self._draws = True

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

    def go_to(self, moment: float) -> None:
        """Show the time of another thread of the host, which may be earlier."""
        self._now = moment

    def run_concurrently(self, jobs: Sequence[Callable[[], None]]) -> None:
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

    def follow(self, engine: Engine, *, even: bool, draws: bool) -> None:
        """Know of an engine that works by this clock, and how its commands differ.

        `even`: they do not; `draws`: by what is drawn for each, and by nothing else.
        """
        if not any(engine is known for known in self._engines):
            self._engines.append(engine)
        self._even = self._even and even
        self._draws = self._draws and draws

    def repeat(self, job: Callable[[], None], times: int) -> None:
        """Run a job `times` times: in one step, once it takes as long as the time before.

        What is drawn for each command is drawn a thousand times; the rest take the mean of those.
        """
        step: list[float] = []
        began = self._moments()
        for done in range(1, times + 1):
            moments, self.joined = self._moments(), False
            job()
            before, step = step, [b - a for a, b in zip(moments, self._moments(), strict=False)]
            even = self._even or not any(step[1:])  # the host alone is always even
            if even and _steady(before, step, joined=self.joined):
                self._advance(step, times - done)
                return
            if done == _DRAWN and self._draws:
                mean = [(b - a) / done for a, b in zip(began, self._moments(), strict=True)]
                self._advance(mean, times - done)
                return

    def _advance(self, step: Sequence[float], times: int) -> None:
        """Let the host and each engine work on as in a step, so many times."""
        self._now += times * step[0]
        for engine, more in zip(self._engines, step[1:], strict=True):
            engine.free += times * more

    def _moments(self) -> list[float]:
        """Return the moment of the host, and those at which each engine will be free."""
        return [self._now, *(engine.free for engine in self._engines)]


def _steady(before: Sequence[float], step: Sequence[float], *, joined: bool) -> bool:
    """Return whether the host and each engine will go on as in two iterations behind each other.

    They will where the host falls behind no engine, and no engine behind another that it waits for.
    """
    if len(before) != len(step) or not all(map(math.isclose, before, step)):
        return False
    host, *engines = step
    moved = sorted(seconds for seconds in engines if seconds > 0.0)
    if not moved:
        return True
    ahead = host < moved[0] or math.isclose(host, moved[0])
    return ahead and (not joined or math.isclose(moved[0], moved[-1]))


@dataclass(slots=True)
class Engine:
    """What works off commands: one device's own, or shared by several that never overlap."""

    free: float = 0.0  # the moment at which it has done all it was given
    drawn: dict[str, Random] = field(default_factory=dict)  # the noise of each device, by id

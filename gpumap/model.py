"""The nouns of gpumap: what flows between parsing, resolving, measuring, judging and reporting.

Everything is frozen. Quantities are in SI base units (seconds, bytes, hertz); unknown is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from gpumap.errors import Diagnostic, Span

Param = str | int | float | bool
Origin = Literal[
    "argument", "--map", "--map-file", "GPUMAP_CONTEXTS", "gpumap.toml",
    "THEANO_FLAGS", ".theanorc", "default",
]  # fmt: skip
SHORTEST = 1e-3  # seconds of a sample: a thousand times what a timer resolves


class Kind(StrEnum):
    """The family of a device."""

    CUDA = "cuda"
    OPENCL = "opencl"
    CPU = "cpu"


# --- the map -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeviceRef:
    """A device as the map asks for it, before anything looked for it."""

    kind: Kind
    index: int | None = None  # None: the kind's default device, or all cores
    platform: int | None = None  # opencl only
    part: int | None = None  # opencl only: the sub-device of one compute unit
    identity: str | None = None  # cuda only: a PCI bus id or a UUID

    def __str__(self) -> str:
        if self.identity is not None:
            return f"{self.kind}@{self.identity}"
        platform = "" if self.platform is None else f"{self.platform}:"
        index = "" if self.index is None else str(self.index)
        part = "" if self.part is None else f".{self.part}"
        return f"{self.kind}{platform}{index}{part}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One `name->device` of a map. Two entries are equal whatever place they stand at."""

    name: str
    ref: DeviceRef
    span: Span = field(default=Span(0, 0), compare=False)

    def __str__(self) -> str:
        return f"{self.name}->{self.ref}"


@dataclass(frozen=True, slots=True)
class ContextMap:
    """Names mapped to device references, in the order they were written."""

    entries: tuple[Entry, ...]
    text: str = field(default="", compare=False)
    notes: tuple[Diagnostic, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return ";".join(map(str, self.entries))


@dataclass(frozen=True, slots=True)
class MapText:
    """The text of a map, where it was found, and what its source dropped on the way."""

    text: str
    origin: Origin
    path: str | None = None
    notes: tuple[Diagnostic, ...] = ()


# --- devices -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Device:
    """A device that really is there.

    Two devices whose `silicon` shares an element share hardware; `id` is unique on this machine.
    """

    id: str
    kind: Kind
    ref: DeviceRef
    name: str
    backend: str
    pci: str | None = None
    uuid: str | None = None
    memory_total: int | None = None
    memory_free: int | None = None
    units: int | None = None  # compute units: cores, multiprocessors
    numa_node: int | None = None
    cores: tuple[int, ...] = ()  # the logical CPUs that it is, or that are near it
    silicon: frozenset[str] = frozenset()
    driver: str | None = None
    facts: Mapping[str, Param] = field(default_factory=dict, hash=False)  # for its backend alone

    @property
    def in_host_memory(self) -> bool:
        """Return whether it works in the host's memory: a core, or what OpenCL makes of some.

        The cores of a device that is plugged in are those near it.
        """
        if self.kind is Kind.CPU:
            return True
        return self.pci is None and (bool(self.cores) or self.facts.get("type") == "other")


@dataclass(frozen=True, slots=True)
class Probe:
    """Whether a backend can be used here; if not, why, and what would mend it."""

    name: str
    usable: bool
    version: str | None = None
    reason: str | None = None
    fix: str | None = None
    devices: tuple[Device, ...] = ()
    notes: tuple[str, ...] = ()  # platforms without devices, parts that cannot be used


@dataclass(frozen=True, slots=True)
class Binding:
    """A name and the device that it really is."""

    name: str
    device: Device


@dataclass(frozen=True, slots=True)
class Resolution:
    """A map of which every name was found, and what is worth knowing about it."""

    map: ContextMap
    bindings: tuple[Binding, ...]
    notes: tuple[Diagnostic, ...] = ()


# --- the machine -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class State:
    """How busy the machine was: shares are of all its cores, over the time since the last look."""

    load1: float | None
    steal: float | None
    busy: float | None
    clocks_hz: Mapping[str, float]
    gpus: tuple[GpuState, ...] = ()  # the map's CUDA devices, where NVML tells


@dataclass(frozen=True, slots=True)
class GpuState:
    """How a CUDA device ran at one moment; what its driver does not tell is None."""

    device: str  # its id
    clocks_hz: Mapping[str, float] = field(default_factory=dict)
    power: float | None = None
    temperature: float | None = None  # degrees Celsius
    throttle: tuple[str, ...] | None = None  # what holds it back; idleness and settings do not


@dataclass(frozen=True, slots=True)
class LinkState:
    """What the system tells of a device's link to the host; what it does not tell is None."""

    node: int | None = None  # NUMA node that the device is near
    nodes: tuple[int, ...] = ()  # of the cores that this process may run on; empty: not known
    core_node: int | None = None  # of the core that it ran on last
    bridges: tuple[str, ...] | None = None  # PCI addresses above the device, the root's first
    width: int | None = None  # lanes, as it is now
    max_width: int | None = None
    speed: float | None = None  # transfers per second and lane, as it is now
    max_speed: float | None = None
    narrow: tuple[str, int] | None = None  # a bridge with fewer lanes than the device, and those
    translated: bool | None = None  # whether an IOMMU translates the addresses that it copies to
    translated_by: str = ""  # how that is known, or why not


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What makes two reports comparable: the same machine with the same libraries."""

    hash: str
    cpu: str
    cores: int
    os: str
    python: str
    libraries: Mapping[str, str]
    devices: tuple[str, ...]
    drivers: Mapping[str, str]
    links: tuple[str, ...]


# --- measuring ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval; the interval holds in this run."""

    value: float
    low: float
    high: float
    unit: str


@dataclass(frozen=True, slots=True)
class Work:
    """What one round of a case does."""

    products: int = 0
    operations: int = 0
    bytes_to_device: int = 0
    bytes_to_host: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """A benchmark at one set of parameters on named devices; `id` is free of hardware."""

    bench: str
    name: str
    params: Mapping[str, Param]
    bindings: tuple[Binding, ...]
    work: Work
    against: str | None = None  # the id of the reference
    skip: Reason | None = None  # why it cannot be measured here
    route: str | None = None
    ordered: bool = False  # from the first name to the second

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the devices that it runs on."""
        return tuple(binding.name for binding in self.bindings)

    @property
    def backend(self) -> str:
        """Return the backends that drive it."""
        return "+".join(dict.fromkeys(binding.device.backend for binding in self.bindings))

    @property
    def id(self) -> str:
        """Return what `compare` joins on: ``dot.one[dtype=float32,names=dev0,size=1024]``."""
        names = (">" if self.ordered else "+").join(map(_quoted, self.names))
        keys = {**self.params, "backend": self.backend, "names": names}
        inside = ",".join(f"{key}={keys[key]}" for key in sorted(keys) if key not in _NOT_IN_ID)
        return f"{self.bench}.{self.name}[{inside}]"


_NOT_IN_ID = ("size_name",)  # another word for the bytes
_SPECIAL = str.maketrans({c: f"%{ord(c):02x}" for c in "%+,=[]>"})  # would end a name in an id


def _quoted(name: str) -> str:
    return name.translate(_SPECIAL)


@dataclass(frozen=True, slots=True)
class Group:
    """Cases that are compared with each other: every block holds each of them once."""

    cases: tuple[Case, ...]
    key: str = ""  # what its anchor stands beside
    optional: tuple[int, ...] = ()  # their order, if the later are left out where the budget ends
    shortest: float = SHORTEST  # seconds of a sample, at least


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be measured, and the memory that it takes."""

    groups: tuple[Group, ...]
    memory: Mapping[str, int] = field(default_factory=dict)  # device id, or "host", to bytes
    largest_buffer: int = 0

    @property
    def cases(self) -> tuple[Case, ...]:
        """Return every case, in the order of measuring."""
        return tuple(case for group in self.groups for case in group.cases)


@dataclass(frozen=True, slots=True)
class Samples:
    """The times of a case, raw: seconds for one round each, in time order; nothing is dropped."""

    seconds: tuple[float, ...] = ()
    blocks: tuple[int, ...] = ()
    rounds_per_sample: int = 1
    clock: str = "host"
    queue: tuple[float, ...] = ()  # seconds in which the host queued one round
    cpu: tuple[float, ...] = ()  # CPU seconds of the process, all threads, for one round
    empty_sync: float | None = None  # seconds of a wait that has nothing to wait for
    worked: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    spans: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    marks: tuple[SampleMark, ...] = ()


@dataclass(frozen=True, slots=True)
class SampleMark:
    """What is odd about a sample; it stays all the same."""

    sample: int
    mark: str
    detail: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Why measuring ended, and what the samples are worth."""

    why: str
    n: int
    warmup: int
    autocorrelation: float
    effective_n: float


@dataclass(frozen=True, slots=True)
class Check:
    """Whether the data were right: `method` says how that was found out."""

    method: str
    passed: bool
    max_error: float | None = None
    bound: float | None = None
    nbytes: int | None = None
    first_bad_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a row was skipped or failed: a stable code, and words."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Around:
    """What else the machine did while a group of cases was measured."""

    foreign: float | None = None  # cores that other processes kept busy
    steal: float | None = None  # share of all cores' time that the hypervisor took


@dataclass(frozen=True, slots=True)
class Limit:
    """What physics allows a metric to be, and how that is known."""

    metric: str
    value: float
    unit: str
    source: str  # measured, and how; or computed, and from what


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What physics allows a figure to be, and how much of it was reached."""

    metric: str
    value: float
    unit: str
    share: float
    source: str  # measured, and how; or computed, and from what


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a figure is not what it could be: one cause of a closed list, and its figures."""

    cause: str
    text: str
    figures: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measurement:
    """A case with its samples, its check and its status."""

    case: Case
    status: Literal["ok", "skipped", "failed"]
    reason: Reason | None = None
    flags: tuple[str, ...] = ()
    samples: Samples | None = None
    stop: Stop | None = None
    check: Check | None = None
    metrics: Mapping[str, Estimate] = field(default_factory=dict)
    around: Around | None = None
    ceiling: Ceiling | None = None
    explanation: Explanation | None = None
    route: str | None = None  # how copies went, where only doing them tells


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """What a program did on a device, or moved: seconds since its context was opened.

    A device that cannot tell when its queue came to a place leaves both times None.
    """

    name: str
    device: str  # a name of the map, "cpu", or "dev0->dev1"
    kind: Literal["operation", "transfer"]
    nbytes: int
    shape: tuple[int, ...]
    implicit: bool
    start: float | None
    stop: float | None
    line: str | None = None  # of the program, that caused it: "script.py:12"; None: not known


@dataclass(frozen=True, slots=True)
class Trace:
    """What a program did by one context, in the order of queueing."""

    number: int  # of the context, counted from 1 in the order of opening
    bindings: tuple[Binding, ...]
    policy: str
    opened: float | None  # seconds since the first one was; None: on a clock of its own
    closed: bool  # by the program
    events: tuple[TraceEvent, ...] = ()


# --- judging -----------------------------------------------------------------------------------

VerdictWord = Literal[
    "pass", "fail", "regression", "improvement", "same", "inconclusive",
    "missing", "new", "skipped",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a limit or a comparison.

    Of a comparison, `value` with its interval is new over base, and `threshold` the change that
    counts; of a limit it is the figure itself.
    """

    rule: str
    text: str
    id: str | None  # of the row that it judges; None: there is none
    metric: str
    verdict: VerdictWord
    value: float | None = None
    low: float | None = None
    high: float | None = None
    limit: float | None = None
    base: float | None = None
    threshold: float | None = None
    confirmed: bool | None = None


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """Whether bytes came back from a device as they were sent; `reason` says why not."""

    device: Device
    name: str | None = None  # None: the map does not name it
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Alarms:
    """What the runs of A against A were called at a threshold: all but `same` is wrong."""

    threshold: float
    regression: int = 0
    improvement: int = 0
    same: int = 0
    inconclusive: int = 0

    @property
    def false(self) -> int:
        """Return how many runs were called another than they are; who cannot tell says nothing."""
        return self.regression + self.improvement


@dataclass(frozen=True, slots=True)
class Noise:
    """What this machine's own noise does to verdicts on one device."""

    id: str  # of the row called B
    device: str
    name: str
    runs: int
    run_blocks: int
    floor: float | None  # the smallest threshold that noise does not reach; None: too few blocks
    alarms: tuple[Alarms, ...] = ()


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What a self-test found."""

    round_trips: tuple[RoundTrip, ...] = ()
    noise: tuple[Noise, ...] = ()
    stored: str | None = None  # the file that keeps the noise floors


# --- predicting --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a number of devices would give with an algorithm: computed, never measured."""

    algorithm: str
    devices: int
    metrics: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class Payoff:
    """From which size of a step on a second device pays, and which number of devices pays most."""

    algorithm: str
    metrics: Mapping[str, Estimate]  # from_compute; with a batch, from_batch
    pays: Literal["yes", "no", "unclear"] | None = None  # a second one; None: no compute time known
    best: int | None = None  # of the numbers of devices that were asked for, the fastest


@dataclass(frozen=True, slots=True)
class LinkCost:
    """What a message between two devices costs, and how that is known."""

    source: str  # "given", or the id of a model
    latency: Estimate
    bandwidth: Estimate
    lines: tuple[tuple[float, float, float], ...]  # (from byte, s, s/B)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a data-parallel step would take on several devices, and what that is computed from.

    Strong scaling splits the work of one device; weak scaling gives each device as much.
    """

    nbytes: int  # that each device exchanges in a step
    link: LinkCost
    scaling: Literal["strong", "weak"]
    network: str | None = None
    compute: float | None = None  # seconds of a step on one device
    batch: int | None = None  # examples of that step
    forecasts: tuple[Forecast, ...] = ()
    payoffs: tuple[Payoff, ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """A published time: of training alone, and of the exchanges beside it."""

    row: str
    network: str
    devices: int
    train: float
    comm: float | None  # None: nothing is said of it
    text: str  # as published: 10.35+0.78
    batch: int | None = None  # examples on each device
    examples: int | None = None  # that the times are for
    nbytes: int | None = None  # that each device exchanges in a step
    metrics: Mapping[str, Estimate] = field(default_factory=dict)
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What exchanges took, and what a model says that was not fitted to them."""

    devices: int
    predicted: float
    measured: float

    @property
    def miss(self) -> float:
        """Return how far the prediction is off, as a share of what was measured."""
        return self.predicted / self.measured - 1.0


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A row, predicted from the exchanges of all others: fixed cost, and bytes over bandwidth."""

    row: str
    fixed: float  # seconds of an exchange
    bandwidth: float
    exchanged: tuple[Exchanged, ...]


@dataclass(frozen=True, slots=True)
class OtherLink:
    """That a number of devices does not go by the model of fewer ones; ends over all rows."""

    devices: int
    ratio: tuple[float, float]  # measured over predicted
    bandwidth: tuple[float, float] | None  # that it takes; None: not even an infinite one would do


@dataclass(frozen=True, slots=True)
class Published:
    """A table that was published, what follows from its cells, and what predicts them."""

    origin: str  # a file, or the table that gpumap ships
    source: tuple[str, ...]  # what the table says of itself
    cells: tuple[Cell, ...]
    fitted: tuple[int, ...] = ()  # the numbers of devices that the models are fitted to
    models: tuple[LeftOut, ...] = ()
    others: tuple[OtherLink, ...] = ()


# --- the report --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A size that a model was not fitted to: what it predicts, and what was measured."""

    nbytes: int
    predicted: float
    measured: float

    @property
    def miss(self) -> float:
        """Return how far the prediction is off, as a share of what was measured."""
        return self.predicted / self.measured - 1.0 if self.measured > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class Fit:
    """The cost of a kind of copy as latency and bandwidth; `lines` are (from byte, s, s/B)."""

    id: str
    case: Case  # one of those that it was fitted to
    fits: bool
    regimes: int
    sizes: tuple[int, ...]
    residual: float
    held_back: HeldBack | None
    metrics: Mapping[str, Estimate]
    lines: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, slots=True)
class Shares:
    """Where the time of some calls went: seconds, and shares of them; and what the host took."""

    calls: int
    total: float
    host: float
    upload: float
    compute: float
    download: float
    overhead: float


@dataclass(frozen=True, slots=True)
class BreakEven:
    """From which size on a device beats what it is held against.

    `wins` are ranges of bytes, from the smallest to the largest size at which it was seen to win;
    the last one has no end if it still won at `measured_to`, the largest size.
    """

    case: Case
    workload: str
    against: str
    wins: tuple[tuple[int, int | None], ...]
    measured_to: int
    why_stopped: str
    metrics: Mapping[str, Estimate]
    shares: Mapping[int, Shares] = field(default_factory=dict)  # by the bytes of x
    check: Check | None = None  # the worst of all sizes
    reason: Reason | None = None  # why it could not be told

    @property
    def id(self) -> str:
        """Return what a limit selects it by."""
        return self.case.id

    @property
    def decided(self) -> bool:
        """Return whether any size was looked at: else nothing is known, and not that it loses."""
        return bool(self.metrics)


DoctorVerdict = Literal["used", "partly", "not used"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause that holds, with what shows it: `code` and `cause` are of `doctor`'s table."""

    code: str
    cause: str
    text: str
    fix: str
    figures: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Example:
    """A workload of Theano's users on a device and on the host: seconds of one call of many.

    `found` says what such calls suffer from, if anything; it is no fault of the set-up.
    """

    workload: str
    words: str
    calls: int
    device: Estimate
    host: Estimate
    shares: Shares | None = None  # None: its parts were not told apart
    found: Finding | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Whether a name's device is used, and if not, why: the first finding is the cause.

    A map that cannot be read has one without a name.
    """

    name: str | None
    asked: str | None
    verdict: DoctorVerdict
    evidence: str
    findings: tuple[Finding, ...] = ()
    figures: Mapping[str, Estimate] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class Acceptance:
    """That a report was put in the place of a base, by whom it concerns: when, and why."""

    when: str
    reason: str
    verdicts: Mapping[str, int]  # how many there were of each word
    base_started: str
    new_started: str


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as a report keeps it: a diagnostic and the exit code that it stands for."""

    diagnostic: Diagnostic
    exit: int


@dataclass(frozen=True, slots=True)
class Report:
    """The map, the machine and all measurements of one run."""

    kind: str
    argv: tuple[str, ...]
    started: str
    ended: str
    elapsed: float
    status: str
    exit_code: int
    simulated: bool
    settings: Mapping[str, Any]
    source: MapText | None
    map: ContextMap | None
    bindings: tuple[Binding, ...]
    notes: tuple[Diagnostic, ...]
    devices: tuple[Device, ...]
    backends: tuple[Probe, ...]
    fingerprint: Fingerprint | None
    environment: Mapping[str, str | None]
    before: State | None
    after: State | None
    measurements: tuple[Measurement, ...] = ()
    plans: tuple[Plan, ...] = ()  # of a dry run
    fits: tuple[Fit, ...] = ()
    break_evens: tuple[BreakEven, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    selftest: SelfTest | None = None
    traces: tuple[Trace, ...] = ()  # one for each context of a program
    prediction: Prediction | None = None
    published: Published | None = None
    diagnoses: tuple[Diagnosis, ...] = ()  # one for each name, of `doctor`
    errors: tuple[Problem, ...] = ()
    accepted: tuple[Acceptance, ...] = ()  # how it became a base, the first time first
    version: str | None = None  # of the gpumap that wrote it, where it was read; else this one's

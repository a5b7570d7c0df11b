"""What a report of schema_version 1 looks like: every key, its type, the closed lists.

The schema that is published (`gpumap/report/schema-1.json`) says the same with more words; a test
holds the two together. Keys that this table does not have are passed over: within a version, keys
may be added. Those that were added have a default here, so that older reports stay readable.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from gpumap.model import (  # noqa: TC001 - msgspec reads annotations
    DoctorVerdict,
    ExampleOutcome,
    Kind,
    LimitOrigin,
    Origin,
    ProbeCode,
    VerdictReason,
    VerdictWord,
)

Natural = Annotated[int, Meta(ge=0)]
Number = int | float  # an int stays one: a report is written again as it was
Positive = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0.0)]
Share = Annotated[int, Meta(ge=0, le=1)] | Annotated[float, Meta(ge=0.0, le=1.0)]
Code = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9-]*\Z")]
Word = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_]*\Z")]
Words = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_]*(\+[a-z][a-z0-9_]*)*\Z")]
Bench = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_-]*\Z")]
CaseName = Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9_+-]*\Z")]
Id = Annotated[
    str,
    Meta(
        pattern=r"\A[a-z][a-z0-9_-]*(\.[a-z0-9][a-z0-9_+-]*)+"
        r"\[([a-z_0-9]+=[^,\[\]=]*(,[a-z_0-9]+=[^,\[\]=]*)*)?\]\Z"
    ),
]
Key = Annotated[str, Meta(pattern=r"\A[a-z_0-9]+\Z")]
Digits = Annotated[str, Meta(pattern=r"\A(?:0|[1-9][0-9]{0,17})\Z")]
Value = Annotated[str, Meta(pattern=r"\A(?:(?![,=\[\]])[ -~])*\Z")]  # would end in an id elsewhere
Moment = Annotated[
    str, Meta(pattern=r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z\Z")
]
Hash = Annotated[str, Meta(pattern=r"\Asha256:[0-9a-f.]+\Z")]
Version = Annotated[str, Meta(pattern=r"\A[0-9][0-9A-Za-z.+!-]*\Z")]

Status = Literal[
    "ok", "no", "error", "absent", "wrong-data", "inconclusive", "skipped", "timeout",
    "interrupted", "internal",
]  # fmt: skip
Command = Literal[
    "check", "devices", "doctor", "bench", "transfer-cost", "predict", "selftest", "compare",
    "trace",
]  # fmt: skip
Flag = Literal[
    "unstable",
    "shared-silicon",
    "warm-up-capped",
    "launch-bound",
    "power-capped",
    "over-ceiling",
    "impossible",
    "superlinear",
]
Route = Literal["host-to-device", "device-to-host", "peer", "staged", "same"]
Phase = Literal["input", "transfer", "compute", "sync", "comm", "update"]
Marked = Literal["outlier", "preempted", "throttled", "nonfinite"]
Why = Literal["precision", "decided", "blocks", "budget", "time limit", "interrupted", "error"]
Cause = Literal[
    "shared-silicon", "transfer-bound", "launch-bound", "busy-machine", "unequal-devices",
    "serialised", "synchronisation", "too-little-work", "unexplained",
    "shared-link", "half-duplex", "odd-pair", "slow-link", "host-faster",
]  # fmt: skip
Unit = Literal["s", "FLOP/s", "B/s", "1", "B", "1/s"]
Metric = Literal[
    "time", "rate", "bandwidth", "speedup", "speedup_over_one", "efficiency", "ideal",
    "ideal_balanced", "overlap", "spacing", "latency", "peak_bandwidth", "half_size", "size_90",
    "from_bytes", "predicted_from_bytes", "calls_to_amortise_setup", "examples_per_s", "comm",
    "fetch", "device_time", "speedup_over_host", "bus_bandwidth",
    "input", "transfer", "compute", "sync", "update", "moved", "loss",
]  # fmt: skip
UNITS: dict[Metric, Unit] = {
    "time": "s", "rate": "FLOP/s", "bandwidth": "B/s", "speedup": "1", "speedup_over_one": "1",
    "efficiency": "1", "ideal": "1", "ideal_balanced": "1", "overlap": "1", "spacing": "s",
    "latency": "s", "peak_bandwidth": "B/s", "half_size": "B", "size_90": "B", "from_bytes": "B",
    "predicted_from_bytes": "B", "calls_to_amortise_setup": "1", "examples_per_s": "1/s",
    "comm": "s", "fetch": "s", "device_time": "s", "speedup_over_host": "1", "bus_bandwidth": "B/s",
    "input": "s", "transfer": "s", "compute": "s", "sync": "s", "update": "s", "moved": "B",
    "loss": "1",
}  # fmt: skip


class Tool(Struct):
    """Who wrote it."""

    name: Literal["gpumap"]
    version: Version


class Note(Struct):
    """Something worth knowing."""

    code: Code
    severity: Literal["error", "warning", "note"]
    message: str
    entry: Annotated[int, Meta(ge=1)] | None
    span: tuple[Natural, Natural] | None
    hint: str | None
    name: str | None = None


class Problem(Struct):
    """Why the exit code is not 0."""

    code: Code
    message: str
    entry: Annotated[int, Meta(ge=1)] | None
    span: tuple[Natural, Natural] | None
    hint: str | None
    name: str | None
    exit: Literal[0, 1, 2, 3, 4, 5, 70, 124, 130, 141]  # 0: it was let pass
    severity: Literal["error", "warning", "note"] | None = None


class Entry(Struct):
    """An entry of the map, and the device that it is."""

    name: str
    asked: str
    device: str | None


class Map(Struct):
    """The map, and where it is from."""

    text: str
    source: Origin
    source_path: str | None
    entries: list[Entry]
    notes: list[Note]


class Link(Struct):
    """How a device is plugged in."""

    max_generation: Natural
    max_width: Natural
    width: Natural | None


class Device(Struct):
    """A device that is really there."""

    id: str
    kind: Kind
    ref: str
    name: str
    backend: Word
    pci: str | None
    uuid: str | None
    silicon: Annotated[list[str], Meta(min_length=1)]
    memory_total_bytes: Natural | None
    memory_free_bytes: Natural | None
    units: Natural | None
    numa_node: int | None
    cores: tuple[Natural, ...]
    driver: str | None
    link: Link | None = None


class Backend(Struct):
    """A library that was asked for devices."""

    name: Word
    usable: bool
    version: str | None
    reason: str | None
    fix: str | None
    notes: tuple[str, ...]
    code: ProbeCode | None = None


class Fingerprint(Struct):
    """What makes two reports comparable."""

    hash: Hash
    cpu: str
    cores: Annotated[int, Meta(ge=1)]
    os: str
    python: str
    libraries: dict[str, str]
    devices: tuple[str, ...]
    drivers: dict[str, str]
    links: tuple[str, ...]


class Gpu(Struct):
    """How a CUDA device ran."""

    device: str
    clocks_hz: dict[str, Positive]
    power_w: Positive | None
    temperature_c: Number | None
    throttle: tuple[str, ...] | None


class Process(Struct):
    """Another process."""

    name: str
    cores: Positive


class Others(Struct):
    """What other processes took."""

    cores: Positive
    of: Natural
    processes: list[Process]


class State(Struct):
    """How busy the machine was."""

    load1: Positive | None
    steal: Share | None
    busy: Share | None
    clocks_hz: dict[str, Number]
    gpus: list[Gpu]
    others: Others | None = None


class Machine(Struct):
    """The machine before and after."""

    before: State | None
    after: State | None


class Measuring(Struct):
    """The settings of a run that measured; others may be beside them."""

    seed: Natural
    precision: Share
    confidence: Annotated[float, Meta(ge=0.5, lt=1.0)]
    budget_s: Positive


class Figure(Struct):
    """A figure with its interval; what is no number that JSON can hold is null, and says what.

    Of too few samples for an interval both its ends are null.
    """

    value: Number | None
    low: Number | None
    high: Number | None
    unit: Unit
    nonfinite: Literal["nan", "inf", "-inf", "impossible"] | None = None


class Reason(Struct):
    """Why a row is not ok."""

    code: Code
    text: str


class Mark(Struct):
    """What is odd about a sample."""

    sample: Natural
    mark: Marked
    detail: str


class Spans(Struct):
    """When one device worked."""

    start_s: list[Number]
    stop_s: list[Number]


class Around(Struct):
    """What others took."""

    foreign_cores: Positive | None
    steal: Share | None
    busy_cores_before: Positive | None = None
    cores: Annotated[int, Meta(ge=1)] | None = None


class Stop(Struct):
    """Why measuring ended."""

    why: Why
    n: Natural
    warmup: Natural
    autocorrelation: Annotated[float, Meta(ge=-1.0, le=1.0)] | Annotated[int, Meta(ge=-1, le=1)]
    effective_n: Positive


class Check(Struct):
    """Whether the data were right: some keys are of bytes, the others of products."""

    method: str
    passed: bool
    max_error: Positive | None = None
    bound: Positive | None = None
    first_bad_offset: Natural | None = None
    bytes: Natural | None = None


class Ceiling(Struct):
    """What physics allows."""

    metric: Metric
    share: Positive
    value: Positive
    unit: Unit
    source: str
    origin: LimitOrigin


class Explanation(Struct):
    """The cause of a shortfall."""

    cause: Cause
    text: str
    figures: dict[str, Figure]


class Row(Struct):
    """A case on named devices, with its samples."""

    id: str
    bench: Bench
    case: CaseName
    params: dict[Key, Value | int | float | bool]
    names: Annotated[list[str], Meta(min_length=1)]
    devices: list[str]
    backend: Words
    route: Route | None
    status: Literal["ok", "skipped", "failed"]
    reason: Reason | None
    flags: tuple[Flag, ...]
    work: dict[str, Natural]
    samples: list[Positive | None]
    blocks: tuple[Natural, ...]
    rounds_per_sample: Annotated[int, Meta(ge=1)] | None
    clock: Literal["host", "device"] | None
    marks: list[Mark]
    queue_s: tuple[Positive, ...]
    cpu_s: tuple[Positive, ...]
    empty_sync_s: Positive | None
    worked_s: dict[str, tuple[Positive, ...]]
    spans: dict[str, Spans]
    around: Around | None
    stop: Stop | None
    check: Check | None
    metrics: dict[Metric, Figure]
    against: str | None
    ceiling: Ceiling | None
    explanation: Explanation | None
    phases_s: dict[Phase, tuple[Positive, ...]] = {}  # there since `bench train`


class Plan(Struct):
    """What a dry run would have measured."""

    cases: list[str]
    memory_bytes: dict[str, Natural]
    largest_buffer_bytes: Natural
    groups: list[Natural] | None = None  # how many of the cases each one has
    about: tuple[str, ...] = ()


class Held(Struct):
    """A size that was predicted, then measured."""

    bytes: Natural
    predicted_s: Number
    measured_s: Positive


class Line(Struct):
    """A regime of a model."""

    from_bytes: Positive
    latency_s: Number
    per_byte_s: Number


class Fit(Struct):
    """Latency and bandwidth."""

    id: str
    fits: bool
    regimes: Annotated[int, Meta(ge=1)]
    sizes_bytes: Annotated[tuple[Natural, ...], Meta(min_length=1)]
    residual_max: Positive | None
    held_back: Held | None
    metrics: dict[Metric, Figure]
    lines: list[Line] = []


class Shares(Struct):
    """Where the time of some calls went."""

    calls: Annotated[int, Meta(ge=1)]
    total_s: Positive
    host_s: Positive
    upload: Share
    compute: Share
    download: Share
    overhead: Share


class BreakEven(Struct):
    """From which size on a device pays."""

    id: str
    workload: str
    against: str
    wins: tuple[tuple[Natural, Natural | None], ...]
    measured_to_bytes: Natural
    why_stopped: str
    metrics: dict[Metric, Figure]
    shares: dict[Digits, Shares]
    check: Check | None
    reason: Reason | None


class Verdict(Struct):
    """The answer to a limit or a comparison."""

    rule: str
    text: str
    id: Id | None
    metric: Metric
    verdict: VerdictWord
    value: Number | None
    low: Number | None
    high: Number | None
    limit: Number | None
    base: Number | None
    threshold: Positive | None
    reason: VerdictReason | None
    relative: Figure | None


class RoundTrip(Struct):
    """Whether bytes came back."""

    device: str
    backend: Word
    name: str | None
    passed: bool
    reason: Reason | None
    ref: str | None = None


class Alarms(Struct):
    """Verdicts on runs of the same work."""

    id: Id
    device: str
    name: str
    threshold: Positive
    run_blocks: Natural
    false: Natural
    passed: Natural
    inconclusive: Natural


class SelfTest(Struct):
    """Round trips, and false alarms."""

    round_trips: list[RoundTrip]
    alarms: list[Alarms]


class TraceEntry(Struct):
    """A name of a context's map, and the device that it is."""

    name: str
    device: str
    backend: Word


class TraceEvent(Struct):
    """An operation, or a transfer."""

    name: str
    device: str
    kind: Literal["operation", "transfer"]
    bytes: Natural
    shape: tuple[Natural, ...]
    implicit: bool
    start_s: Number | None
    stop_s: Number | None
    line: str | None = None


class Moved(Struct):
    """Events together."""

    count: Natural
    bytes: Natural
    time_s: Positive | None


class Ran(Moved):
    """Events of one sort at one place."""

    name: str
    device: str
    kind: Literal["operation", "transfer"]
    implicit: bool


class Busy(Struct):
    """How long a device worked."""

    device: str
    names: list[str]
    events: Natural
    busy_s: Positive | None
    share: Share | None


class TraceSummary(Struct):
    """What the events of a trace come to."""

    span_s: Positive | None
    overlap: Share | None
    untimed: Natural
    ran: list[Ran]
    moved: Moved
    busy: list[Busy]


class Trace(Struct):
    """What a program did by one context."""

    context: Annotated[int, Meta(ge=1)]
    policy: Literal["visible", "strict"]
    opened_s: Number | None
    closed: bool
    entries: list[TraceEntry]
    summary: TraceSummary
    events: list[TraceEvent]


Foreseen = Literal[
    "comm", "time", "speedup", "efficiency", "examples_per_s", "compute_efficiency",
    "from_compute", "from_batch",
]  # fmt: skip
Count = Annotated[int, Meta(ge=1)]
Above = Annotated[int, Meta(gt=0)] | Annotated[float, Meta(gt=0.0)]
Times = Annotated[str, Meta(pattern=r"\A[0-9]{1,9}(\.[0-9]{1,9})?(\+[0-9]{1,9}(\.[0-9]{1,9})?)?\Z")]


class LinkCost(Struct):
    """What a message between two devices costs."""

    source: str
    latency: Figure
    bandwidth: Figure
    lines: Annotated[list[Line], Meta(min_length=1)]


class Forecast(Struct):
    """What a number of devices would give."""

    algorithm: Literal["native", "ring", "alltoall", "tree", "host"]
    devices: Count
    metrics: dict[Foreseen, Figure]


class Payoff(Struct):
    """Whether a second device pays."""

    algorithm: Literal["native", "ring", "alltoall", "tree", "host"]
    pays: Literal["yes", "no", "unclear"] | None
    best_devices: Count | None
    metrics: dict[Foreseen, Figure]


class Prediction(Struct):
    """What more devices would give."""

    bytes: Count
    network: str | None
    scaling: Literal["strong", "weak"]
    compute_s: Above | None
    batch: Count | None
    link: LinkCost
    forecasts: list[Forecast]
    payoffs: list[Payoff]


class Cell(Struct):
    """A cell of a published table."""

    row: str
    network: str
    devices: Count
    text: Times
    train_s: Above
    comm_s: Above | None
    batch: Count | None
    examples: Count | None
    bytes: Count | None
    metrics: dict[Foreseen, Figure]
    flags: tuple[Literal["super-linear", "super-linear-compute"], ...]


class Exchanged(Struct):
    """What exchanges took, and what was predicted."""

    devices: Count
    predicted_s: Positive
    measured_s: Above


class LeftOut(Struct):
    """A row that the others predict."""

    row: str
    fixed_s: Positive
    bandwidth: Above | None
    exchanges: list[Exchanged]


class OtherLink(Struct):
    """A number of devices that the model is not true of."""

    devices: Count
    ratio: tuple[Positive, Positive]
    bandwidth: tuple[Above, Above] | None


class Published(Struct):
    """A published table."""

    origin: str
    source: tuple[str, ...]
    cells: Annotated[list[Cell], Meta(min_length=1)]
    fitted_devices: tuple[Count, ...]
    models: list[LeftOut]
    other_links: list[OtherLink]


class Evidence(Struct):
    """What shows something: words, and figures."""

    text: str
    figures: dict[Word, Figure]


class Finding(Struct):
    """A cause that holds."""

    code: Annotated[str, Meta(pattern=r"\AGM[1-9][0-9]{2}\Z")]
    cause: Code
    evidence: Evidence
    fix: str


class Example(Struct):
    """Calls of a workload on a device and on the host."""

    workload: Word
    words: str
    calls: Annotated[int, Meta(ge=1)]
    device: Figure
    host: Figure
    shares: Shares | None
    found: Finding | None
    outcome: ExampleOutcome | None = None  # not believed: it follows from both times


class Diagnosis(Struct):
    """Whether a name's device is used, and if not, why."""

    name: str | None
    asked: str | None
    verdict: DoctorVerdict
    code: Annotated[str, Meta(pattern=r"\AGM[1-9][0-9]{2}\Z")] | None
    cause: Code | None
    evidence: Evidence
    fix: str | None
    behind: list[Finding]
    seen: Evidence
    examples: list[Example]


class Acceptance(Struct):
    """That a report was put in the place of another, as a base."""

    when: Moment
    reason: Annotated[str, Meta(pattern=r"\S")]
    verdicts: dict[VerdictWord, Annotated[int, Meta(ge=1)]]
    base_started: Moment
    new_started: Moment


class Rank(Struct):
    """A process of a job."""

    rank: Natural
    local_rank: Natural
    host: str
    process: Natural
    name: str | None
    device: str | None


class Report(Struct):
    """The whole of it."""

    kind: Command
    tool: Tool
    argv: tuple[str, ...]
    started: Moment
    ended: Moment
    elapsed_s: Positive
    status: Status
    exit_code: Literal[0, 1, 2, 3, 4, 5, 70, 124, 130]
    simulated: bool
    settings: dict[str, Any]
    map: Map | None
    devices: list[Device]
    backends: list[Backend]
    fingerprint: Fingerprint | None
    environment: dict[str, str | None]
    machine: Machine
    measurements: list[Row]
    plans: list[Plan]
    fits: list[Fit]
    break_evens: list[BreakEven]
    verdicts: list[Verdict]
    selftest: SelfTest | None
    errors: list[Problem]
    notes: list[Note] = []
    accepted: list[Acceptance] = []
    traces: list[Trace] = []
    prediction: Prediction | None = None
    published: Published | None = None
    diagnoses: list[Diagnosis] = []
    ranks: list[Rank] = []

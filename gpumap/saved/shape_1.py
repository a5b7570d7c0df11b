"""What a report looks like where its nouns have other forms in JSON: every key and its type.

The schema that is published (`gpumap/report/schema-2.json`) says the same with more words; a test
holds the two together. Keys that this table does not have are passed over: within a version, keys
may be added. Those that were added have a default here, so that older reports stay readable.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from gpumap.model import (
    Acceptance,
    Alarms,
    Around,
    Ceiling,
    Check,
    Diagnosis,
    Estimate,
    Explanation,
    Fingerprint,
    HeldBack,
    Kind,
    Line,
    Origin,
    Prediction,
    ProbeCode,
    Published,
    Reason,
    SampleMark,
    Shares,
    State,
    Stop,
    TraceEvent,
    Unit,
    Verdict,
)
from gpumap.model.types import (
    Bench,
    CaseName,
    Code,
    Count,
    Digits,
    Key,
    Moment,
    Natural,
    Number,
    Positive,
    Share,
    Value,
    Version,
    Word,
    Words,
)

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
    entry: Count | None
    span: tuple[Natural, Natural] | None
    hint: str | None
    name: str | None = None


class Problem(Struct):
    """Why the exit code is not 0."""

    code: Code
    message: str
    entry: Count | None
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


class Spans(Struct):
    """When one device worked."""

    start_s: list[Number]
    stop_s: list[Number]


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
    rounds_per_sample: Count | None
    clock: Literal["host", "device"] | None
    marks: list[SampleMark]
    queue_s: tuple[Positive, ...]
    cpu_s: tuple[Positive, ...]
    empty_sync_s: Positive | None
    worked_s: dict[str, tuple[Positive, ...]]
    spans: dict[str, Spans]
    around: Around | None
    stop: Stop | None
    check: Check | None
    metrics: dict[Word, Estimate]
    against: str | None
    ceiling: Ceiling | None
    explanation: Explanation | None
    phases_s: dict[Phase, tuple[Positive, ...]]


class Plan(Struct):
    """What a dry run would have measured."""

    cases: list[str]
    memory_bytes: dict[str, Natural]
    largest_buffer_bytes: Natural
    groups: list[Natural] | None = None  # how many of the cases each one has
    about: tuple[str, ...] = ()


class Fit(Struct):
    """Latency and bandwidth."""

    id: str
    fits: bool
    regimes: Count
    sizes_bytes: Annotated[tuple[Natural, ...], Meta(min_length=1)]
    residual_max: Positive | None
    held_back: HeldBack | None
    metrics: dict[Word, Estimate]
    lines: list[Line] = []


class BreakEven(Struct):
    """From which size on a device pays."""

    id: str
    workload: str
    against: str
    wins: tuple[tuple[Natural, Natural | None], ...]
    measured_to_bytes: Natural
    why_stopped: str
    metrics: dict[Word, Estimate]
    shares: dict[Digits, Shares]
    check: Check | None
    reason: Reason | None


class RoundTrip(Struct):
    """Whether bytes came back."""

    device: str
    backend: Word
    name: str | None
    passed: bool
    reason: Reason | None
    ref: str | None = None


class SelfTest(Struct):
    """Round trips, and false alarms."""

    round_trips: list[RoundTrip]
    alarms: list[Alarms]


class TraceEntry(Struct):
    """A name of a context's map, and the device that it is."""

    name: str
    device: str
    backend: Word


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

    context: Count
    policy: Literal["visible", "strict"]
    opened_s: Number | None
    closed: bool
    entries: list[TraceEntry]
    summary: TraceSummary
    events: list[TraceEvent]


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

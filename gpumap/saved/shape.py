"""A report as it is in JSON: every key with its type and its sentence, where no noun says it yet.

`gpumap.saved.schema` makes the published JSON Schema of it, and of the nouns. What the schema
demands and the reader tells in words of its own is `extra_json_schema`. Keys that no class here has
are passed over by the reader: within a version, keys may be added.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

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
    Level,
    Line,
    Origin,
    Prediction,
    ProbeCode,
    Published,
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
    "shared-hardware",
    "warm-up-capped",
    "launch-bound",
    "power-capped",
    "over-ceiling",
    "impossible",
    "superlinear",
]
Route = Literal["host-to-device", "device-to-host", "peer", "staged", "same"]
Phase = Literal["input", "transfer", "compute", "sync", "comm", "update"]
SomeId = Annotated[str, Meta(extra_json_schema={"$ref": "#/$defs/Id"})]
Figures = Annotated[dict[Word, Estimate], Meta(extra_json_schema={"$ref": "#/$defs/Metrics"})]


_WORK = ["bytes", "bytes_to_device", "bytes_to_host", "operations", "products"]
Work = Annotated[dict[str, Natural], Meta(extra_json_schema={"propertyNames": {"enum": _WORK}})]


def _unit(word: Unit) -> Meta:
    return Meta(extra_json_schema={"properties": {"unit": {"const": word}}})


Seconds = Annotated[Estimate, _unit("s")]
Rate = Annotated[Estimate, _unit("FLOP/s")]
ByteRate = Annotated[Estimate, _unit("B/s")]
Ratio = Annotated[Estimate, _unit("1")]
Bytes = Annotated[Estimate, _unit("B")]
PerSecond = Annotated[Estimate, _unit("1/s")]


class Metrics(Struct):
    """Figures of a row, a fit or a break-even: those that it has.

    Attributes:
        time: One round's time.
        rate: Operations a second.
        bandwidth: Bytes moved a second.
        bus_bandwidth: Bytes a second on each link of an exchange: 2 (N - 1) / N of the bytes over
            the time.
        speedup: T(reference) / T(case).
        speedup_over_one: T(one) / T(case), where the reference is another.
        speedup_over_host: T(host) / T(case), where the reference is another.
        efficiency: speedup / ideal.
        ideal: What this placement can reach.
        ideal_balanced: What the best split of the work could reach.
        overlap: Share of the time in which the devices worked together.
        issue_interval: Time between the starts of the devices.
        latency: What a copy of nothing takes.
        peak_bandwidth: What an endless copy reaches.
        n_half: The size that reaches half of the peak.
        size_90: The size that reaches 90 % of the peak.
        break_even: The size from which on the device wins.
        predicted_break_even: break_even, as the fit predicts it.
        calls_to_amortise_setup: Calls after which the set-up has paid.
        examples_per_s: Training examples a second.
        comm: Time spent on communication.
        device_time: One round by the device's own clock.
        input: Making a batch, per 5120 examples.
        transfer: Copying a batch to its device, per 5120 examples.
        compute: Forward and back, per 5120 examples.
        sync: Waiting for the slowest device, per 5120 examples.
        update: The optimizer, per 5120 examples.
        moved: Bytes that workers exchange, per 5120 examples.
        loss: On examples that were not trained on, behind as many as were asked for.
        fetch: What bringing the results to the host adds to a round; below 0: nothing is seen of
            it.
    """

    time: Seconds
    rate: Rate
    bandwidth: ByteRate
    bus_bandwidth: ByteRate
    speedup: Ratio
    speedup_over_one: Ratio
    speedup_over_host: Ratio
    efficiency: Ratio
    ideal: Ratio
    ideal_balanced: Ratio
    overlap: Ratio
    issue_interval: Seconds
    latency: Seconds
    peak_bandwidth: ByteRate
    n_half: Bytes
    size_90: Bytes
    break_even: Bytes
    predicted_break_even: Bytes
    calls_to_amortise_setup: Ratio
    examples_per_s: PerSecond
    comm: Seconds
    device_time: Seconds
    input: Seconds
    transfer: Seconds
    compute: Seconds
    sync: Seconds
    update: Seconds
    moved: Bytes
    loss: Ratio
    fetch: Seconds


class Computed(Struct):
    """Figures that are computed: those that there are.

    Attributes:
        comm: One exchange.
        time: A step; of a cell, training and exchanges.
        speedup: To one device.
        efficiency: The speed-up over the number of devices; above 1 it is left as it is.
        examples_per_s: Examples a second, all devices.
        compute_efficiency: The efficiency of training alone, without exchanges.
        from_compute: The compute of a step, on one device, from which a second one pays.
        from_batch: The same as examples.
    """

    comm: Seconds
    time: Seconds
    speedup: Ratio
    efficiency: Ratio
    examples_per_s: PerSecond
    compute_efficiency: Ratio
    from_compute: Seconds
    from_batch: Ratio


class Tool(Struct):
    """Who wrote it.

    Attributes:
        name: The tool.
        version: Of the tool.
    """

    name: Literal["gpumap"]
    version: Version


class Reason(Struct):
    """A code and words.

    Attributes:
        code: Stable.
        text: In words.
    """

    code: Code
    text: str


class Note(Struct):
    """Something worth knowing.

    Attributes:
        code: Stable; what a script may look at.
        severity: How much it matters; --strict makes a warning an error.
        message: What it is, in words; these may change.
        entry: The entry of the map that it is about, from 1.
        span: Half-open range of characters in map.text.
        hint: How to mend it.
        name: The name in the map that it is about.
    """

    code: Code
    severity: Literal["error", "warning", "note"]
    message: str
    entry: Count | None
    span: tuple[Natural, Natural] | None
    hint: str | None
    name: str | None


class Problem(Note):
    """Why the exit code is not 0.

    Attributes:
        exit: The exit code that it stands for; 0: it was let pass, by --inconclusive=pass or
            --if-absent=skip.
    """

    exit: Literal[0, 1, 2, 3, 4, 5, 70, 124, 130, 141]


class Entry(Struct):
    """An entry of the map, and the device that it is.

    Attributes:
        name: The user's word.
        requested: The device as asked for.
        device: The id of the device that it is; null: not found, or not looked for.
    """

    name: str
    requested: str
    device: str | None


class Map(Struct):
    """The map, and where it is from.

    Attributes:
        text: As it was written.
        source: Where it is from.
        source_path: The file, if it is from one.
        entries: Its entries; empty if it does not parse.
        notes: What is worth knowing about it.
    """

    text: str
    source: Origin
    source_path: str | None
    entries: list[Entry]
    notes: list[Note]


class Link(Struct):
    """How a device is plugged in.

    Attributes:
        max_generation: Of PCIe; idle, it drops to a lower one.
        max_width: Lanes that it can have.
        width: Lanes that it has; null: not known.
    """

    max_generation: Natural
    max_width: Natural
    width: Natural | None


class Device(Struct):
    """A device that is really there.

    Attributes:
        id: Unique on this machine.
        kind: Its family.
        ref: As a map writes it.
        name: As its driver calls it.
        backend: The library that drives it.
        pci: PCI bus id.
        uuid: As its driver prints it.
        hardware: The hardware that it is; devices that share an element share it.
        memory_total_bytes: Its memory.
        memory_free_bytes: Of it, free when looked at.
        units: Compute units: cores, multiprocessors.
        numa_node: The NUMA node that it is near.
        cores: The logical CPUs that it is, or that are near it.
        driver: Its driver and version.
        link: How it is plugged in, by PCIe; null: not known.
    """

    id: str
    kind: Kind
    ref: str
    name: str
    backend: Word
    pci: str | None
    uuid: str | None
    hardware: Annotated[list[str], Meta(min_length=1)]
    memory_total_bytes: Natural | None
    memory_free_bytes: Natural | None
    units: Natural | None
    numa_node: int | None
    cores: tuple[Natural, ...]
    driver: str | None
    link: Link | None


class Backend(Struct):
    """A library that was asked for devices.

    Attributes:
        name: As --backend takes it.
        usable: Whether it can be used here.
        version: Its version.
        reason: Why it cannot be used.
        fix: What would mend that.
        notes: What it could not use, and why.
        code: How the process ended that asked, if it gave no answer: no-answer (its driver hangs),
            still-working (it used CPU time: it compiles), crashed.
    """

    name: Word
    usable: bool
    version: str | None
    reason: str | None
    fix: str | None
    notes: tuple[str, ...]
    code: ProbeCode | None


class Machine(Struct):
    """The machine before and after.

    Attributes:
        before: Before.
        after: After.
    """

    before: State | None
    after: State | None


class Measuring(Struct):
    """The settings of a run that measured; others may be beside them."""

    seed: Natural
    precision: Share
    confidence: Annotated[float, Meta(ge=0.5, lt=1.0)]
    budget_s: Positive


class Spans(Struct):
    """When one device worked.

    Attributes:
        start_s: Starts, in time order.
        stop_s: Ends; as many.
    """

    start_s: list[Number]
    stop_s: list[Number]


class Row(Struct):
    """A case on named devices, with its samples.

    Attributes:
        id: BENCH.CASE[key=value,...]: keys sorted, names joined by + (ordered pairs by >); unique
            in a report, free of hardware. What `compare` joins on and a limit selects by prefix.
        bench: The benchmark.
        case: What of it.
        params: Size, type and whatever else it was run with.
        names: The names that it ran on.
        devices: Their devices' ids.
        backend: The backends, joined by +.
        route: How a copy went.
        status: Whether it was measured.
        reason: Why it is not ok.
        flags: What to bear in mind.
        work: What one round does.
        samples: Seconds of one round, in time order, none dropped; null with a mark for one that is
            no number.
        blocks: The block of each sample.
        iterations_per_sample: How often a sample repeated the work.
        clock: Whose clock the samples are of.
        sample_notes: What is odd about single samples.
        queue_s: Seconds of each sample in which the host queued one round.
        cpu_s: CPU seconds of the process, all threads, for one round of each sample; none where the
            clock is scripted.
        empty_sync_s: Seconds of a wait that has nothing to wait for; never subtracted.
        worked_s: Name to the CPU seconds of its device's own thread within each span; only devices
            that have one.
        intervals: Name to when its device worked, in the first round of each sample.
        around: What else the machine did while the row's group was measured; null where the row has
            no figures.
        stop: Why measuring ended, and what the samples are worth.
        check: Null: not reached.
        metrics: What follows from the samples; empty for a row without a true result.
        against: The id of the reference.
        ceiling: What physics allows, and the share of it that was reached.
        explanation: Why a figure is not what it could be: a speed-up, what copies gain at once, a
            bandwidth; null: it is, or nothing is known.
        phases_s: What one round of each sample went into, in seconds by phase; only benchmarks that
            tell their phases apart.
    """

    id: SomeId
    bench: Bench
    case: CaseName
    params: dict[Key, Value | int | float | bool]
    names: Annotated[list[str], Meta(min_length=1)]
    devices: Annotated[list[str], Meta(extra_json_schema={"minItems": 1})]
    backend: Words
    route: Route | None
    status: Literal["ok", "skipped", "failed"]
    reason: Reason | None
    flags: Annotated[tuple[Flag, ...], Meta(extra_json_schema={"uniqueItems": True})]
    work: Work
    samples: list[Positive | None]
    blocks: tuple[Natural, ...]
    iterations_per_sample: Count | None
    clock: Literal["host", "device"] | None
    sample_notes: list[SampleMark]
    queue_s: tuple[Positive, ...]
    cpu_s: tuple[Positive, ...]
    empty_sync_s: Positive | None
    worked_s: dict[str, tuple[Positive, ...]]
    intervals: dict[str, Spans]
    phases_s: Annotated[
        dict[Phase, tuple[Positive, ...]],
        Meta(extra_json_schema={"propertyNames": {"enum": list(get_args(Phase))}}),
    ]
    around: Around | None
    stop: Stop | None
    check: Check | None
    metrics: Figures
    against: SomeId | None
    ceiling: Ceiling | None
    explanation: Explanation | None


class Plan(Struct):
    """What a dry run would have measured.

    Attributes:
        cases: Their ids, in the order of measuring.
        memory_bytes: Device id, or host, to what it takes at most.
        largest_buffer_bytes: The largest single buffer on a device.
        groups: How many of the cases each group has: its blocks hold each of them once.
        about: What the cases work on, in words: of a network its layers and how a batch is split.
    """

    cases: list[str]
    memory_bytes: dict[str, Natural]
    largest_buffer_bytes: Natural
    groups: list[Natural]
    about: tuple[str, ...]


class Fit(Struct):
    """Latency and bandwidth.

    Attributes:
        id: The id of its copies, without their size.
        fits: Whether the line describes the copies.
        regimes: Lines that were needed.
        sizes_bytes: What was fitted.
        residual_max: The largest relative distance from the line.
        held_back: A size that was predicted, then measured.
        metrics: What follows from the model; empty if none fits.
        lines: The model's lines, in the order of sizes; none if no model fits.
    """

    id: SomeId
    fits: bool
    regimes: Count
    sizes_bytes: Annotated[tuple[Natural, ...], Meta(min_length=1)]
    residual_max: Positive | None
    held_back: HeldBack | None
    metrics: Figures
    lines: list[Line]


class BreakEven(Struct):
    """From which size on a device pays.

    Attributes:
        id: What a limit selects it by.
        workload: What is computed.
        against: What it is held against.
        wins: Ranges of bytes in which the device is faster.
        measured_to_bytes: The largest size measured.
        why_stopped: Why no larger one was.
        metrics: From which size on it pays; empty if that is not known.
        shares: Bytes to where the time went.
        check: Null: not reached.
        reason: Why it could not be told.
    """

    id: SomeId
    workload: str
    against: str
    wins: tuple[tuple[Natural, Natural | None], ...]
    measured_to_bytes: Natural
    why_stopped: str
    metrics: Figures
    shares: dict[Digits, Shares]
    check: Check | None
    reason: Reason | None


class RoundTrip(Struct):
    """Whether bytes came back.

    Attributes:
        device: Its id.
        backend: The library that drives it.
        name: The first name of the map for it; null: it has none.
        passed: Whether every byte came back as it was sent.
        reason: Why not.
        ref: As a map writes it.
    """

    device: str
    backend: Word
    name: str | None
    passed: bool
    reason: Reason | None
    ref: str


class SelfTest(Struct):
    """Round trips, and false alarms.

    Attributes:
        round_trips: 4 KiB to a device and back: each device of the map, and one of each other
            usable backend.
        alarms: The same work as A and as B on each device, judged in consecutive runs: an alarm is
            false.
    """

    round_trips: list[RoundTrip]
    alarms: list[Alarms]


class TraceEntry(Struct):
    """A name of a context's map, and the device that it is.

    Attributes:
        name: The user's word.
        device: The id of the device that it is.
        backend: The library that drives it.
    """

    name: str
    device: str
    backend: Word


class Moved(Struct):
    """Events together.

    Attributes:
        count: How many events.
        bytes: Of what they made or moved, together.
        time_s: Their times together; null where one is unknown.
    """

    count: Natural
    bytes: Natural
    time_s: Positive | None


class Ran(Moved):
    """Events of one sort at one place.

    Attributes:
        name: As the events have it.
        device: A name of the map; cpu for host memory; two names with -> between for a copy from
            one to the other.
        kind: What it is.
        implicit: Whether nobody asked for it: an operand was elsewhere.
    """

    name: str
    device: str
    kind: Literal["operation", "transfer"]
    implicit: bool


class Busy(Struct):
    """How long a device worked.

    Attributes:
        device: Its id; or host.
        names: What the map calls it.
        events: How many it took part in.
        busy_s: How long at least one of them ran; null where a time is unknown.
        share: The same over span_s; null where that is not known.
    """

    device: str
    names: list[str]
    events: Natural
    busy_s: Positive | None
    share: Share | None


class TraceSummary(Struct):
    """What the events of a trace come to.

    Attributes:
        span_s: From the start of the first event to the end of the last one; null: no event has a
            time.
        overlap: The time in which every device that computed was computing, over that of the one
            which computed least; null for one device, and where a time is unknown.
        untimed: Events without times.
        ran: What ran where, in the order of the first event of each.
        moved: All implicit transfers together.
        busy: Each device of the map, and the host if it did something.
    """

    span_s: Positive | None
    overlap: Share | None
    untimed: Natural
    ran: list[Ran]
    moved: Moved
    busy: list[Busy]


class Trace(Struct):
    """What a program did by one context.

    Attributes:
        context: Its number, in the order of opening.
        policy: What it does with operands that are elsewhere: moves them, or refuses.
        opened_s: Since the first context was opened; null: on a clock of its own, which is
            scripted.
        closed: Whether the program closed it.
        entries: Its map.
        summary: What the events come to.
        events: Everything, in the order of queueing.
    """

    context: Count
    policy: Literal["visible", "strict"]
    opened_s: Number | None
    closed: bool
    entries: list[TraceEntry]
    summary: TraceSummary
    events: list[TraceEvent]


class Rank(Struct):
    """A process of a job.

    Attributes:
        rank: Among all.
        local_rank: Among those of its machine.
        host: Its machine, as that calls itself.
        process: Its number there.
        name: Its entry of the map; null: it has found no device.
        device: The id of its device; null as above.
    """

    rank: Natural
    local_rank: Natural
    host: str
    process: Natural
    name: str | None
    device: str | None


class Headline(Struct):
    """The answer to the command's question, before everything else.

    Attributes:
        level: good; below: it works, and is less than ideal; untrusted: nothing can be concluded;
            failed.
        text: In one or two sentences; every format prints it first.
        row: The id of the row, fit, break-even or verdict that it is about; null: of none.
        metric: The figure that it is about; null: of none.
        value: That figure, or new over base of a comparison.
        low: Lower end of its interval; null: it has none, or the level is untrusted.
        high: Upper end.
        cause: A cause of an explanation, or of a diagnosis; null: none is known.
    """

    level: Level
    text: Annotated[str, Meta(min_length=1, max_length=200)]
    row: SomeId | None
    metric: Word | None
    value: Number | None
    low: Number | None
    high: Number | None
    cause: Code | None


class Report(Struct):
    """The whole of it.

    Attributes:
        schema_version: Of the keys, their types and their closed lists.
        kind: The command.
        tool: Who wrote it.
        argv: The arguments, as they were given.
        started: UTC, ISO 8601.
        ended: UTC, ISO 8601.
        elapsed_s: Between the two, by a clock that is never set.
        status: The answer in one word.
        exit_code: The same as a number; 0 also where an inconclusive run was asked for no verdict.
        headline: The answer in words.
        simulated: Whether the fake backend had a part in it; never compared with a real one.
        settings: What the options came to.
        map: Null: none was found.
        devices: The devices of the map, or all that were found.
        backends: The backends that were asked.
        fingerprint: Null where nothing is measured.
        environment: Variables that steer placement or speed: an allow-list; null: not set.
        machine: The machine before and after; null where nothing is measured.
        measurements: One row for each planned case.
        plans: What a dry run would have measured, and what that takes; none for a run that
            measured.
        fits: Lines through copies.
        break_evens: Where a device begins to pay.
        verdicts: One for each limit and comparison.
        selftest: Null but for `selftest`.
        errors: Why the exit code is not 0, and what was let pass.
        notes: What is worth knowing where there is no map; else it stands in map.notes.
        accepted: How this report became a base (`compare --accept`), the first time first; empty if
            it never did.
        traces: What a program did on its devices, one for each context that it opened; empty but
            for `trace`.
        prediction: What more devices would give, computed and not measured; null but for `predict`.
        published: A published table, and what follows from its cells; null but for `predict
            --from`.
        diagnoses: Whether each name's device is used, and if not, why; empty but for `doctor`. Of a
            map that cannot be read there is one without a name.
        ranks: Which rank of a job sits on which device; empty where the process was alone.
        digest: SHA-256 of all other keys, as JSON with sorted keys and without blanks: an edit
            changes it.
    """

    schema_version: Literal[2]
    kind: Command
    tool: Tool
    argv: tuple[str, ...]
    started: Moment
    ended: Moment
    elapsed_s: Positive
    status: Status
    exit_code: Literal[0, 1, 2, 3, 4, 5, 70, 124, 130]
    headline: Headline
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
    notes: list[Note]
    accepted: list[Acceptance]
    traces: list[Trace]
    diagnoses: list[Diagnosis]
    ranks: list[Rank]
    prediction: Prediction | None
    published: Published | None
    digest: Annotated[str, Meta(extra_json_schema={"pattern": "^sha256:[0-9a-f]{64}$"})]

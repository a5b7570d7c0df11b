"""A report as it is in JSON: every key with its type and its sentence, where no noun says it yet.

`gpumap.saved.schema` makes the published JSON Schema of it, and of the nouns. Fields have the names
that nouns have: `trees.copied` takes them over by name, in both directions. What the schema demands
and the reader tells in words of its own is `extra_json_schema`. Keys that no class here has are
passed over by the reader: within a version, keys may be added.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct

from gpumap import model
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
    "unstable", "shared-hardware", "warm-up-capped", "launch-bound", "power-capped",
    "over-ceiling", "impossible", "superlinear", "cpu",
]  # fmt: skip
Route = Literal["host-to-device", "device-to-host", "peer", "staged", "same"]
Phase = Literal["input", "transfer", "compute", "sync", "comm", "update"]
SomeId = Annotated[str, Meta(extra_json_schema={"$ref": "#/$defs/Id"})]
Figures = Annotated[dict[Word, model.Estimate], Meta(extra_json_schema={"$ref": "#/$defs/Metrics"})]


_WORK = ["bytes", "bytes_to_device", "bytes_to_host", "operations", "products"]
Work = Annotated[dict[str, Natural], Meta(extra_json_schema={"propertyNames": {"enum": _WORK}})]


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
        hint: How to fix it.
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
    source: model.Origin
    source_path: str | None
    entries: tuple[Entry, ...]
    notes: tuple[Note, ...]


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


class Device(
    Struct, rename={"memory_total": "memory_total_bytes", "memory_free": "memory_free_bytes"}
):
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
        memory_total: Its memory.
        memory_free: Of it, free when looked at.
        units: Compute units: cores, multiprocessors.
        numa_node: The NUMA node that it is near.
        cores: The logical CPUs that it is, or that are near it.
        driver: Its driver and version.
        link: How it is plugged in, by PCIe; null: not known.
    """

    id: str
    kind: model.Kind
    ref: str
    name: str
    backend: Word
    pci: str | None
    uuid: str | None
    hardware: Annotated[tuple[str, ...], Meta(min_length=1)]
    memory_total: Natural | None
    memory_free: Natural | None
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
        fix: What would fix that.
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
    code: model.ProbeCode | None


class Machine(Struct):
    """The machine before and after.

    Attributes:
        before: Before.
        after: After.
    """

    before: model.State | None
    after: model.State | None


class Measuring(Struct):
    """The settings of a run that measured; others may be beside them."""

    seed: Natural
    precision: Share
    confidence: Annotated[float, Meta(ge=0.5, lt=1.0)]
    budget_s: Positive


class Spans(Struct, rename={"start": "start_s", "stop": "stop_s"}):
    """When one device worked.

    Attributes:
        start: Starts, in time order.
        stop: Ends; as many.
    """

    start: tuple[Number, ...]
    stop: tuple[Number, ...]


class Row(
    Struct,
    rename={
        "name": "case",
        "seconds": "samples",
        "queue": "queue_s",
        "cpu": "cpu_s",
        "empty_sync": "empty_sync_s",
        "worked": "worked_s",
        "phases": "phases_s",
        "control": "control_s",
    },
):
    """A case on named devices, with its samples.

    Attributes:
        id: BENCH.CASE[key=value,...]: keys sorted, names joined by + (ordered pairs by >); unique
            in a report, free of hardware. What `compare` joins on and a limit selects by prefix.
        bench: The benchmark.
        name: What of it.
        params: Size, type and whatever else it was run with.
        names: The names that it ran on.
        devices: Their devices' ids.
        backend: The backends, joined by +.
        route: How a copy went.
        status: Whether it was measured.
        reason: Why it is not ok.
        flags: What to bear in mind.
        work: What one round does.
        seconds: Seconds of one round, in time order, none dropped; null with a mark for one that is
            no number.
        blocks: The block of each sample.
        iterations_per_sample: How often a sample repeated the work.
        clock: Whose clock the samples are of.
        sample_notes: What is odd about single samples.
        queue: Seconds of each sample in which the host queued one round.
        cpu: CPU seconds of the process, all threads, for one round of each sample; none where the
            clock is scripted.
        empty_sync: Seconds of a wait that has nothing to wait for; never subtracted.
        worked: Name to the CPU seconds of its device's own thread within each span; only devices
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
        phases: What one round of each sample went into, in seconds by phase; only benchmarks that
            tell their phases apart.
        control: Seconds of the control product on the first of its devices, just before each
            sample; CPU seconds where its thread tells them. Empty: there was none.
    """

    id: SomeId
    bench: Bench
    name: CaseName
    params: dict[Key, Value | int | float | bool]
    names: Annotated[tuple[str, ...], Meta(min_length=1)]
    devices: Annotated[tuple[str, ...], Meta(extra_json_schema={"minItems": 1})]
    backend: Words
    route: Route | None
    status: Literal["ok", "skipped", "failed"]
    reason: Reason | None
    flags: Annotated[tuple[Flag, ...], Meta(extra_json_schema={"uniqueItems": True})]
    work: Work
    seconds: tuple[Positive | None, ...]
    blocks: tuple[Natural, ...]
    iterations_per_sample: Count | None
    clock: Literal["host", "device"] | None
    sample_notes: tuple[model.SampleMark, ...]
    queue: tuple[Positive, ...]
    cpu: tuple[Positive, ...]
    empty_sync: Positive | None
    worked: dict[str, tuple[Positive, ...]]
    intervals: dict[str, Spans]
    phases: Annotated[
        dict[Phase, tuple[Positive, ...]],
        Meta(extra_json_schema={"propertyNames": {"enum": list(get_args(Phase))}}),
    ]
    around: model.Around | None
    stop: model.Stop | None
    check: model.Check | None
    metrics: Figures
    against: SomeId | None
    ceiling: model.Ceiling | None
    explanation: model.Explanation | None
    control: tuple[Positive, ...] = ()


class Plan(Struct, rename={"memory": "memory_bytes", "largest_buffer": "largest_buffer_bytes"}):
    """What a dry run would have measured.

    Attributes:
        cases: Their ids, in the order of measuring.
        groups: How many of the cases each group has: its blocks hold each of them once.
        memory: Device id, or host, to what it takes at most.
        largest_buffer: The largest single buffer on a device.
        about: What the cases work on, in words: of a network its layers and how a batch is split.
    """

    cases: tuple[str, ...]
    groups: tuple[Natural, ...]
    memory: dict[str, Natural]
    largest_buffer: Natural
    about: tuple[str, ...]


class Fit(Struct, rename={"sizes": "sizes_bytes", "residual": "residual_max"}):
    """Latency and bandwidth.

    Attributes:
        id: The id of its copies, without their size.
        fits: Whether the line describes the copies.
        regimes: Lines that were needed.
        sizes: What was fitted.
        residual: The largest relative distance from the line.
        held_back: A size that was predicted, then measured.
        lines: The model's lines, in the order of sizes; none if no model fits.
        metrics: What follows from the model; empty if none fits.
    """

    id: SomeId
    fits: bool
    regimes: Count
    sizes: Annotated[tuple[Natural, ...], Meta(min_length=1)]
    residual: Positive | None
    held_back: model.HeldBack | None
    lines: tuple[model.Line, ...]
    metrics: Figures


class BreakEven(Struct, rename={"measured_to": "measured_to_bytes"}):
    """From which size on a device pays.

    Attributes:
        id: What a limit selects it by.
        workload: What is computed.
        against: What it is compared with.
        wins: Ranges of bytes in which the device is faster.
        measured_to: The largest size measured.
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
    measured_to: Natural
    why_stopped: str
    reason: Reason | None
    check: model.Check | None
    metrics: Figures
    shares: dict[Digits, model.Shares]


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
    ref: str
    backend: Word
    name: str | None
    passed: bool
    reason: Reason | None


class SelfTest(Struct):
    """Round trips, and false alarms.

    Attributes:
        round_trips: 4 KiB to a device and back: each device of the map, and one of each other
            usable backend.
        alarms: The same work as A and as B on each device, judged in consecutive runs: an alarm is
            false.
    """

    round_trips: tuple[RoundTrip, ...]
    alarms: tuple[model.Alarms, ...]


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


class Trace(Struct, rename={"number": "context", "opened": "opened_s"}):
    """What a program did by one context.

    Attributes:
        number: Its number, in the order of opening.
        policy: What it does with operands that are elsewhere: moves them, or refuses.
        opened: Since the first context was opened; null: on a clock of its own, which is
            scripted.
        closed: Whether the program closed it.
        entries: Its map.
        summary: What the events come to.
        events: Everything, in the order of queueing.
    """

    number: Count
    policy: Literal["visible", "strict"]
    opened: Number | None
    closed: bool
    entries: tuple[TraceEntry, ...]
    summary: model.TraceSummary
    events: tuple[model.TraceEvent, ...]


class Rank(Struct, rename={"number": "rank", "local": "local_rank"}):
    """A process of a job.

    Attributes:
        number: Among all.
        local: Among those of its machine.
        host: Its machine, as that calls itself.
        process: Its number there.
        name: Its entry of the map; null: it has found no device.
        device: The id of its device; null as above.
    """

    number: Natural
    local: Natural
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

    level: model.Level
    text: Annotated[str, Meta(min_length=1, max_length=200)]
    row: SomeId | None
    metric: Word | None
    value: Number | None
    low: Number | None
    high: Number | None
    cause: Code | None


class Report(Struct, rename={"elapsed": "elapsed_s"}):
    """The whole of it.

    Attributes:
        schema_version: Of the keys, their types and their closed lists.
        kind: The command.
        tool: Who wrote it.
        argv: The arguments, as they were given.
        started: UTC, ISO 8601.
        ended: UTC, ISO 8601.
        elapsed: Between the two, by a clock that is never set.
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
        notes: What is worth knowing where there is no map; else it is in map.notes.
        accepted: How this report became a base (`compare --accept`), the first time first; empty if
            it never did.
        traces: What a program did on its devices, one for each context that it opened; empty but
            for `trace`.
        utilisation: What a program did with the devices of the map, seen from outside; null but
            for `trace -- COMMAND`.
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
    elapsed: Positive
    status: Status
    exit_code: Literal[0, 1, 2, 3, 4, 5, 70, 124, 130]
    headline: Headline
    simulated: bool
    settings: dict[str, Any]
    map: Map | None
    devices: tuple[Device, ...]
    backends: tuple[Backend, ...]
    fingerprint: model.Fingerprint | None
    environment: dict[str, str | None]
    machine: Machine
    measurements: tuple[Row, ...]
    plans: tuple[Plan, ...]
    fits: tuple[Fit, ...]
    break_evens: tuple[BreakEven, ...]
    verdicts: tuple[model.Verdict, ...]
    selftest: SelfTest | None
    errors: tuple[Problem, ...]
    notes: tuple[Note, ...]
    accepted: tuple[model.Acceptance, ...]
    traces: tuple[Trace, ...]
    diagnoses: tuple[model.Diagnosis, ...]
    ranks: tuple[Rank, ...]
    utilisation: model.Utilisation | None
    prediction: model.Prediction | None
    published: model.Published | None
    digest: Annotated[str, Meta(extra_json_schema={"pattern": "^sha256:[0-9a-f]{64}$"})]

"""What was measured, and what follows from several sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from gpumap.model.devices import Case, Reason
from gpumap.model.field_types import (
    Count,
    Figures,
    MetricName,
    Natural,
    Number,
    Positive,
    Share,
    SomeId,
    Unbounded,
)
from gpumap.model.maps import Estimate, LimitOrigin, Unit

Correlation = Annotated[float, Meta(ge=-1.0, le=1.0)] | Annotated[int, Meta(ge=-1, le=1)]
_FLAGS = [
    "unstable", "shared-hardware", "warm-up-capped", "launch-bound", "power-capped",
    "over-ceiling", "impossible", "superlinear", "cpu",
]  # fmt: skip
Flag = Annotated[str, Meta(extra_json_schema={"enum": _FLAGS})]
PHASES = ("input", "transfer", "compute", "sync", "comm", "update")  # of a training step
Phase = Annotated[str, Meta(extra_json_schema={"enum": [*PHASES]})]
Clock = Annotated[str, Meta(extra_json_schema={"enum": ["host", "device"]})]
Cause = Literal[
    "shared-hardware", "transfer-bound", "launch-bound", "cpu-contention", "unequal-devices",
    "serialised", "synchronisation", "too-little-work", "unexplained",
    "shared-link", "half-duplex", "odd-pair", "slow-link", "host-faster",
]  # fmt: skip
Why = Literal["precision", "decided", "blocks", "budget", "time limit", "interrupted", "error"]


class WorkTimes(Struct, frozen=True):
    """When one device worked: a start and a stop for each sample, in the order of time.

    Attributes:
        start: Starts.
        stop: Ends; as many.
    """

    start: tuple[Number, ...] = field(name="start_s")
    stop: tuple[Number, ...] = field(name="stop_s")

    @classmethod
    def of(cls, pairs: Iterable[tuple[Number, Number]]) -> WorkTimes:
        """Return them of pairs of a start and a stop."""
        every = tuple(pairs)
        return cls(tuple(start for start, _ in every), tuple(stop for _, stop in every))

    def __len__(self) -> int:
        return len(self.start)

    def __iter__(self) -> Iterator[tuple[Number, Number]]:
        return zip(self.start, self.stop, strict=True)

    def __getitem__(self, n: int) -> tuple[Number, Number]:
        return self.start[n], self.stop[n]


class Samples(Struct, frozen=True):
    """The times of a case, raw.

    Attributes:
        seconds: Seconds of one iteration, in time order, none dropped; one that is no number has a
            note.
        blocks: The block of each sample.
        iterations_per_sample: How often a sample repeated the work.
        clock: Whose clock the samples are of.
        queue: Seconds of each sample in which the host queued one iteration.
        cpu: CPU seconds of the process, all threads, for one iteration of each sample; none where
            the clock is scripted.
        empty_sync: Seconds of a wait that has nothing to wait for; never subtracted.
        worked: Name to the CPU seconds of its device's own thread within each span; only devices
            that have one.
        intervals: Name to when its device worked, in the first iteration of each sample.
        sample_notes: What is odd about single samples.
        phases: What one iteration of each sample went into, in seconds by phase; only benchmarks
            that tell their phases apart.
        control: Seconds of the control product on its devices, or on the first of them, just before
            each sample; CPU seconds where its threads tell them. Empty: there was none.
    """

    seconds: tuple[Unbounded, ...] = ()
    blocks: tuple[Natural, ...] = ()
    iterations_per_sample: Count = 1
    clock: Clock = "host"
    queue: tuple[Positive, ...] = field(default=(), name="queue_s")
    cpu: tuple[Positive, ...] = field(default=(), name="cpu_s")
    empty_sync: Positive | None = field(default=None, name="empty_sync_s")
    worked: Mapping[str, tuple[Positive, ...]] = field(default_factory=dict, name="worked_s")
    intervals: Mapping[str, WorkTimes] = field(default_factory=dict)
    sample_notes: tuple[SampleMark, ...] = ()
    phases: Mapping[Phase, tuple[Number, ...]] = field(default_factory=dict, name="phases_s")
    control: tuple[Positive, ...] = field(default=(), name="control_s")


class SampleMark(Struct, frozen=True):
    """What is odd about a sample; it stays all the same.

    Attributes:
        sample: Its place in samples, from 0.
        mark: Its kind.
        detail: In words.
    """

    sample: Natural
    mark: Literal["throttled"]
    detail: str


class Stop(Struct, frozen=True):
    """Why measuring ended, and what the samples are worth.

    Attributes:
        why: What ended it.
        n: Samples, or ratios.
        warmup: Iterations before the first sample.
        autocorrelation: Of neighbouring samples.
        effective_n: What n is worth.
    """

    why: Why
    n: Natural
    warmup: Natural
    autocorrelation: Correlation
    effective_n: Positive


class Check(Struct, frozen=True):
    """Whether the data were right: `method` says how that was found out.

    Attributes:
        method: How that was found out; scripted: by the script of a simulated device, no data were
            compared.
        passed: Wrong data: false, and no figures.
        max_error: Of products: the largest error of an element, as a share of what rounding may do
            to it; null where the method is bytes or scripted.
        bound: Of products: the largest that is right, 1; else null.
        nbytes: How many were compared; null of products.
        first_bad_offset: Where the first wrong byte is.
    """

    method: str
    passed: bool
    max_error: Unbounded | None = None
    bound: Annotated[Positive | None, Meta(extra_json_schema={"enum": [1, None]})] = None
    nbytes: Natural | None = field(default=None, name="bytes")
    first_bad_offset: Natural | None = None


class Around(Struct, frozen=True):
    """What else the machine did while a group of cases was measured.

    Attributes:
        foreign: Cores that other processes kept busy; null: not known, or too short to tell.
        steal: Share of all cores' time that the hypervisor took.
        before: Cores that were busy before anything was measured; null: not known.
        cores: Cores that the machine has; null: not known.
    """

    foreign: Positive | None = field(default=None, name="foreign_cores")
    steal: Share | None = None
    before: Positive | None = field(default=None, name="busy_cores_before")
    cores: Count | None = None


class Ceiling(Struct, frozen=True):
    """What physics allows a figure to be, and how much of it was reached.

    Attributes:
        metric: Of which metric.
        value: The ceiling.
        unit: Its unit.
        share: Reached; above 1.05 the row is flagged over-ceiling, or has failed.
        source: What it was computed from, or who reports it.
        origin: Who knows it: gpumap by computing, which refuses what is above; or a table or a
            driver, which only flags it.
    """

    metric: MetricName
    value: Positive
    unit: Unit
    share: Positive
    source: str
    origin: LimitOrigin


class Explanation(Struct, frozen=True):
    """Why a figure is not what it could be: one cause of a closed list, and its figures.

    Attributes:
        cause: One of a closed list; `gpumap explain` has a word on each.
        text: In words.
        figures: What shows it.
    """

    cause: Cause
    text: str
    figures: Mapping[str, Estimate] = field(default_factory=dict)


class Measurement(Struct, frozen=True):
    """A case on named devices, with its samples.

    Attributes:
        case: What is measured.
        status: Whether it was measured.
        reason: Why it is not ok.
        flags: What to bear in mind.
        samples: Its times; null: it was not measured.
        stop: Why measuring ended, and what the samples are worth.
        check: Null: not reached.
        metrics: What follows from the samples; empty for a row without a true result.
        around: What else the machine did while the row's group was measured; null where the row has
            no figures.
        ceiling: What physics allows, and the share of it that was reached.
        explanation: Why a figure is not what it could be: a speed-up, what copies gain at once, a
            bandwidth; null: it is, or nothing is known.
        route: How a copy went, where only doing it tells.
        claims: Metrics that the headline of its benchmark claims, which a gate judges; null: all.
    """

    case: Case
    status: Literal["ok", "skipped", "failed"]
    reason: Reason | None = None
    flags: tuple[Flag, ...] = ()
    samples: Samples | None = None
    stop: Stop | None = None
    check: Check | None = None
    metrics: Figures = field(default_factory=dict)
    around: Around | None = None
    ceiling: Ceiling | None = None
    explanation: Explanation | None = None
    route: str | None = None
    claims: tuple[str, ...] | None = None

    @property
    def time(self) -> Estimate | None:
        """Return the time of an iteration, or that between two in a queue; None: not measured."""
        return self.metrics.get("time") or self.metrics.get("issue_interval")


class Line(Struct, frozen=True):
    """A regime of a cost model: seconds, and seconds for each byte, from a size on.

    Attributes:
        latency: Seconds of a copy of no bytes.
        per_byte: Seconds for each byte.
        start: The size from which on it holds.
    """

    latency: Number = field(name="latency_s")
    per_byte: Number = field(name="per_byte_s")
    start: Positive = field(default=0.0, name="break_even")

    def seconds(self, nbytes: float) -> float:
        """Return what a copy of this size takes."""
        return self.latency + self.per_byte * nbytes


class Fit(Struct, frozen=True):
    """Latency and bandwidth.

    Attributes:
        id: The id of its copies, without their size.
        case: One of those that it was fitted to.
        fits: Whether the model describes the copies, and one size more that it is not fitted to.
        sizes: What was fitted.
        residual: The largest relative distance from the line.
        metrics: What follows from the model; empty if none fits.
        lines: The model's lines, in the order of sizes; none if no model fits.
    """

    id: SomeId
    case: Case
    fits: bool
    sizes: Annotated[tuple[Natural, ...], Meta(min_length=1)] = field(name="sizes_bytes")
    residual: Unbounded = field(name="residual_max")
    metrics: Figures
    lines: tuple[Line, ...]


def fit_id(case: Case) -> str:
    """Return the id of a size sweep's model: ``transfer.h2d.fit[...,names=a,pattern=alone]``."""
    params = {key: value for key, value in case.params.items() if key != "bytes"}
    alone = Case(case.bench, f"{case.name}.fit", {**params, "pattern": "alone"}, case.bindings,
                 case.work, ordered=case.ordered)  # fmt: skip
    return alone.id

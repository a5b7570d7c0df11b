"""What was measured, what follows from several sizes, and what programs did by their contexts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from gpumap.model.devices import Binding, Case, Reason
from gpumap.model.figures import FEWEST, UNDISTURBED, Estimate, LimitOrigin, Unit
from gpumap.model.types import Correlation, Count, MetricName, Natural, Number, Positive, Share

_Mark = Literal["outlier", "preempted", "throttled", "nonfinite"]
Cause = Literal[
    "shared-hardware", "transfer-bound", "launch-bound", "cpu-contention", "unequal-devices",
    "serialised", "synchronisation", "too-little-work", "unexplained",
    "shared-link", "half-duplex", "odd-pair", "slow-link", "host-faster",
]  # fmt: skip
_SLICE = 1e-3  # seconds; in less, a scheduler's tick is not told from the marks' own cost
_WAKING = 2e-4  # seconds in which threads hand a round to each other
Why = Literal["precision", "decided", "blocks", "budget", "time limit", "interrupted", "error"]


@dataclass(frozen=True, slots=True)
class Samples:
    """The times of a case, raw: seconds for one round each, in time order; nothing is dropped."""

    seconds: tuple[float, ...] = ()
    blocks: tuple[int, ...] = ()
    iterations_per_sample: int = 1
    clock: str = "host"
    queue: tuple[float, ...] = ()  # seconds in which the host queued one round
    cpu: tuple[float, ...] = ()  # CPU seconds of the process, all threads, for one round
    empty_sync: float | None = None  # seconds of a wait that has nothing to wait for
    worked: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    intervals: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    sample_notes: tuple[SampleMark, ...] = ()
    phases: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # seconds of one round
    control: tuple[float, ...] = ()  # seconds of the control product just before each sample

    @property
    def ran(self) -> tuple[float, ...]:
        """Return the share of each sample in which its threads ran; nothing where none is known.

        Of each device's own thread from when the first of them began, and of all CPU time: what is
        left of a sample beside the devices' spans takes one thread at least. Neither counts the
        moment to wake a thread.
        """
        names, cpu = self.intervals.keys(), self.cpu
        if not names or names != self.worked.keys() or len(cpu) != len(self.seconds):
            return ()
        if median(cpu) < _SLICE:
            return ()
        return tuple(map(self._ran, range(len(self.seconds))))

    def _ran(self, n: int) -> float:
        first = min(spans[n][0] for spans in self.intervals.values())
        spans = [
            (self.worked[name][n], first if start - first > _WAKING else start, stop)
            for name in self.intervals
            for start, stop in self.intervals[name][n : n + 1]
        ]
        whole = max(stop for _, _, stop in spans) - first
        due = sum(stop - start for _, start, stop in spans) + max(
            self.seconds[n] - whole - _WAKING, 0.0
        )
        shares = [self.cpu[n] / due] if due > 0.0 else []
        shares += [cpu / (stop - start) for cpu, start, stop in spans if stop - start >= _SLICE]
        return min((1.0, *shares))

    @property
    def undisturbed(self) -> Samples:
        """Return the samples whose threads ran all the time; of too few, the CPU times of all.

        That is what preemption shows, never the time itself. Where nothing is known, or nothing was
        preempted, these are all samples as they are.
        """
        kept = self._kept
        if len(kept) == len(self.ran):
            return self
        if self.by_cpu:
            return replace(self, seconds=tuple(map(self._cpu, range(len(self.seconds)))))

        def only(values: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(values[n] for n in kept) if values else ()

        return replace(
            self,
            seconds=only(self.seconds),
            blocks=only(self.blocks),
            queue=only(self.queue),
            cpu=only(self.cpu),
            control=only(self.control),
            worked={name: only(each) for name, each in self.worked.items()},
            intervals={name: only(each) for name, each in self.intervals.items()},
            phases={name: only(each) for name, each in self.phases.items()},
        )

    @property
    def _kept(self) -> list[int]:
        return [n for n, share in enumerate(self.ran) if share >= UNDISTURBED]

    @property
    def by_cpu(self) -> bool:
        """Return whether too few samples are undisturbed, so that CPU times stand for all."""
        return len(self._kept) < min(FEWEST, len(self.ran))

    def _cpu(self, n: int) -> float:
        """Return the CPU time of the busiest device, and of what no device's thread did."""
        each = [worked[n] for worked in self.worked.values()]
        return max(each) + max(self.cpu[n] - sum(each), 0.0)


class SampleMark(Struct, frozen=True):
    """What is odd about a sample; it stays all the same.

    Attributes:
        sample: Its place in samples, from 0.
        mark: Its kind.
        detail: In words.
    """

    sample: Natural
    mark: _Mark
    detail: str


class Stop(Struct, frozen=True):
    """Why measuring ended, and what the samples are worth.

    Attributes:
        why: What ended it.
        n: Samples, or ratios.
        warmup: Rounds before the first sample.
        autocorrelation: Of neighbouring samples.
        effective_n: What n is worth.
    """

    why: Why
    n: Natural
    warmup: Natural
    autocorrelation: Correlation
    effective_n: Positive


class Check(Struct, frozen=True, rename={"nbytes": "bytes"}):
    """Whether the data were right: `method` says how that was found out.

    Attributes:
        method: How that was found out; scripted: by the script of a simulated device, no data were
            compared.
        passed: Wrong data: false, and no figures.
        max_error: Of products: the largest error of an element, as a share of what rounding may do
            to it; null where the method is bytes or scripted, or it is infinite.
        bound: Of products: the largest that is right, 1; else null.
        nbytes: How many were compared; null of products.
        first_bad_offset: Where the first wrong byte is.
    """

    method: str
    passed: bool
    max_error: Positive | None = None
    bound: Annotated[Positive | None, Meta(extra_json_schema={"enum": [1, None]})] = None
    nbytes: Natural | None = None
    first_bad_offset: Natural | None = None


class Around(
    Struct,
    frozen=True,
    rename={"foreign": "foreign_cores", "before": "busy_cores_before"},
):
    """What else the machine did while a group of cases was measured.

    Attributes:
        foreign: Cores that other processes kept busy; null: not known, or too short to tell.
        steal: Share of all cores' time that the hypervisor took.
        before: Cores that were busy before anything was measured; null: not known.
        cores: Cores that the machine has; null: not known.
    """

    foreign: Positive | None = None
    steal: Share | None = None
    before: Positive | None = None
    cores: Count | None = None


class Ceiling(Struct, frozen=True):
    """What physics allows a figure to be, and how much of it was reached.

    Attributes:
        metric: Of which metric.
        value: The ceiling.
        unit: Its unit.
        share: Reached; above 1.05 the row is flagged over-ceiling, or has failed.
        source: How it was measured, or what it was computed from.
        origin: Who knows it: gpumap by measuring or computing, which refuses what is above; or a
            table or a driver, which only flags it.
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
    figures: Mapping[str, Estimate] = msgspec.field(default_factory=dict)


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

    @property
    def judged(self) -> Samples | None:
        """Return the samples that its metrics are of: undisturbed ones, if it says their share."""
        if self.samples is not None and "undisturbed" in self.metrics:
            return self.samples.undisturbed
        return self.samples


class Line(
    Struct,
    frozen=True,
    rename={"latency": "latency_s", "per_byte": "per_byte_s", "start": "break_even"},
):
    """A regime of a cost model: seconds, and seconds for each byte, from a size on.

    Attributes:
        latency: Seconds of a copy of no bytes.
        per_byte: Seconds for each byte.
        start: The size from which on it holds.
    """

    latency: Number
    per_byte: Number
    start: Positive = 0.0

    def seconds(self, nbytes: float) -> float:
        """Return what a copy of this size takes."""
        return self.latency + self.per_byte * nbytes


class HeldBack(
    Struct,
    frozen=True,
    rename={"nbytes": "bytes", "predicted": "predicted_s", "measured": "measured_s"},
):
    """A size that a model was not fitted to: what it predicts, and what was measured.

    Attributes:
        nbytes: Its size.
        predicted: By the fit.
        measured: In truth.
    """

    nbytes: Natural
    predicted: Number
    measured: Positive

    @property
    def miss(self) -> float:
        """Return how far the prediction is off, as a share of what was measured."""
        return self.predicted / self.measured - 1.0 if self.measured > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class Fit:
    """The cost of a kind of copy as latency and bandwidth: up to three lines."""

    id: str
    case: Case  # one of those that it was fitted to
    fits: bool
    regimes: int
    sizes: tuple[int, ...]
    residual: float
    held_back: HeldBack | None
    metrics: Mapping[str, Estimate]
    lines: tuple[Line, ...]


class Shares(Struct, frozen=True, rename={"total": "total_s", "host": "host_s"}):
    """Where the time of some calls went: seconds, and shares of them; and what the host took.

    Attributes:
        calls: Calls that were taken apart.
        total: Of all.
        host: What the host takes for as many.
        upload: Share of upload.
        compute: Share of compute.
        download: Share of download.
        overhead: Share of overhead.
    """

    calls: Count
    total: Positive
    host: Positive
    upload: Share
    compute: Share
    download: Share
    overhead: Share


@dataclass(frozen=True, slots=True)
class BreakEven:
    """From which size on a device beats what it is compared with.

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


class TraceEvent(
    Struct,
    frozen=True,
    rename={"nbytes": "bytes", "start": "start_s", "stop": "stop_s"},
):
    """What a program did on a device, or moved: seconds since its context was opened.

    A device that cannot tell when its queue came to a place leaves both times None.

    Attributes:
        name: The operation; or upload, download, copy.
        device: A name of the map; cpu for host memory; two names with -> between for a copy from
            one to the other.
        kind: What it is.
        nbytes: Of what it made or moved.
        shape: Of the same.
        implicit: Whether the program did not request it: an operand was elsewhere.
        start: Since the context was opened, when the device's queue came to it; null: the device
            cannot tell.
        stop: The same, of its end.
        line: The line of the program that caused it, as script.py:12; null: not known.
    """

    name: str
    device: str
    kind: Literal["operation", "transfer"]
    nbytes: Natural
    shape: tuple[Natural, ...]
    implicit: bool
    start: Number | None
    stop: Number | None
    line: str | None = None


class Ran(Struct, frozen=True, rename={"nbytes": "bytes", "seconds": "time_s"}):
    """Events of one sort at one place.

    Attributes:
        name: As the events have it.
        device: A name of the map; cpu for host memory; two names with -> between for a copy from
            one to the other.
        kind: What it is.
        implicit: Whether the program did not request it: an operand was elsewhere.
        count: How many events.
        nbytes: Of what they made or moved, together.
        seconds: Their times together; null where one is unknown.
    """

    name: str
    device: str
    kind: Literal["operation", "transfer"]
    implicit: bool
    count: Natural
    nbytes: Natural
    seconds: Positive | None


class Moved(Struct, frozen=True, rename={"nbytes": "bytes", "seconds": "time_s"}):
    """Events together.

    Attributes:
        count: How many events.
        nbytes: Of what they made or moved, together.
        seconds: Their times together; null where one is unknown.
    """

    count: Natural
    nbytes: Natural
    seconds: Positive | None


class Busy(Struct, frozen=True, rename={"seconds": "busy_s"}):
    """How long a device, or the host, worked.

    Attributes:
        device: Its id; or host.
        names: What the map calls it.
        events: How many it took part in.
        seconds: How long at least one of them ran; null where a time is unknown.
        share: The same over span_s; null where that is not known.
    """

    device: str
    names: tuple[str, ...]
    events: Natural
    seconds: Positive | None
    share: Share | None


class TraceSummary(Struct, frozen=True, rename={"span": "span_s"}):
    """What the events of a trace come to.

    Attributes:
        span: From the start of the first event to the end of the last one; null: no event has a
            time.
        overlap: The time in which every device that computed was computing, over that of the one
            which computed least; null for one device, and where a time is unknown.
        untimed: Events without times.
        ran: What ran where, in the order of the first event of each.
        moved: All implicit transfers together.
        busy: Each device of the map, and the host if it did something.
    """

    span: Positive | None
    overlap: Share | None
    untimed: Natural
    ran: tuple[Ran, ...]
    moved: Moved
    busy: tuple[Busy, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """What a program did by one context, in the order of queueing."""

    number: int  # of the context, counted from 1 in the order of opening
    bindings: tuple[Binding, ...]
    policy: str
    opened: float | None  # seconds since the first one was; None: on a clock of its own
    closed: bool  # by the program
    events: tuple[TraceEvent, ...] = ()

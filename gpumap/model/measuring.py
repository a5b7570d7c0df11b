"""What was measured: samples, why they ended, and whether the data were right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from gpumap.model.figures import Estimate, LimitOrigin, Unit
from gpumap.model.types import Correlation, Count, MetricName, Natural, Positive, Share

if TYPE_CHECKING:
    from gpumap.model.cases import Case, Reason

_Mark = Literal["outlier", "preempted", "throttled", "nonfinite"]
Cause = Literal[
    "shared-hardware", "transfer-bound", "launch-bound", "cpu-contention", "unequal-devices",
    "serialised", "synchronisation", "too-little-work", "unexplained",
    "shared-link", "half-duplex", "odd-pair", "slow-link", "host-faster",
]  # fmt: skip
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

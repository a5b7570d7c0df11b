"""What was measured: samples, why they ended, and whether the data were right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpumap.model.cases import Case, Reason
    from gpumap.model.figures import Ceiling, Estimate, Explanation


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
    phases: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # seconds of one round


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
class Around:
    """What else the machine did while a group of cases was measured."""

    foreign: float | None = None  # cores that other processes kept busy
    steal: float | None = None  # share of all cores' time that the hypervisor took
    before: float | None = None  # cores that were busy before anything was measured
    cores: int | None = None  # that the machine has


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

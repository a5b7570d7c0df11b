"""What follows from several sizes: latency and bandwidth, and where a device begins to pay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct

from gpumap.model.types import Count, Natural, Number, Positive, Share

if TYPE_CHECKING:
    from gpumap.model.cases import Case, Reason
    from gpumap.model.figures import Estimate
    from gpumap.model.measuring import Check


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
    """The cost of a kind of copy as latency and bandwidth: one line, or two."""

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

"""What figures were called: verdicts, round trips and false alarms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpumap.model.cases import Reason
    from gpumap.model.devices import Device
    from gpumap.model.figures import Estimate

VerdictWord = Literal[
    "pass", "fail", "regression", "improvement", "inconclusive", "missing", "new", "skipped",
]  # fmt: skip
VerdictReason = Literal[
    "work-slower", "device-slower", "few-samples", "wide-interval",
    "unverified", "other-check", "other-reference", "impossible",
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
    reason: VerdictReason | None = None  # of a comparison
    relative: Estimate | None = None  # new over base of the time over its control product's


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """Whether bytes came back from a device as they were sent; `reason` says why not."""

    device: Device
    name: str | None = None  # None: the map does not name it
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Alarms:
    """Verdicts on runs of the same work as A and as B on one device: an alarm is false."""

    id: str  # of the row called B
    device: str
    name: str
    threshold: float
    run_blocks: int
    false: int = 0
    passed: int = 0
    inconclusive: int = 0

    @property
    def runs(self) -> int:
        """Return how many runs were judged."""
        return self.false + self.passed + self.inconclusive


@dataclass(frozen=True, slots=True)
class SelfTest:
    """Round trips, and the false alarms of each device."""

    round_trips: tuple[RoundTrip, ...] = ()
    alarms: tuple[Alarms, ...] = ()

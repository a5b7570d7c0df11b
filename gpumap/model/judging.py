"""What figures were called: verdicts, round trips and false alarms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from gpumap.model.figures import Estimate
from gpumap.model.types import Count, Id, Moment, Natural, Number, Positive

if TYPE_CHECKING:
    from gpumap.model.cases import Reason
    from gpumap.model.devices import Device

VerdictWord = Literal[
    "pass", "fail", "regression", "improvement", "inconclusive", "missing", "new", "skipped",
]  # fmt: skip
VerdictReason = Literal[
    "work-slower", "device-slower", "few-samples", "wide-interval",
    "unverified", "other-check", "other-reference", "impossible",
]  # fmt: skip


class Verdict(Struct, frozen=True):
    """The answer to a limit or a comparison.

    Of a comparison, `value` with its interval is new over base, and `threshold` the change that
    counts; of a limit it is the figure itself.
    """

    rule: str
    text: str
    id: Id | None  # of the row that it judges; None: there is none
    metric: str
    verdict: VerdictWord
    value: Number | None = None
    low: Number | None = None
    high: Number | None = None
    limit: Number | None = None
    base: Number | None = None
    threshold: Positive | None = None
    reason: VerdictReason | None = None  # of a comparison
    relative: Estimate | None = None  # new over base of the time over its control product's


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """Whether bytes came back from a device as they were sent; `reason` says why not."""

    device: Device
    name: str | None = None  # None: the map does not name it
    reason: Reason | None = None


class Alarms(Struct, frozen=True):
    """Verdicts on runs of the same work as A and as B on one device: an alarm is false."""

    id: Id  # of the row called B
    device: str
    name: str
    threshold: Positive
    run_blocks: Natural
    false: Natural = 0
    passed: Natural = 0
    inconclusive: Natural = 0

    @property
    def runs(self) -> int:
        """Return how many runs were judged."""
        return self.false + self.passed + self.inconclusive


@dataclass(frozen=True, slots=True)
class SelfTest:
    """Round trips, and the false alarms of each device."""

    round_trips: tuple[RoundTrip, ...] = ()
    alarms: tuple[Alarms, ...] = ()


class Acceptance(Struct, frozen=True):
    """That a report was put in the place of a base, by whom it concerns: when, and why."""

    when: Moment
    reason: Annotated[str, Meta(pattern=r"\S")]
    verdicts: Mapping[VerdictWord, Count]  # how many there were of each word
    base_started: Moment
    new_started: Moment

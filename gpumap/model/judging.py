"""What figures were called: verdicts, round trips and false alarms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from gpumap.model.figures import Estimate
from gpumap.model.types import Count, Id, MetricName, Moment, Natural, Number, Positive

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

    Attributes:
        rule: limit, base.
        text: As it was asked.
        id: The row that it judges; null: there is none.
        metric: The figure that it judges.
        verdict: By interval against the threshold or limit. missing: it was not measured; new: base
            has it not; skipped: nothing was judged, and the text says why.
        value: What was found: the figure; for base the ratio of figures, new over base.
        low: Lower end.
        high: Upper end.
        limit: What was asked for.
        base: The figure that it is held against.
        threshold: The change that counts, as a share.
        reason: Why a comparison is no pass; null: the interval says it alone.
        relative: Of a comparison, new over base of the time divided by that of the control product;
            null: there is no control.
    """

    rule: str
    text: str
    id: Id | None
    metric: MetricName
    verdict: VerdictWord
    value: Number | None = None
    low: Number | None = None
    high: Number | None = None
    limit: Number | None = None
    base: Number | None = None
    threshold: Positive | None = None
    reason: VerdictReason | None = None
    relative: Estimate | None = None


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """Whether bytes came back from a device as they were sent; `reason` says why not."""

    device: Device
    name: str | None = None  # None: the map does not name it
    reason: Reason | None = None


class Alarms(Struct, frozen=True):
    """Verdicts on runs of the same work as A and as B on one device: an alarm is false.

    Attributes:
        id: The row called B.
        device: Its id.
        name: The first name of the map for it.
        threshold: The change that counts, as a share.
        run_blocks: Blocks in each run.
        false: Runs with an alarm.
        passed: Runs that pass in both directions.
        inconclusive: Runs whose noise could hide a change of the threshold.
    """

    id: Id
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
    """That a report was put in the place of a base, by whom it concerns: when, and why.

    Attributes:
        when: UTC, ISO 8601.
        reason: Why, as it was given.
        verdicts: How many verdicts there were of each word.
        base_started: When the report that it replaced was measured.
        new_started: When the report that was accepted was measured.
    """

    when: Moment
    reason: Annotated[str, Meta(pattern=r"\S")]
    verdicts: Mapping[VerdictWord, Count]
    base_started: Moment
    new_started: Moment

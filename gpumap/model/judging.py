"""Verdicts, false alarms, diagnoses of names, and predictions: what was concluded of figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from gpumap.model.field_types import (
    Code,
    Count,
    Id,
    MetricName,
    Natural,
    Positive,
    Unbounded,
    Word,
)
from gpumap.model.maps import Estimate
from gpumap.model.measurements import Line

Above = Annotated[int, Meta(gt=0)] | Annotated[float, Meta(gt=0.0)]
DoctorCode = Annotated[str, Meta(pattern=r"\AGM[1-9][0-9]{2}\Z")]
Times = Annotated[str, Meta(pattern=r"\A[0-9]{1,9}(\.[0-9]{1,9})?(\+[0-9]{1,9}(\.[0-9]{1,9})?)?\Z")]
Computed = Annotated[Mapping[Word, Estimate], Meta(extra_json_schema={"$ref": "#/$defs/Computed"})]
Certainty = Literal["certain", "likely"]
DoctorVerdict = Literal["used", "partly", "not used"]
VerdictWord = Literal[
    "pass", "fail", "regression", "improvement", "inconclusive", "missing", "new", "skipped",
    "shown",
]  # fmt: skip
VerdictReason = Literal[
    "work-slower", "device-slower", "device-unclear", "cpu-times", "few-samples", "wide-interval",
    "runs-differ", "cpu-contention",
    "unverified", "other-check", "other-reference", "impossible",
]  # fmt: skip


class Finding(Struct, frozen=True):
    """A cause that holds, with what shows it: `code` and `cause` are of `doctor`'s table.

    Attributes:
        code: Stable: `gpumap explain GM102`.
        cause: A word for it.
        text: What shows it.
        fix: What fixes it.
        certainty: Of a framework's cause: certain, if the facts alone prove it; else likely.
    """

    code: DoctorCode
    cause: Code
    text: str
    fix: str
    certainty: Certainty | None = None


class Diagnosis(Struct, frozen=True):
    """Whether a name's device is used, and if not, why: the first finding is the cause.

    A map that cannot be read has one without a name.

    Attributes:
        name: Of the map, or the framework; null: the map cannot be read.
        requested: The device as the map asks for it; null for a framework.
        verdict: Whether the device is used.
        evidence: What was read and measured, in words.
        findings: The causes that hold, the one to be fixed first at the start; none: the name is
            used.
        figures: What was measured, each figure with its unit.
        interpreter: Of a framework: the Python that was asked; null: it is a name of the map.
    """

    name: str | None
    requested: str | None
    verdict: DoctorVerdict
    evidence: str
    findings: tuple[Finding, ...] = ()
    figures: Mapping[Word, Estimate] = field(default_factory=dict)
    interpreter: str | None = None


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
            has it not; skipped: nothing was judged, and the text says why; shown: the gate does not
            judge this metric, and it is no certain slowdown.
        value: What was found: the figure; for base the ratio of figures, new over base.
        low: Lower end.
        high: Upper end.
        limit: What was requested.
        base: The metric that it is compared with.
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
    value: Unbounded | None = None
    low: Unbounded | None = None
    high: Unbounded | None = None
    limit: Unbounded | None = None
    base: Unbounded | None = None
    threshold: Positive | None = None
    reason: VerdictReason | None = None
    relative: Estimate | None = None


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


Algorithm = Literal["native", "ring", "host"]


class Forecast(Struct, frozen=True):
    """What a number of devices would give with an algorithm: computed, never measured.

    Attributes:
        algorithm: An algorithm of exchanges.
        devices: How many.
        metrics: Figures that are computed; low and high are what the link's intervals allow
            together, or the figure itself.
    """

    algorithm: Algorithm
    devices: Count
    metrics: Computed


class LinkCost(Struct, frozen=True):
    """What a message between two devices costs, and how that is known.

    Attributes:
        source: given, or the id of a model.
        latency: Of a message.
        bandwidth: Each way.
        lines: The model's lines, in the order of sizes.
    """

    source: str
    latency: Estimate
    bandwidth: Estimate
    lines: Annotated[tuple[Line, ...], Meta(min_length=1)]


class Prediction(Struct, frozen=True):
    """What a data-parallel step would take on several devices, and what that is computed from.

    Strong scaling splits the work of one device; weak scaling gives each device as much.

    Attributes:
        nbytes: That each device exchanges in a step.
        link: What a message between two devices costs.
        scaling: strong: the devices share the step of one; weak: each does as much.
        network: Whose parameters those are.
        compute: A step on one device, without an exchange.
        forecasts: What each number of devices would give, algorithm by algorithm.
    """

    nbytes: Count = field(name="bytes")
    link: LinkCost
    scaling: Literal["strong", "weak"]
    network: str | None = None
    compute: Above | None = field(default=None, name="compute_s")
    forecasts: tuple[Forecast, ...] = ()


class Cell(Struct, frozen=True):
    """A published time: of training alone, and of the exchanges beside it.

    Attributes:
        row: Its row: the network, at its batch.
        network: What was trained.
        devices: How many.
        train: Training alone.
        comm: The exchanges beside it; null: the table has none.
        text: As published: 10.35+0.78.
        examples: That the times are for.
        metrics: Figures that are computed; low and high are what the link's intervals allow
            together, or the figure itself.
        flags: What is odd.
    """

    row: str
    network: str
    devices: Count
    train: Above = field(name="train_s")
    comm: Above | None = field(name="comm_s")
    text: Times
    examples: Count
    metrics: Computed = field(default_factory=dict)
    flags: tuple[Code, ...] = ()


class Published(Struct, frozen=True):
    """A table that was published, and what follows from its cells.

    Attributes:
        origin: The name of the table that gpumap ships.
        source: What the table says of itself, line by line.
        cells: Its cells.
    """

    origin: str
    source: tuple[str, ...]
    cells: Annotated[tuple[Cell, ...], Meta(min_length=1)]

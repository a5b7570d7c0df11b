"""What figures were called: verdicts, round trips and false alarms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpumap.model.cases import Reason
    from gpumap.model.devices import Device

VerdictWord = Literal[
    "pass", "fail", "regression", "improvement", "same", "inconclusive",
    "missing", "new", "skipped",
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
    confirmed: bool | None = None


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """Whether bytes came back from a device as they were sent; `reason` says why not."""

    device: Device
    name: str | None = None  # None: the map does not name it
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Alarms:
    """What the runs of A against A were called at a threshold: all but `same` is wrong."""

    threshold: float
    regression: int = 0
    improvement: int = 0
    same: int = 0
    inconclusive: int = 0

    @property
    def false(self) -> int:
        """Return how many runs were called another than they are; who cannot tell says nothing."""
        return self.regression + self.improvement


@dataclass(frozen=True, slots=True)
class Noise:
    """What this machine's own noise does to verdicts on one device."""

    id: str  # of the row called B
    device: str
    name: str
    runs: int
    run_blocks: int
    floor: float | None  # the smallest threshold that noise does not reach; None: too few blocks
    alarms: tuple[Alarms, ...] = ()


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What a self-test found."""

    round_trips: tuple[RoundTrip, ...] = ()
    noise: tuple[Noise, ...] = ()
    stored: str | None = None  # the file that keeps the noise floors

"""Whether devices are used, and if not, why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from gpumap.model.figures import Estimate
from gpumap.model.fitting import Shares
from gpumap.model.types import Code, Count, DoctorCode, Word

DoctorVerdict = Literal["used", "partly", "not used"]
ExampleOutcome = Literal["faster", "equal", "slower", "unclear"]
EQUAL_WITHIN = 1.25  # times as long at most, over both whole intervals: two times are then equal


class Finding(Struct, frozen=True):
    """A cause that holds, with what shows it: `code` and `cause` are of `doctor`'s table.

    Attributes:
        code: Stable: `gpumap explain GM102`.
        cause: A word for it.
        text: What shows it.
        fix: What mends it.
        figures: What was measured, each figure with its unit.
    """

    code: DoctorCode
    cause: Code
    text: str
    fix: str
    figures: Mapping[Word, Estimate] = field(default_factory=dict)


class Example(Struct, frozen=True):
    """A workload of Theano's users on a device and on the host: seconds of one call of many.

    `found` says what such calls suffer from, if anything; it is no fault of the set-up.

    Attributes:
        workload: small, affine, large or chain.
        words: What is computed.
        calls: Calls that were taken apart, or 1.
        device: Seconds of one call on the device.
        host: Seconds of one call on the host.
        shares: Where the time of the calls on the device went; null: its parts were not told apart.
        found: What such calls suffer from; it is no fault of the set-up.
    """

    workload: Word
    words: str
    calls: Count
    device: Estimate
    host: Estimate
    shares: Shares | None = None
    found: Finding | None = None

    @property
    def outcome(self) -> ExampleOutcome:
        """Return how the device compares with the host: a code.

        `equal` needs overlapping intervals that lie within `EQUAL_WITHIN`; wider ones tell nothing.
        """
        device, host = self.device, self.host
        if device.high < host.low:
            return "faster"
        if device.low > host.high:
            return "slower"
        tight = device.high <= EQUAL_WITHIN * host.low and host.high <= EQUAL_WITHIN * device.low
        return "equal" if tight else "unclear"


class Diagnosis(Struct, frozen=True):
    """Whether a name's device is used, and if not, why: the first finding is the cause.

    A map that cannot be read has one without a name.

    Attributes:
        name: Of the map; null: the map cannot be read.
        requested: The device as the map asks for it.
        verdict: Whether the device is used.
        evidence: What was read and measured, in words.
        findings: The causes that hold, the one to be mended first at the start; none: the name is
            used.
        figures: What was measured, each figure with its unit.
        examples: Workloads of Theano's users.
    """

    name: str | None
    requested: str | None
    verdict: DoctorVerdict
    evidence: str
    findings: tuple[Finding, ...] = ()
    figures: Mapping[Word, Estimate] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()

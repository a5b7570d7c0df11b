"""A cause: the rule that finds it, what it is called, what it says and what fixes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpumap.errors import Exit
from gpumap.model import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumap.doctor.evidence import Evidence, Named
    from gpumap.model import DoctorVerdict, Unit  # noqa: TC004 - not read: it takes msgspec

    Test = Callable[[Evidence, Named], "Shown | None"]


@dataclass(frozen=True, slots=True)
class Shown:
    """What shows that a cause holds: words for its text and fix, and figures."""

    words: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Estimate] = field(default_factory=dict)


def exact(value: float, unit: Unit = "1") -> Estimate:
    """Return a figure that was read, and has no interval beside itself."""
    return Estimate(float(value), float(value), float(value), unit)


@dataclass(frozen=True, slots=True)
class Rule:
    """How a cause is found, and what follows from it.

    verdict: what a name is that it holds for; `used` makes it a note, and no cause. test: what
        shows it; None where it does not hold. exit: what the run ends in.
    last: whether it is named only where no other cause says why there is no device.
    """

    verdict: DoctorVerdict
    test: Test
    exit: Exit = Exit.NO
    last: bool = False


@dataclass(frozen=True, slots=True)
class Cause:
    """A rule, and what causes.toml says of it.

    code: GM and three digits, for ever: 1.. configuration, 2.. device and driver, 3.. machine,
        4.. work. key: a word for it. text, fix: one line each, words of `Shown` in braces.
    meaning, how, source: the sentences of its page.
    usual: the fixes that its page names, where the fix itself depends on what was found.
    """

    code: str
    rule: Rule
    key: str
    text: str
    fix: str
    meaning: str
    how: str
    source: str
    usual: str = ""


IDEAL = 0.75  # of an ideal speed-up: what noise alone does not take away

"""What a benchmark gives the runner, what the runner gives an observer, and the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from gpumap.model import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpumap.bench.seen import Seen
    from gpumap.bench.spans import Spans
    from gpumap.model import Case, Check, Estimate, Group, Limit, Measurement, Plan, Samples

    # Whether every verdict that is requested of some rows is decided; None: none is requested.
    Decided = Callable[[Sequence[Measurement]], bool | None]


@dataclass(frozen=True, slots=True)
class Settings:
    """How to measure: seconds and shares."""

    budget: float
    timeout: float
    seed: int = 1
    precision: float = 0.02
    confidence: float = 0.95
    dry_run: bool = False  # stop at the plan
    require_idle: bool = False  # measure nothing while others use the machine
    whole: bool = False  # use the whole budget, however well the rows are known before
    blocks: int = 10_000  # at most
    decided: Decided | None = None  # tells at an early look whether the verdicts are known


class Round(Protocol):
    """The work of a case, once."""

    def poison(self) -> None:
        """Make every destination wrong, so that only work that is done can make it right."""

    @property
    def route(self) -> str | None:
        """How its copies went, as far as that shows only when they are done."""

    def queue(self, spans: Spans | None = None, rounds: int = 1) -> None:
        """Queue the work `rounds` times; with `spans`, and the marks around each device's part."""

    def finish(self) -> None:
        """Wait for what is queued."""

    def check(self) -> Check:
        """Return whether the destinations are right."""


@runtime_checkable
class Renewed(Protocol):
    """A round that begins anew each time."""

    def renew(self) -> None:
        """Let go of what the round before has made; it is not timed."""


@runtime_checkable
class Launched(Protocol):
    """A round that tells whether `queue` returns before the devices are done."""

    @property
    def launched(self) -> bool:
        """Return whether it only launches: then its time is the host's, where it takes it all."""


@runtime_checkable
class Phased(Protocol):
    """A round that tells what its time went into."""

    def phases(self) -> Mapping[str, float]:
        """Return the seconds of each phase, since `queue` was last called with spans."""


def ordered(cases: Sequence[Case], *names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the places of cases by their names, of those that belong together in one."""
    places = (tuple(n for n, case in enumerate(cases) if case.name in each) for each in names)
    return tuple(found for found in places if found)


def wrong(check: Check) -> Reason:
    """Return why a case has no figures: its data are not right."""
    if check.first_bad_offset is not None:
        text = f"byte {check.first_bad_offset} of {check.nbytes} is wrong"
    else:
        text = f"error {check.max_error:.3g} is above the bound {check.bound:.3g}"
    return Reason("wrong-data", text)


class Benchmark(Protocol):
    """A benchmark's cases, planned and ready to run."""

    key: str
    plan: Plan

    def begin(self, group: Group) -> None:
        """Let go of what the group before has allocated."""

    def round(self, case: Case) -> Round:
        """Allocate what a case needs and return its round; raises DeviceError, Unsupported."""

    def metrics(
        self, group: Group, samples: Mapping[str, Samples], confidence: float
    ) -> Mapping[str, Mapping[str, Estimate]]:
        """Return the figures of each case id, from the samples of the whole group."""

    def limit(self, case: Case) -> Limit | None:
        """Return what physics allows a case's main figure to be; None where that is not known."""


class Observer(Protocol):
    """Someone who watches a run: a progress bar."""

    def planned(self, plan: Plan) -> None:
        """Hear what will be measured."""

    def block(self, seen: Seen) -> None:
        """Hear how far a group has come."""

    def ended(self, measurements: Sequence[Measurement]) -> None:
        """Hear the rows of a group."""

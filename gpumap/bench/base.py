"""What a benchmark gives the runner, what the runner gives an observer, and the settings.

One sample: as many rounds as it takes to time well, and when each device did its part.

What a watcher of a run is shown.

When each device did its part of a round, on one clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from gpumap.backends.base import Mark
from gpumap.model import SHORTEST, Group, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumap.model import Case, Check, Estimate, Limit, Measurement, Plan, Samples

    Decided = Callable[[Sequence[Measurement]], bool | None]
    from gpumap.backends.base import Clock, Session

# Seconds of a sample that is held against another run's: even a slow wait takes less than a
# hundredth of it. So runs whose waits differ take samples of the same number of rounds.
COMPARABLE = 1e-2
OVERHEAD = 0.01  # the share of a sample that waiting for its end may take
_SYNC_LOOKS = 5
_DISTURBED = 10  # times as long as enough: more is no busy moment
_MOST_ROUNDS = 1 << 20
_WINDOW = 5  # samples on each side of the warm-up's comparison, where so many fit
_FEWEST = 3
_TESTED = 4  # samples on each side: one order of 70 has all later ones below all earlier ones
STEADY = 0.98  # warm when the last window is no faster than this times the one before


@dataclass(frozen=True, slots=True)
class Part:
    """What one device did in one round: host times, and the CPU time of its own thread."""

    start: float
    stop: float
    worked: float | None  # None where the device has no thread of its own


@dataclass(slots=True)
class Spans:
    """Marks that a round queues around the work of each device, by the device's name."""

    _begun: dict[str, Mark] = field(default_factory=dict)
    _ended: dict[str, Mark] = field(default_factory=dict)

    def begin(self, name: str, session: Session) -> None:
        """Mark the place before a device's work; the first one of a round counts."""
        if name not in self._begun:
            self._begun[name] = session.mark()

    def end(self, name: str, session: Session) -> None:
        """Mark the place behind a device's work; the last one of a round counts."""
        self._ended[name] = session.mark()

    def parts(self) -> dict[str, Part]:
        """Return each device's part; waits for the marks. A device without a clock has none."""
        found = {name: _part(begun, self._ended[name]) for name, begun in self._begun.items()}
        return {name: part for name, part in found.items() if part is not None}


def _part(begun: Mark, ended: Mark) -> Part | None:
    session: Session = begun.session
    start, stop = session.at(begun), session.at(ended)
    if start is None or stop is None:
        return None
    return Part(start, max(start, stop), session.worked(begun, ended))


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a group after a block."""

    group: Group
    done: float  # the share of the group's time
    blocks: int
    look: float  # the share of the time at which the next look is
    width: float | None  # half of the widest interval that sets the stop, at the last look
    taken: Mapping[str, Taken]  # of each case, in this block


@dataclass(frozen=True, slots=True)
class Taken:
    """A sample, for one round: the host's time, what it went into, and each device's part."""

    seconds: float
    queue: float  # of `seconds`, until everything was queued
    cpu: float | None
    parts: dict[str, Part]
    phases: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Series:
    """The samples of one case, as they come."""

    round: Round
    iterations_per_sample: int = 1
    lasting: float = 0.0  # seconds of a sample, with the round before it that does not count
    checking: float = 0.0  # seconds of looking at its results
    warmup: int = 0
    capped: bool = False
    empty_sync: float = 0.0
    shared: bool = False  # its devices are the same hardware, and take it from each other
    taken: dict[int, Taken] = field(default_factory=dict)  # by block, in time order
    throttled: dict[int, str] = field(default_factory=dict)  # by block: what held a device back


def sample(series: Series, clock: Clock) -> Taken:
    """Take one sample. The marks of its first round tell when each device worked.

    The first, because all devices are idle before it: later ones run apart by what has delayed one.
    A sample of several rounds follows one that does not count: else what was measured before it
    would be in it, as cold caches, and more of it the fewer rounds there are.
    """
    work, rounds, spans = series.round, series.iterations_per_sample, Spans()
    if rounds > 1:
        work.queue()
        work.finish()
    if isinstance(work, Renewed):
        work.renew()
    cpu, start = clock.cpu(), clock.now()
    work.queue(spans)
    if rounds > 1:
        work.queue(rounds=rounds - 1)
    queued = clock.now()
    work.finish()
    stop = clock.now()
    spent = clock.cpu()
    return Taken(
        (stop - start) / rounds,
        (queued - start) / rounds,
        None if cpu is None or spent is None else (spent - cpu) / rounds,
        spans.parts(),
        {name: s / rounds for name, s in work.phases().items()} if isinstance(work, Phased) else {},
    )


def calibrate(
    series: Series, clock: Clock, shortest: float = SHORTEST, most: int = _MOST_ROUNDS
) -> None:
    """Raise the rounds of a sample, to `most`, until launch and timer are a small share of it.

    Args:
        series: what is to be sampled.
        clock: the clock that samples are taken on.
        shortest: seconds of a sample, at least.
        most: rounds of a sample, at most.
    """
    waits = _empty_syncs(series.round, clock)
    series.empty_sync = median(waits)  # reported, never subtracted
    enough = max(shortest, min(waits) / OVERHEAD)  # a busy moment lengthens the others
    while series.iterations_per_sample < most:
        seconds = _looked(series, clock)
        if enough <= seconds * series.iterations_per_sample < _DISTURBED * enough:
            seconds = min(seconds, _looked(series, clock))  # or a busy moment would decide
        if seconds * series.iterations_per_sample >= enough:
            return
        if seconds > 0.0:
            wanted = enough / seconds
            series.iterations_per_sample = int(max(wanted * 1.1, series.iterations_per_sample + 1))
        else:
            series.iterations_per_sample *= 2
        series.iterations_per_sample = min(series.iterations_per_sample, most)


def _looked(series: Series, clock: Clock) -> float:
    """Take a sample that does not count; return the seconds of a round, note those of all."""
    start = clock.now()
    seconds = sample(series, clock).seconds
    series.lasting = clock.now() - start
    series.warmup += 1
    return seconds


def warm_up(series: Series, clock: Clock, cap: float) -> None:
    """Take samples that do not count until they get no faster, or for `cap` seconds.

    Two windows of samples are compared, as long as fit into the time. At the cap the series is
    flagged if every sample of the last window is faster than every one before: by chance that is
    so in 1.4 % of runs at most.
    """
    start, window = clock.now(), _WINDOW
    taken: list[float] = []
    while not _steady(taken, window):
        passed = clock.now() - start
        if passed >= cap and series.warmup + len(taken) >= _FEWEST:
            before, after = taken[-2 * window : -window], taken[-window:]
            whole = _TESTED <= window <= len(before)
            series.capped = whole and max(after) < min(before)
            break
        if taken and passed > 0.0:
            window = min(max(int(cap * len(taken) / passed / 2), 1), _WINDOW)
        taken.append(sample(series, clock).seconds)
    series.warmup += len(taken)


def _steady(taken: list[float], window: int) -> bool:
    if len(taken) < 2 * window:
        return False
    return median(taken[-window:]) >= STEADY * median(taken[-2 * window : -window])


def _empty_syncs(work: Round, clock: Clock) -> list[float]:
    """Return what waiting costs when there is nothing to wait for, look by look."""
    looks = []
    for _ in range(_SYNC_LOOKS):
        start = clock.now()
        work.finish()
        looks.append(clock.now() - start)
    return looks


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

"""Contracts of a benchmark, its recipe and the runner; devices and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from gpumap.backends.base import Clock, Mark, Session
from gpumap.engine.estimates import by_block
from gpumap.model import Binding, Group, Plan, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumap import model
    from gpumap.errors import Diagnostic
    from gpumap.model import Case, Check, Estimate, Limit, Measurement, Samples

    # Whole: each device does whole products or copies, and a ratio above its ceiling is refused.
    # Split: caches can lift a ratio above it, and the row is flagged. None: there is no ceiling.
    Parts = Literal["whole", "split"] | None
    Decided = Callable[[Sequence[Measurement]], bool | None]
    Taken = Mapping[str, Samples]  # by case id
    Blocks = Mapping[str, Mapping[int, float]]  # seconds of one iteration, by case id and block
    Figures = Mapping[str, Estimate]  # by name
    Metrics = Mapping[str, Figures]  # by case id

# Seconds of a sample that is compared with another run's: even a slow wait takes less than a
# hundredth of it. So runs whose waits differ take samples of the same number of iterations.
COMPARABLE = 1e-2


class DeviceInterval(NamedTuple):
    """When one device worked in an iteration, by the host's clock, and its thread's CPU time."""

    start: float
    stop: float
    worked: float | None  # None where the device has no thread of its own


@dataclass(frozen=True, slots=True)
class OpenDevices:
    """A session for each name, and their clock; `again` opens one more on the device of a name."""

    bindings: tuple[Binding, ...]
    sessions: dict[str, Session]
    clock: Clock
    again: Callable[[str], Session]
    cpus: int  # logical processors of the host


@dataclass(slots=True)
class Events:
    """Events that an iteration queues around the work of each device, by the device's name."""

    _begun: dict[str, Mark] = field(default_factory=dict)
    _ended: dict[str, Mark] = field(default_factory=dict)

    def begin(self, name: str, session: Session) -> None:
        """Queue an event before a device's work; the first one of an iteration counts."""
        if name not in self._begun:
            self._begun[name] = session.mark()

    def end(self, name: str, session: Session) -> None:
        """Queue an event behind a device's work; the last one of an iteration counts."""
        self._ended[name] = session.mark()

    def intervals(self) -> dict[str, DeviceInterval]:
        """Return each device's interval; waits for the events. One without a clock has none."""
        found = {}
        for name, begun in self._begun.items():
            ended, session = self._ended[name], begun.session
            start, stop = session.at(begun), session.at(ended)
            if start is not None and stop is not None:
                found[name] = DeviceInterval(start, max(start, stop), session.worked(begun, ended))
        return found


@dataclass(frozen=True, slots=True)
class Sample:
    """Seconds of one iteration: the host's, what they went into, and each device's interval."""

    seconds: float
    queue: float  # of `seconds`, until everything was queued
    cpu: float | None
    intervals: dict[str, DeviceInterval]
    phases: Mapping[str, float] = field(default_factory=dict)

    @property
    def traced(self) -> bool:
        """Return whether each device's thread tells for how long it ran."""
        every = [one.worked is not None for one in self.intervals.values()]
        return self.cpu is not None and bool(every) and all(every)


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
    staged: bool = False  # the cases that matter most are measured alone at first


class Iteration:
    """An iteration: the work of a case, once."""

    route: str | None = None  # of its copies, as far as that shows only when they are done
    waits = False  # `queue` waits for each iteration: a sample is the median of its iterations
    marked = True  # `queue` marks when each device works: the first iteration of a sample alone
    launched = False  # `queue` returns before the devices are done: a long one is the host's time
    phased = False  # `phases` has what its time went into
    most = 1 << 20  # iterations of a sample
    sessions: Sequence[Session] = ()  # of the devices that are not done when `queue` returns

    def poison(self) -> None:
        """Make every destination wrong, so that only work that is done can make it right."""

    def renew(self) -> None:
        """Let go of what the iteration before has made; it is not timed."""

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:
        """Queue the work `iterations` times, with `events`, if any, around each device's part."""

    def finish(self) -> None:
        """Wait for what is queued; where `queue` waits, there is nothing to do."""
        for session in self.sessions:
            session.synchronize()

    def phases(self) -> Mapping[str, float]:
        """Return the seconds of each phase, since `queue` was last called with events."""
        return {}

    def check(self) -> Check:
        """Return whether the destinations are right."""
        raise NotImplementedError


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


class Benchmark:
    """A benchmark's cases, planned and ready to run."""

    key: str
    plan: Plan
    notes: tuple[Diagnostic, ...] = ()  # of how it measures, for the report
    computes = False  # its devices' threads wait for nothing: those that do not run are preempted
    work: Parts = None

    def begin(self, group: Group) -> None:
        """Let go of what the group before has allocated."""

    def iteration(self, case: Case) -> Iteration:
        """Allocate what a case needs and return its iteration; raises DeviceError, Unsupported."""
        raise NotImplementedError

    def metrics(self, group: Group, samples: Taken, confidence: float) -> Metrics:
        """Return the metrics of each case id, from the samples of the whole group."""
        blocks = {id_: by_block(each) for id_, each in samples.items()}
        cases = (case for case in group.cases if case.id in samples)
        return {case.id: self.figures(case, samples[case.id], blocks, confidence) for case in cases}

    def figures(self, case: Case, samples: Samples, blocks: Blocks, confidence: float) -> Figures:
        """Return the metrics of a case; `blocks` has the times of all cases of its group."""
        raise NotImplementedError

    def limit(self, case: Case) -> Limit | None:  # noqa: ARG002 - nothing bounds most of them
        """Return what physics allows a case's main metric to be; None where that is unknown."""
        return None


class Recipe:
    """From the options of a benchmark's command to the benchmark on open devices.

    A `BenchmarkSpec` names it. One is for all maps of a run: with ``--backend all`` there are some.

    A subclass takes its command's options by name, and raises QuestionError where they contradict
    each other.
    """

    cases: tuple[str, ...] | None = None  # those that were chosen by name; None: all are measured
    only_judged = False  # of these only what the run's gate judges
    control = True  # the control product is measured in every block
    base: model.Report | None = None  # the baseline that the run is compared with
    instead = "name another --backend, or map other devices"  # where nothing can be measured

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def plan(self, bindings: Sequence[Binding]) -> Plan:  # noqa: ARG002 - the contract's
        """Return the plan as far as it is known before a device is open: nothing, if it is not.

        Raises:
            QuestionError: the options do not fit the map.
        """
        return Plan(())

    def benchmark(self, devices: OpenDevices) -> Benchmark:
        """Return the benchmark on open devices, with its plan.

        Raises:
            Unsupported: a device lacks what everything needs.
        """
        raise NotImplementedError

    def complete(self, rows: Sequence[Measurement]) -> Sequence[Measurement]:
        """Return rows with the metrics that follow from several groups."""
        return rows

    def fits(self, rows: Iterable[Measurement]) -> tuple[model.Fit, ...]:  # noqa: ARG002 - the contract's
        """Return the models that are fitted to rows."""
        return ()

"""The one way in which every benchmark is measured.

Group by group: verify, calibrate, warm up, take blocks, verify what the last of them left. A block
takes every case of its group once, in seeded order, and the next block takes them in reverse: drift
hits all alike. `gpumap.engine.stopping` has how many blocks and which cases the time has room for.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Literal

from gpumap.engine import sampling, stopping
from gpumap.engine.base import wrong
from gpumap.engine.ceilings import possible, sharing_names, with_ceiling
from gpumap.engine.undisturbed import by_cpu, shares_run, undisturbed
from gpumap.errors import DeviceError, NoHostMemory, Unsupported, WrongDataError
from gpumap.model import UNDISTURBED, Around, Estimate, Measurement, Reason, Samples, Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from gpumap.backends.base import Clock
    from gpumap.engine.base import Benchmark, Settings
    from gpumap.model import Case, Check, Group, Why

    Explain = Callable[[Sequence[Measurement]], list[Measurement]]  # rows of a group, with causes

_WARM_SHARE = 0.1  # of a group's time, for all its cases together
_GRACE = 0.1  # of the whole time, by which it may be exceeded for FEWEST blocks
_NO_TIME = "no time was left: raise --budget"
_LAUNCHING = 0.9  # share of a sample from which on queueing it is what was timed
_WARM_CAP = 1.0  # seconds for one case


class Runner:
    """Measures a benchmark; `unfinished` tells at any moment what there is of the current group."""

    def __init__(
        self,
        benchmark: Benchmark,
        clock: Clock,
        settings: Settings,
        around: Callable[[], Around] = Around,
        throttled: stopping.Look = dict,
        explain: Explain = list,
    ) -> None:
        self._benchmark = benchmark
        self._clock = clock
        self._settings = settings
        self._look_around = around
        self._explain = explain
        self._throttling = stopping.Throttling(throttled, clock)
        self._random = random.Random(settings.seed)  # noqa: S311 - an order, not a secret
        self._origin = clock.now()
        self._group: Group | None = None
        self._series: dict[str, sampling.Series] = {}
        self._checks: dict[str, Check] = {}
        self._failures: dict[str, Reason] = {}
        self._left_out: dict[str, Reason] = {}
        self._why: Why = "blocks"
        self._pace = stopping.Pace()
        self._often = True  # there is time for more than one control product a block
        self._begun = False  # a case is measured, or was

    def run(self) -> Iterator[Measurement]:
        """Yield a measurement for every case of the plan, as each group ends."""
        plan = self._benchmark.plan
        end = self._origin + self._settings.budget
        for number, group in enumerate(plan.groups):
            until, latest = stopping.deadlines(plan.groups[number:], self._clock.now(), end)
            yield from self._measure(group, until, latest)

    def unfinished(self, why: Why) -> list[Measurement]:
        """Return what there is of the group that is being measured, for a run that was stopped."""
        self._why = why
        return self._rows(self._group) if self._group is not None else []

    def _measure(self, group: Group, end: float, latest: float) -> list[Measurement]:
        """Measure a group until `end`; `latest` is for FEWEST blocks of what matters most."""
        self._series, self._checks, self._failures, self._left_out = {}, {}, {}, {}
        self._group, self._why = group, "blocks"
        self._prepare(group, latest)
        self._take_blocks(group, end, latest)
        self._throttling.look(last=True)
        self._check_again()
        rows = self._rows(group)
        self._group = None
        self._series = {}  # buffers of this group end here, before the next one's begin
        return rows

    def _prepare(self, group: Group, end: float) -> None:
        """Make those cases ready that there is time for; what is kept has no place to lose."""
        self._benchmark.begin(group)
        kept: dict[str, sampling.Series] = {}
        insists = group.insists or not self._begun
        for unit in stopping.units(group):
            new = [case for case in unit if case.skip is None and case.id not in kept]
            known = {*self._checks, *self._failures, *self._left_out}  # ready, or impossible
            unknown = [case for case in new if case.id not in known]
            least = sum(self._pace.before(case, group.shortest) for case in unknown)
            if not insists and not self._room(kept.values(), end, least):
                continue
            for case in unknown:
                self._ready(case, group.shortest)
            ready = {case.id: self._series[case.id] for case in new if case.id in self._series}
            if insists or self._room((*kept.values(), *ready.values()), end):
                kept |= ready
                insists = insists and not kept
        self._begun = self._begun or bool(kept)
        self._series = kept
        for id_, control in stopping.controls(group, kept).items():
            kept[id_].control = control
        self._leave_out(group)

    def _room(self, kept: Iterable[sampling.Series], end: float, more: float = 0.0) -> bool:
        """Return whether these can be measured by `end`, after so many seconds more."""
        return self._clock.now() + more + stopping.needed(kept) <= end

    def _leave_out(self, group: Group) -> None:
        """Note for which cases there is no time; what is wrong or impossible says that itself."""
        for case in group.cases:
            check = self._checks.get(case.id)
            wrong = case.id in self._failures or (check is not None and not check.passed)
            if not wrong and case.id not in self._series:
                self._left_out.setdefault(case.id, Reason("budget", _NO_TIME))
                self._checks.pop(case.id, None)

    def _ready(self, case: Case, shortest: float) -> None:
        with self._losing(case.id):
            work = self._benchmark.iteration(case)
            # one iteration is done: the verified
            series = sampling.Series(work, warmup=1, shared=sharing_names(case.bindings))
            self._checks[case.id] = self._verified(case, series)
            if self._checks[case.id].passed:
                self._series[case.id] = series
                sampling.calibrate(series, self._clock, shortest, computes=self._benchmark.computes)
                # the verified one may have compiled, which no later case of the kind does
                self._pace.saw(case, series.sample_seconds / series.iterations_per_sample)

    def _verified(self, case: Case, series: sampling.Series) -> Check:
        """Do a case once on wrong destinations; return whether it made them right."""
        series.iteration.poison()
        start = self._clock.now()
        series.iteration.queue()
        series.iteration.finish()
        done = self._clock.now()
        check = series.iteration.check()
        series.checking = self._clock.now() - done
        self._pace.saw(case, done - start)
        return check

    def _warm(self, ids: Collection[str], end: float, latest: float) -> None:
        now = self._clock.now()
        spare = min(
            (end - now) * _WARM_SHARE, latest - now - stopping.needed(self._series.values())
        )
        share = max(spare, 0.0) / max(len(ids), 1)
        for id_ in [id_ for id_ in self._series if id_ in ids]:
            with self._losing(id_):
                sampling.warm_up(self._series[id_], self._clock, min(share, _WARM_CAP))

    def _take_blocks(self, group: Group, end: float, latest: float) -> None:
        """Take blocks of the cases that matter most, then of all."""
        if not self._series:
            return
        first = self._first(group)
        if not group.blocks:
            self._warm(first or self._series.keys(), end, latest)
        checking = sum(series.checking for series in self._series.values())
        least = stopping.needed(self._series.values())
        start = self._clock.now()
        self._often = start + least * (1.0 + 1.0 / sampling.BESIDE) <= end
        self._look_around()
        self._throttling.begin(group)
        most = min(group.blocks or self._settings.blocks, self._settings.blocks)
        soon = (stopping.FIRST_LOOK,) if self._settings.decided is None else ()
        blocks = stopping.Blocks(start, end, most, [*soon, *stopping.EARLY_LOOKS])
        last, latest = end - checking, latest + _GRACE * self._settings.budget - checking
        if first:
            blocks.most -= stopping.FEWEST  # the others need some too
            until = blocks.first_until(least)
            self._why = self._stage(group, blocks, first, *until, stopping.JUDGED)
            blocks.most = most
            self._warm(self._series.keys() - first, end, latest)
        if self._why == "decided":  # the other cases get the fewest blocks of an interval
            blocks.most = min(blocks.count + stopping.FEWEST, blocks.most)
            blocks.looks = []
            self._stage(group, blocks, (), latest, latest)
        else:
            self._why = self._stage(group, blocks, (), last, latest)

    def _stage(
        self,
        group: Group,
        blocks: stopping.Blocks,
        only: Collection[str],
        end: float,
        latest: float,
        fewest: int = stopping.FEWEST,
    ) -> Why:
        """Take blocks of all cases, or of some alone, until `end`; return why it ended.

        Until `latest` while there are fewer than `fewest` of them.
        """
        begun, taken = self._clock.now(), 0
        order: list[str] = []
        while blocks.count < blocks.most:
            now = self._clock.now()
            after = now + (now - begun) / max(taken, 1)
            if taken and after > (end if taken >= fewest else latest):
                return "budget"
            order = self._order(order, taken, only)
            if not order:  # each of them has failed
                return "blocks"
            for id_ in order:
                self._take(id_, blocks.count)
            self._throttling.look()
            blocks.count, taken = blocks.count + 1, taken + 1
            due = blocks.due(self._clock.now())
            if due and (why := self._settled(group)) is not None:
                return why
        return "blocks"

    def _first(self, group: Group) -> set[str]:
        """Return the cases that are measured alone at first; none: all are, from the start."""
        first = stopping.first(group) & self._series.keys() if self._settings.staged else set()
        rest = [case for case in group.cases if case.id in self._series and not case.is_control]
        if len(first) == len(rest):
            return set()
        return first | {self._series[id_].control for id_ in first} - {""}

    def _settled(self, group: Group) -> Why | None:
        """Return why no more blocks are needed at an early look; None: they are."""
        if self._settings.whole:
            return None
        good = self._good(self._every())
        decided = self._settings.decided and self._settings.decided(self._early(group, good))
        if decided is not None:
            return "decided" if decided else None
        settled = stopping.settled(group, good, self._settings)
        return "precision" if settled else None

    def _early(self, group: Group, good: Mapping[str, Samples]) -> list[Measurement]:
        """Return the rows of a group with intervals of the level of an early look."""
        metrics = self._benchmark.metrics(group, good, 1.0 - 2.0 * stopping.EARLY)
        rows = (
            Measurement(
                case, "ok", None, (), good[case.id], None, self._checks[case.id], metrics[case.id]
            )
            for case in group.cases
            if case.id in metrics
        )
        return [possible(row, self._benchmark.work) for row in rows]

    def _check_again(self) -> None:
        """Look at what the last samples left: a device may go wrong while it is measured."""
        for id_, series in self._series.items():
            with self._losing(id_):
                if self._running(id_):
                    self._checks[id_] = series.iteration.check()

    def _order(self, last: list[str], number: int, first: Collection[str]) -> list[str]:
        """Return the cases of a block, or `first` alone; a control comes with those behind it."""
        if number % 2:
            return [id_ for id_ in reversed(last) if self._running(id_)]
        running = {id_: series for id_, series in self._series.items() if self._running(id_)}
        before = {series.control for series in running.values()}
        order = [id_ for id_ in running if id_ not in before and (not first or id_ in first)]
        self._random.shuffle(order)
        return order

    def _running(self, id_: str) -> bool:
        return id_ not in self._failures

    def _take(self, id_: str, block: int) -> None:
        series = self._series[id_]
        beside = self._control(series.control, block)
        with self._losing(id_):
            series.taken[block] = sampling.sample(series, self._clock)
            if beside is not None:
                series.beside[block] = beside
            self._throttling.taken(id_, series, block)

    def _control(self, id_: str, block: int) -> float | None:
        """Return the seconds of a control product just before a sample; None: there is none."""
        if not id_ or not self._running(id_):
            return None
        with self._losing(id_):
            sampling.take_control(self._series[id_], self._clock, block, often=self._often)
        return self._series[id_].latest[1] if self._running(id_) else None

    @contextmanager
    def _losing(self, id_: str) -> Iterator[None]:
        """Lose a case whose device fails meanwhile; the others go on."""
        try:
            yield
        except NoHostMemory as error:  # the device is well: the row says why it is not there
            self._left_out[id_] = Reason(error.code, str(error))
        except (DeviceError, Unsupported, WrongDataError) as error:
            self._failures[id_] = Reason(error.code, str(error))

    def _rows(self, group: Group) -> list[Measurement]:
        every = self._every()
        good = self._good(every)
        metrics = self._observed(group, every, good)
        standing = stopping.deciding(group, good)
        around = self._look_around()
        rows = [
            self._row(
                case, every.get(case.id), metrics.get(case.id, {}), standing.get(case.id), around
            )
            for case in group.cases
        ]
        return self._explain([self._possible(row) for row in rows])

    def _possible(self, row: Measurement) -> Measurement:
        """Return a row without what no device can reach."""
        limited = with_ceiling(row, self._benchmark.limit(row.case))
        return possible(limited, self._benchmark.work)

    def _observed(
        self, group: Group, every: Mapping[str, Samples], good: Mapping[str, Samples]
    ) -> dict[str, dict[str, Estimate]]:
        """Return the metrics of each row; of one with disturbed samples also those of all."""
        level = self._settings.confidence
        metrics = {i: dict(m) for i, m in self._benchmark.metrics(group, good, level).items()}
        ran = {id_: shares_run(every[id_], self._series[id_].shared) for id_ in good}
        if not self._benchmark.computes or not any(ran.values()):
            return metrics
        whole = {id_: every[id_] for id_ in good}
        for id_, found in self._benchmark.metrics(group, whole, level).items():
            pairs = {"time": "time_observed", "speedup": "speedup_observed"}
            metrics[id_] |= {new: found[old] for old, new in pairs.items() if old in found}
            if shares := ran[id_]:
                kept = sum(share >= UNDISTURBED for share in shares) / len(shares)
                metrics[id_]["undisturbed"] = Estimate.exact(kept)
        return metrics

    def _every(self) -> dict[str, Samples]:
        """Return what was taken of each case."""
        return {
            id_: sampling.samples_of(series, self._origin) for id_, series in self._series.items()
        }

    def _good(self, every: Mapping[str, Samples]) -> dict[str, Samples]:
        """Return the samples of each case that was right, and still runs; undisturbed ones."""
        return {
            id_: undisturbed(samples, self._series[id_].shared)
            if self._benchmark.computes
            else samples
            for id_, samples in every.items()
            if samples.seconds and self._running(id_) and self._checks[id_].passed
        }

    def _row(
        self,
        case: Case,
        samples: Samples | None,
        metrics: Mapping[str, Estimate],
        standing: stopping.Standing | None,
        around: Around,
    ) -> Measurement:
        if (skip := case.skip or self._left_out.get(case.id)) is not None:
            return Measurement(case, "skipped", skip)
        check = self._checks.get(case.id)
        if (reason := self._failures.get(case.id)) is not None:
            return Measurement(case, _lost_as(case, reason), reason, samples=samples, check=check)
        if check is not None and not check.passed:
            return Measurement(case, "failed", wrong(check), samples=samples, check=check)
        if samples is None or standing is None:
            why = Reason("stopped", self._why)
            return Measurement(case, "skipped", why, check=check)
        series, found = self._series[case.id], standing.located(self._settings.confidence)
        stop = Stop(self._why, found.n, series.warmup, found.autocorrelation, found.effective_n)
        flags, route = self._flags(series, samples, standing), series.iteration.route
        return Measurement(
            case, "ok", None, flags, samples, stop, check, metrics, around, route=route
        )

    def _flags(
        self, series: sampling.Series, samples: Samples, standing: stopping.Standing
    ) -> tuple[str, ...]:
        found = {
            "unstable": stopping.unstable(standing, len(self._series)),
            "shared-hardware": bool(series.shared),
            "warm-up-capped": series.capped,
            "launch-bound": series.iteration.launched
            and median(samples.queue) >= _LAUNCHING * median(samples.seconds),
            "power-capped": series.power_capped,
            "cpu": self._benchmark.computes and by_cpu(samples, series.shared),
        }
        return tuple(flag for flag, raised in found.items() if raised)


def _lost_as(case: Case, reason: Reason) -> Literal["skipped", "failed"]:
    """Return the status of a case with a failure: a control is missed, unless its data are wrong.

    The case of a control says itself that a device is lost, or cannot do it.
    """
    missed = case.is_control and reason.code != WrongDataError.code
    return "skipped" if missed else "failed"

"""Pair the metrics of two reports by block, and test whether new is slower than base by over d.

Control products are no rows of their own: a time is judged as it is and relative to the control
just before it, on its devices (of older reports: in its block). Of the size sweep that a model is
fitted to nothing is judged unless nothing else was requested: how much of it is measured depends on
the time left.

A pass is decided for each metric, alarms for all. With d the threshold and x the logarithm of
new over base, turned so that more is worse,

    pass            the one-sided upper end of x is below log(1 + d)
    improvement     a pass whose upper end is below -log(1 + d)
    regression      the one-sided lower end of x is above log(1 + d), by Holm's procedure
    inconclusive    anything else: too few samples, or too wide an interval

A time whose interval alone is too wide passes if it does so relative to its control, and its value
is below d: the speed of the machine varies by more than d, and the work became no slower. A
speed-up passes in the same way, each of its times relative to its own control; and both by the CPU
times of all blocks, where that interval is the narrower one.

"Nothing became slower" is a claim on every metric, an intersection-union test: each has a level of
5 % (Berger, Technometrics 1982, doi 10.2307/1267823). "Something became slower" is a claim on any:
Holm's procedure keeps the probability of one false alarm among all at 5 % (Scandinavian Journal of
Statistics 1979, jstor 4615733). A run that stops early has been looked at up to three times: of the
5 %, each early look spends 0.5 and the last one 4 (Haybittle, Br. J. Radiol. 1971; Peto et al.,
Br. J. Cancer 1976). A group that is measured separately is judged separately: an alarm at an early
look is corrected for the metrics of all groups, so that all of them spend no more.

Two runs share no blocks, so their ratio is that of two medians, and its interval that of the
difference of the logarithms by the method of variance estimates recovery (Zou & Donner, Statistics
in Medicine 2008, doi 10.1002/sim.3095): the distances of both ends from their medians, squared and
added. Each end keeps its own length, so a skewed interval stays skewed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

from gpumap.engine import stats
from gpumap.engine.ceilings import sharing_names
from gpumap.engine.estimates import by_block, ratios
from gpumap.engine.stopping import LAST
from gpumap.engine.undisturbed import cpu_times, judged_samples
from gpumap.judge.bottlenecks import contended
from gpumap.judge.inconclusive import out_of_time
from gpumap.model import Estimate, Measurement, Samples

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.model import Report

SPEEDUP = "speedup"
_DISTURBED = 0.9  # a share of undisturbed samples below which the device was shared
_MOST = 709.0  # e to a higher power is no float
Outcome = Literal["pass", "improvement", "regression", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a report, its control, and the rows that its speed-up is measured against."""

    row: Measurement
    control: Measurement | None
    references: tuple[Measurement, ...]  # one after the other they do the same work
    controls: Mapping[int, float]  # of each block, on its device

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the judged metrics, the time first; none if it was not measured."""
        if self.row.status != "ok":
            return ()
        names = [name for name in ("time", "issue_interval") if name in self.row.metrics]
        if names and self.row.case.against is not None and SPEEDUP in self.row.metrics:
            names.append(SPEEDUP)
        return tuple(names)

    def series(self, metric: str, *, relative: bool = False) -> dict[int, float]:
        """Return a judged metric, one number for each block; none where it is absent."""
        seconds = _by_block(self.row)
        if metric == SPEEDUP:
            return ratios(_sums(map(_by_block, self.references)), seconds)
        if relative and self.control is not None:
            return ratios(seconds, _before(self.row) or _by_block(self.control))
        return seconds

    def by_cpu(self, metric: str) -> dict[int, float]:
        """Return it by CPU times, a time over the block's controls; none: it is not known.

        Both are free of preemption, so that disturbed samples count too. The middle of a block's
        controls on a device varies less than the one before each row.
        """
        own = _cpu_times(self.row)
        if metric == SPEEDUP:
            return ratios(_sums(map(_cpu_times, self.references)), own)
        return ratios(own, self.controls)


@dataclass(frozen=True, slots=True)
class Pair:
    """One metric of one row in both reports."""

    id: str
    metric: str
    base: Row
    new: Row

    @property
    def controlled(self) -> bool:
        """Return whether both runs have a control product for it, on the same devices."""
        return self.metric != SPEEDUP and self.base.control is not None and self._alike

    @property
    def _alike(self) -> bool:
        """Return whether both runs have the same control products, or both have none."""
        sides = (self.base.control, self.new.control)
        return len({side and side.case.id for side in sides}) == 1

    @property
    def disturbed(self) -> bool:
        """Return whether other processes held its threads off in many samples of either run."""
        shares = [side.row.metrics.get("undisturbed") for side in (self.base, self.new)]
        return any(share is not None and share.value < _DISTURBED for share in shares)

    @property
    def contended(self) -> bool:
        """Return whether others had the cores, and no one knows how long its threads ran.

        That is known of samples of one iteration, of a millisecond or more.
        """
        sides = self.base, self.new
        rows = [side.row for side in sides]
        if self.metric == SPEEDUP:
            rows += [row for side in sides for row in side.references]
        return any("undisturbed" not in row.metrics and contended(row) for row in rows)

    def change_of_cpu(self, level: float) -> Change | None:
        """Return how much more CPU time of all threads a time has; None where it is not known."""
        if self.metric == SPEEDUP:
            return None
        return _changed((_spent(side.row) for side in (self.base, self.new)), level)

    def change(self, level: float, *, relative: bool = False) -> Change | None:
        """Return how much worse it became; None where either run has too few blocks.

        Args:
            level: one-sided error of the interval at either end.
            relative: to the control product, block by block, or by CPU times, if both have them:
                of the two estimates the one with the narrower interval.
        """
        sides = self.base, self.new
        over = relative and self._alike
        if over and self.metric == SPEEDUP:
            result = self._relative_gain(level)
        else:
            result = _changed((side.series(self.metric, relative=over) for side in sides), level)
        if relative or (result is None and self.metric == SPEEDUP):
            by_cpu = _changed((side.by_cpu(self.metric) for side in sides), level)
            known = [each for each in (result, by_cpu) if each is not None]
            result = min(known, key=lambda each: each.high - each.low, default=None)
        return -result if result is not None and self.metric == SPEEDUP else result

    def _relative_gain(self, level: float) -> Change | None:
        """Return the change of a speed-up whose times are each relative to its own control.

        The controls take out what the times of a block share. What is left of both is independent:
        the difference of their two changes varies less than that of a ratio for each block.
        """
        sides = self.base, self.new
        before = _changed((_sums(map(_relative, side.references)) for side in sides), level)
        behind = _changed((_relative(side.row) for side in sides), level)
        return before - behind if before is not None and behind is not None else None


@dataclass(frozen=True, slots=True)
class Unpaired:
    """A metric that one report does not have; `other` is that report's row, if there is one."""

    id: str
    metric: str
    side: Literal["base", "new"]  # the report that does not have it
    other: Row | None


def joined(base: Report, new: Report) -> tuple[list[Pair], list[Unpaired]]:
    """Return the metrics that both reports have, and those that only one has."""
    before, after = ({row.row.case.id: row for row in comparable(side)} for side in (base, new))
    pairs: list[Pair] = []
    rest: list[Unpaired] = []
    for id_ in dict.fromkeys((*before, *after)):
        was, now = before.get(id_), after.get(id_)
        had, has = (side.metrics if side else () for side in (was, now))
        if was and now and had and has:
            pairs += [Pair(id_, metric, was, now) for metric in had if metric in has]
        else:  # one line for a row
            had, has = had[:1] or _untimed(was, now), has[:1]
        rest += [Unpaired(id_, metric, "new", now) for metric in had if metric not in has]
        rest += [Unpaired(id_, metric, "base", was) for metric in has if metric not in had]
    return pairs, rest


def _untimed(was: Row | None, now: Row | None) -> tuple[str, ...]:
    """Return a metric that neither run had time for, though it is what the headline claims."""
    if was is None or now is None or not (out_of_time(was.row) and out_of_time(now.row)):
        return ()
    claims = now.row.claims
    return ("time",) if claims is None else claims[:1]


def comparable(report: Report) -> list[Row]:
    """Return the rows of a report that may be judged."""
    found: list[Row] = []
    rows = {row.case.id: row for row in report.measurements if not row.case.is_control}
    chosen = {id_ for id_, row in rows.items() if not row.case.swept} or rows.keys()
    for group in _groups(report.measurements):
        sound = (row for row in group if row.case.is_control and row.status == "ok")
        controls = {_where(row): row for row in sound}
        ways = {row.case.id: _where(row) for row in group}
        ways = {id_: way if way in controls else way[:2] for id_, way in ways.items()}
        every = {where: _controls(r for r in group if ways[r.case.id] == where)
                 for where in controls}  # fmt: skip
        for row in group:
            if row.case.id in chosen:
                references, where = _references(row, rows), ways[row.case.id]
                control, before = controls.get(where), every.get(where, {})
                found.append(Row(row, control, references, before))
    return found


def _controls(rows: Iterable[Measurement]) -> dict[int, float]:
    """Return the middle of the control products of each block, before rows with the same one."""
    found: defaultdict[int, list[float]] = defaultdict(list)
    for samples in (row.samples or Samples() for row in rows):
        if len(samples.control) == len(samples.blocks):
            for block, seconds in zip(samples.blocks, samples.control, strict=True):
                found[block].append(seconds)
    return {block: median(every) for block, every in found.items()}


def _groups(rows: Iterable[Measurement]) -> Iterator[list[Measurement]]:
    """Yield the rows of each group: its controls come last."""
    group: list[Measurement] = []
    for row in rows:
        if group and group[-1].case.is_control and not row.case.is_control:
            yield group
            group = []
        group.append(row)
    yield group


def _where(row: Measurement) -> tuple[str, ...]:
    """Return what a row runs on: what drives it, and its devices."""
    bindings = row.case.bindings
    return bindings[0].device.backend, *dict.fromkeys(each.device.id for each in bindings)


def _references(row: Measurement, rows: Mapping[str, Measurement]) -> tuple[Measurement, ...]:
    """Return the rows that do the same work in sequence: copies both ways have two."""
    first, then = row.case.against or "", row.case.then or ""
    return tuple(rows[id_] for id_ in (first, then) if first in rows and id_ in rows)


def _by_block(row: Measurement) -> dict[int, float]:
    """Return the seconds of one iteration for each block."""
    return by_block(judged_samples(row) or Samples())


def _cpu_times(row: Measurement) -> dict[int, float]:
    """Return the CPU seconds of one iteration for each block; none: they are not known."""
    if row.samples is None or "undisturbed" not in row.metrics:
        return {}
    times = cpu_times(row.samples, sharing_names(row.case.bindings))
    return dict(zip(row.samples.blocks, times, strict=False))


def _spent(row: Measurement) -> dict[int, float]:
    """Return the CPU seconds of all threads in one iteration for each block, if they are known."""
    samples = row.samples or Samples()
    return dict(zip(samples.blocks, samples.cpu, strict=False))


def _relative(row: Measurement) -> dict[int, float]:
    """Return the time of each block over that of the control product just before it, if any."""
    return ratios(_by_block(row), _before(row))


def _before(row: Measurement) -> dict[int, float]:
    """Return the seconds of the control product just before each sample, if there was one."""
    samples = judged_samples(row) or Samples()
    return dict(zip(samples.blocks, samples.control, strict=False))


def _sums(rows: Iterable[Mapping[int, float]]) -> dict[int, float]:
    """Return the sum of the times of rows, in each block that all of them have; none of none."""
    first, *rest = [*rows] or [{}]
    shared = (block for block in first if all(block in each for each in rest))
    return {block: math.fsum((first[block], *(each[block] for each in rest))) for block in shared}


@dataclass(frozen=True, slots=True)
class Change:
    """The logarithm of new over base, with its interval; zero is no change."""

    value: float
    low: float
    high: float

    def __neg__(self) -> Change:
        """Return the negated change, for a metric that is better if higher."""
        return Change(-self.value, -self.high, -self.low)

    def __sub__(self, other: Change) -> Change:
        """Return the difference of two independent changes."""
        value = self.value - other.value
        low = math.hypot(self.value - self.low, other.high - other.value)
        high = math.hypot(self.high - self.value, other.value - other.low)
        return Change(value, value - low, value + high)

    @property
    def ratio(self) -> Estimate:
        """Return new over base."""
        value, low, high = (math.exp(min(x, _MOST)) for x in (self.value, self.low, self.high))
        return Estimate(value, low, high, "1")


# The change of one metric, more is worse, with an interval of this one-sided error at either end;
# None where there are too few samples for it.
Changing = Callable[[float], Change | None]


def passing(estimate: Change | None, threshold: float) -> Outcome:
    """Return the verdict on a change that is no alarm; NaN is inconclusive."""
    limit = _limit(threshold)
    if estimate is None or not estimate.low <= estimate.high < limit:
        return "inconclusive"
    return "improvement" if estimate.high < -limit else "pass"


def alarms(
    changes: Sequence[Changing], threshold: float, level: float = LAST, others: int = 0
) -> set[int]:
    """Return the numbers of the changes that are alarms, by Holm's procedure.

    Args:
        changes: those that are known so far.
        threshold: the change that counts, as a share.
        level: one-sided error of any false alarm among all.
        others: changes that belong to the same family and are judged elsewhere, or later: none of
            them counts as an alarm here, so that the level is that of all of them.
    """
    limit, alarmed = _limit(threshold), set[int]()
    while rest := [n for n in range(len(changes)) if n not in alarmed]:
        estimates = {n: changes[n](level / (len(rest) + others)) for n in rest}
        more = {n for n, change in estimates.items() if change is not None and change.low > limit}
        if not more:
            break
        alarmed |= more
    return alarmed


def located(values: Sequence[float], level: float = 0.025) -> Change | None:
    """Return the median of the logarithms; None where there are too few samples for an interval.

    Args:
        values: positive, in time order.
        level: one-sided error at either end.
    """
    if not values or not all(0.0 < value < math.inf for value in values):
        return None
    confidence = 1.0 - 2.0 * level
    if not (stats.enough(len(values)) and stats.enough(len(values), confidence)):
        return None
    found = stats.location([math.log(value) for value in values], confidence)
    return Change(found.value, found.low, found.high)


def _changed(runs: Iterable[Mapping[int, float]], level: float) -> Change | None:
    """Return how two runs differ in one number for each block: each has an interval of its own."""
    base, new = (located(list(run.values()), level) for run in runs)
    return None if base is None or new is None else new - base


def share(value: float) -> str:
    """Return a share as people write it: ``1.25%``."""
    return f"{value:.3%}".rstrip("%").rstrip("0").rstrip(".") + "%"


def _limit(threshold: float) -> float:
    return math.log(1.0 + threshold) if 0.0 <= threshold < math.inf else math.nan

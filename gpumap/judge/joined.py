"""What two reports have in common: the figures of rows with one id, block by block.

Control products are no rows of their own: a time is judged as it is and relative to the control
just before it (of older reports: in its block). Of the size sweep that a model is fitted to nothing
is judged unless nothing else was requested: how much of it is measured depends on the time left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from gpumap.bench.registry import in_sweep, is_control, specified
from gpumap.judge.verdict import Change, change, located
from gpumap.model import Measurement, Samples, replace

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from gpumap.model import Report

SPEEDUP = "speedup"
_LONGER = 1.5  # times: samples whose lengths are further apart were not meant to be of one


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a report, its control, and the rows that its speed-up is measured against."""

    row: Measurement
    control: Measurement | None
    references: tuple[Measurement, ...]  # one after the other they do the same work

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return what is judged of it, the time first; nothing if it was not measured."""
        if self.row.status != "ok":
            return ()
        names = [name for name in ("time", "issue_interval") if name in self.row.metrics]
        if names and self.row.case.against is not None and SPEEDUP in self.row.metrics:
            names.append(SPEEDUP)
        return tuple(names)

    def series(self, metric: str, *, relative: bool = False) -> dict[int, float]:
        """Return what is judged of a figure, one number for each block; none: it is not there."""
        own = _by_block(self.row)
        if metric == SPEEDUP:
            return _over(_sums(self.references), own) if self.references else {}
        if relative and self.control is not None:
            return _over(own, _before(self.row) or _by_block(self.control))
        return own


@dataclass(frozen=True, slots=True)
class Pair:
    """One figure of one row in both reports."""

    id: str
    metric: str
    base: Row
    new: Row
    interleaved: bool = False  # blocks of one number were taken right after each other

    @property
    def controlled(self) -> bool:
        """Return whether both runs have a control product beside it."""
        sides = (self.base, self.new)
        return self.metric != SPEEDUP and all(side.control is not None for side in sides)

    def change(self, level: float, *, relative: bool = False) -> Change | None:
        """Return how much worse it became; None where either run has too few blocks to tell.

        Of interleaved runs it is the median of one ratio for each shared block: what both saw of
        the machine is in none of them.

        Args:
            level: one-sided error of the interval at either end.
            relative: to the control product, block by block.
        """
        both = [side.series(self.metric, relative=relative) for side in (self.base, self.new)]
        each = located(list(_over(both[1], both[0]).values()), level) if self.interleaved else None
        if each is not None:
            found: Change | None = Change(each.value, each.low, each.high)
        else:  # too few blocks in which neither was disturbed; or two runs
            found = change(*(located(list(one.values()), level) for one in both))
        return -found if found is not None and self.metric == SPEEDUP else found

    def sampled_otherwise(self) -> str | None:
        """Return what was taken in samples of other lengths, and of how many rounds."""
        for what, base, new in self._parts():
            one, other = base.samples or Samples(), new.samples or Samples()
            if _otherwise(one, other):
                rounds = f"{one.iterations_per_sample} and {other.iterations_per_sample} rounds"
                return f"{what} was sampled otherwise: {rounds} at a time"
        return None

    def _parts(self) -> Iterator[tuple[str, Measurement, Measurement]]:
        """Yield the rows that the figure is made of."""
        yield "the row", self.base.row, self.new.row
        if self.metric == SPEEDUP:
            references = zip(self.base.references, self.new.references, strict=False)
            yield from (("its reference", one, other) for one, other in references)
        elif self.base.control is not None and self.new.control is not None:
            yield "its control", self.base.control, self.new.control


@dataclass(frozen=True, slots=True)
class Alone:
    """A figure that one report does not have; `other` is that report's row, if there is one."""

    id: str
    metric: str
    lost: bool  # base has it, new does not; else the other way
    other: Row | None  # also one that is not judged, as it is for a model


def joined(base: Report, new: Report) -> tuple[list[Pair], list[Alone]]:
    """Return the figures that both reports have, and those that one has alone."""
    before, after = _rows(base), _rows(new)
    was_left, now_left = _left(base, before), _left(new, after)
    pairs: list[Pair] = []
    alone: list[Alone] = []
    for id_ in dict.fromkeys((*before, *after)):
        was, now = before.get(id_), after.get(id_)
        had, has = (side.metrics if side else () for side in (was, now))
        if was and now and had and has:
            pairs += [Pair(id_, metric, was, now) for metric in had if metric in has]
        else:  # one line for a row
            had, has = had[:1], has[:1]
        was, now = was or was_left.get(id_), now or now_left.get(id_)
        alone += [Alone(id_, metric, lost=True, other=now) for metric in had if metric not in has]
        alone += [Alone(id_, metric, lost=False, other=was) for metric in has if metric not in had]
    return pairs, alone


def left_out(report: Report) -> int:
    """Return how many rows that were measured are not judged, because they are a model's."""
    return sum(left.row.status == "ok" for left in _left(report, _rows(report)).values())


def _left(report: Report, chosen: Container[str]) -> dict[str, Row]:
    """Return the rows that are not judged, because they are a model's, by id."""
    rows = (row for row in report.measurements if not is_control(row.case))
    return {row.case.id: Row(row, None, ()) for row in rows if row.case.id not in chosen}


def _rows(report: Report) -> dict[str, Row]:
    """Return the rows that may be judged, by id."""
    found: dict[str, Row] = {}
    rows = {row.case.id: row for row in report.measurements if not is_control(row.case)}
    asked = {id_: row for id_, row in rows.items() if not in_sweep(row.case)}
    chosen = asked or rows
    for group in _groups(report.measurements):
        controls = {_where(row): row for row in group if _is_control(row)}
        for row in group:
            if row.case.id in chosen:
                references = tuple(_references(row, rows))
                found[row.case.id] = Row(row, controls.get(_where(row)), references)
    return found


def _groups(rows: Iterable[Measurement]) -> Iterator[list[Measurement]]:
    """Yield the rows that were measured side by side: the controls of a group stand at its end."""
    group: list[Measurement] = []
    for row in rows:
        if group and is_control(group[-1].case) and not is_control(row.case):
            yield group
            group = []
        group.append(row)
    yield group


def _is_control(row: Measurement) -> bool:
    return is_control(row.case) and row.status == "ok"


def _where(row: Measurement) -> tuple[str, str]:
    """Return what a row runs on: the first of its devices, and what drives it."""
    first = row.case.bindings[0].device
    return first.backend, first.id


def _references(row: Measurement, rows: Mapping[str, Measurement]) -> Iterator[Measurement]:
    """Yield what does the same work one after the other: copies both ways have two such rows."""
    case = row.case
    if case.against is None or case.against not in rows:
        return
    yield rows[case.against]
    if name := specified(case).both_ways:
        back = replace(case, name=name, params={**case.params, "pattern": "alone"}).id
        if back in rows:
            yield rows[back]


def _otherwise(one: Samples, other: Samples) -> bool:
    """Return whether one's samples are of a single round, which is slower, and the other's are not.

    What is taken in several rounds is warmed up by one that does not count (bench/base.py). But a
    single round instead of several in as much time is what a change looks like: it is another
    length that tells of another way of sampling.
    """
    rounds = one.iterations_per_sample, other.iterations_per_sample
    both = rounds[0] == rounds[1] or 1 not in rounds
    if both or not (one.seconds and other.seconds):
        return False
    lengths = (n * median(found.seconds) for n, found in zip(rounds, (one, other), strict=True))
    short, long = sorted(lengths)
    return long > _LONGER * short


def _by_block(row: Measurement) -> dict[int, float]:
    """Return the seconds of one round for each block."""
    samples = row.judged or Samples()
    return dict(zip(samples.blocks, samples.seconds, strict=True))


def _before(row: Measurement) -> dict[int, float]:
    """Return the seconds of the control product just before each sample; none: it was not."""
    samples = row.judged or Samples()
    return dict(zip(samples.blocks, samples.control, strict=False))


def _sums(rows: Sequence[Measurement]) -> dict[int, float]:
    """Return what rows take one after the other, in each block that all of them have."""
    every = [_by_block(row) for row in rows]
    shared = (block for block in every[0] if all(block in each for each in every))
    return {block: math.fsum(each[block] for each in every) for block in shared}


def _over(over: Mapping[int, float], under: Mapping[int, float]) -> dict[int, float]:
    """Return over/under for each shared block; none at all where a time is no time."""
    shared = [block for block in over if block in under]
    if not all(over[block] > 0.0 < under[block] for block in shared):
        return {}
    return {block: over[block] / under[block] for block in shared}

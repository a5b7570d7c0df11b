"""Which rows a selector selects, and the verdicts of limits on them: ``dot.many.speedup>=1.8``.

A selector has the bench and the case of a row's id, any subset of its keys, and a metric; keys that
are not given may have any value. In addition to those of the id there are

    name=dev0            rows that run on this name only, written as in ids
    device=cuda0         rows all of whose devices are this one
    model=NVIDIA H200    rows all of whose devices are called so by their driver
    driver=580.65.06     rows all of whose devices have this driver

A comma, a semicolon, ``]`` and ``%`` in the value of one of a device are ``%2c``, ``%3b``, ``%5d``
and ``%25``.

The size sweep of a model is selected by ``pattern=ladder`` only. A metric of the model selects
models, such as ``transfer.h2d.latency``.

The interval of a figure decides, whatever flags the row has:

    pass            the whole interval is on the right side
    fail            the whole interval is on the wrong side; or the row failed; or it is NaN
    inconclusive    the row was left out for time; the limit lies inside; or there is no interval:
                    of too few samples, or of a ratio that was impossible
    missing         the row was skipped, or no row has the figure: never a pass
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from gpumap.judge.inconclusive import out_of_time, undecided
from gpumap.model import Device, Fit, Measurement, Verdict, replace
from gpumap.model.measurements import fit_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.model import Case, Estimate, Report, VerdictWord

Row = Measurement | Fit  # what has an id and metrics
RULE = "limit"
Operator = Literal[">=", "<=", ">", "<"]
Outcome = Literal["pass", "fail", "inconclusive"]

OF_DEVICES: Mapping[str, Callable[[Device], str | None]] = {
    "device": lambda device: str(device.ref),
    "model": lambda device: device.name.strip(),
    "driver": lambda device: device.driver,
}
_WRITTEN = re.compile(r"%(25|2c|3b|5d)")  # in a device's facts: what would end them
_PATTERN, _SWEEP = "pattern", "ladder"  # a key that a selector of such rows has to give


@dataclass(frozen=True, slots=True)
class Selector:
    """One metric of the rows of a case, and the keys that they must have."""

    bench: str
    keys: Mapping[str, str] = field(hash=False)
    metric: str
    head: str  # the part before the keys in the ids of those rows

    def matches(self, row: Row) -> bool:
        """Return whether it selects a row, whether or not that has the figure."""
        return self.selects(id_of(row), row.case)

    def selects(self, id_: str, case: Case) -> bool:
        """Return whether it selects the row, or the model of a case, that has an id."""
        head, keys = split_id(id_)
        if head != self.head:
            return False
        if keys.get(_PATTERN) == _SWEEP and _PATTERN not in self.keys:
            return False
        return all(
            _are(key, value, case) if key in OF_DEVICES else _has_key(key, value, keys)
            for key, value in self.keys.items()
        )


def id_of(row: Row) -> str:
    """Return the id of a row of a report."""
    return row.case.id if isinstance(row, Measurement) else row.id


def split_id(id_: str) -> tuple[str, dict[str, str]]:
    """Return an id's bench and case, and its keys."""
    head, _, inside = id_.removesuffix("]").partition("[")
    pairs = (item.partition("=") for item in inside.split(",")) if inside else ()
    return head, {key: value for key, _, value in pairs}


def _has_key(key: str, value: str, keys: Mapping[str, str]) -> bool:
    """Return whether a row has a key's value; a row without the key has not."""
    if key == "name":
        return keys.get("names") == value
    present = keys.get(key)
    return present == value or (present in ("True", "False") and present.lower() == value)


def _are(key: str, value: str, case: Case) -> bool:
    """Return whether all devices of a case have a value."""
    wanted = _WRITTEN.sub(lambda each: chr(int(each[1], 16)), value)
    found = {OF_DEVICES[key](binding.device) for binding in case.bindings}
    return found == {wanted}


@dataclass(frozen=True, slots=True)
class Limit:
    """The bound of a metric; `value` is in its SI unit."""

    text: str
    selector: Selector
    operator: Operator
    value: float


def verdict_on(operator: Operator, limit: float, figure: Estimate) -> Outcome:
    """Return the verdict of an interval on a limit; an infinite one proves no pass."""
    low, high = figure.low, figure.high
    if figure.impossible:
        return "inconclusive"
    if not low <= figure.value <= high:  # NaN compares with nothing
        return "fail"
    right = {">=": low >= limit, ">": low > limit, "<=": high <= limit, "<": high < limit}
    wrong = {">=": high < limit, ">": high <= limit, "<=": low > limit, "<": low >= limit}
    if wrong[operator]:
        return "fail"
    finite = math.isfinite(low) and math.isfinite(high)
    return "pass" if right[operator] and finite else "inconclusive"


def verdicts(limits: Iterable[Limit], report: Report) -> tuple[Verdict, ...]:
    """Return a verdict for each limit and each row that it selects; at least one for each limit."""
    return tuple(verdict for limit in limits for verdict in _verdicts(limit, report))


def early(limits: Iterable[Limit], rows: Sequence[Measurement]) -> list[str]:
    """Return the verdict of each limit on each of some rows of a run in progress."""
    results = (_of(each, row) for each in limits for row in rows if each.selector.matches(row))
    return [verdict.verdict for verdict in results if verdict is not None]


def _verdicts(limit: Limit, report: Report) -> Iterator[Verdict]:
    rows: tuple[Row, ...] = (*report.measurements, *report.fits)
    selected = (row for row in rows if limit.selector.matches(row))
    unmeasured = [row for row in report.measurements if out_of_time(row)]
    short = limit.selector.bench in {row.case.bench for row in undecided(unmeasured)}
    late = _planned(unmeasured)
    results = [verdict for row in selected if (verdict := _of(limit, row, short=short)) is not None]
    results += [
        _verdict(limit, id_, "inconclusive" if id_ in late else "missing")
        for id_ in _unfitted(limit.selector, report)
    ]
    yield from results or [_verdict(limit, None)]


def _of(limit: Limit, row: Row, *, short: bool = False) -> Verdict | None:
    """Return the verdict on a row; None for one that was measured and has no such figure.

    A benchmark out of time (`short`) may lack rows that the metric is computed from.
    """
    id_, figure = id_of(row), row.metrics.get(limit.selector.metric)
    if isinstance(row, Measurement) and row.status != "ok":
        if out_of_time(row):  # there was no time: more of it may decide
            return _verdict(limit, id_, "inconclusive")
        return _verdict(limit, id_, "missing" if row.status == "skipped" else "fail")
    if figure is None and isinstance(row, Measurement):
        return _verdict(limit, id_, "inconclusive") if short else None
    if figure is None:
        return _verdict(limit, id_)
    result = verdict_on(limit.operator, limit.value, figure)
    value = None if figure.impossible else figure.value
    low, high = (figure.low, figure.high) if figure.has_interval else (None, None)
    return replace(_verdict(limit, id_, result), value=value, low=low, high=high)


def _verdict(limit: Limit, id_: str | None, word: VerdictWord = "missing") -> Verdict:
    return Verdict(RULE, limit.text, id_, limit.selector.metric, word, limit=limit.value)


def _unfitted(selector: Selector, report: Report) -> list[str]:
    """Return the ids of planned models that were not fitted."""
    there = {fit.id for fit in report.fits}
    planned = _planned(report.measurements)
    return [id_ for id_ in planned if id_ not in there and selector.selects(id_, planned[id_])]


def _planned(rows: Iterable[Measurement]) -> dict[str, Case]:
    """Return a case of each size sweep among rows, by the id of its model."""
    return {fit_id(row.case): row.case for row in rows if row.case.params.get(_PATTERN) == _SWEEP}

"""Limits, ``dot.many.speedup>=1.8``: parse them, and judge the rows of a report.

    limit    = selector operator quantity
    operator = ">=" | "<=" | ">" | "<"

The quantity has a unit of the metric's dimension. With [low, high] the interval of a figure,

    pass            the whole interval is on the right side
    fail            the whole interval is on the wrong side; or the row failed; or it is NaN
    inconclusive    the row was left out for time; the limit lies inside; or there is no interval:
                    of too few samples, or of a ratio that was impossible
    missing         the row was skipped, or no row has the figure: never a pass

The interval alone decides, whatever flags the row has. What is counted, and not taken from samples,
is certain whatever those are.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

from gpumap import units
from gpumap.errors import Diagnostic, QuestionError, Span
from gpumap.judge.ceilings import out_of_time, undecided
from gpumap.judge.selectors import Selector, id_of, scan, split_id
from gpumap.model import BreakEven, Measurement, Verdict, replace
from gpumap.model.maps import UNITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.model import Estimate, Fit, Report

    Row = Measurement | Fit | BreakEven

RULE = "limit"
Operator = Literal[">=", "<=", ">", "<"]
Outcome = Literal["pass", "fail", "inconclusive"]

_OPERATOR = re.compile(r"\s*(>=|<=|>|<)(?![<>=])\s*")
_EXAMPLE = "write it as dot.many.speedup>=1.8 or 'transfer.h2d.peak_bandwidth>=50GB/s'"
_REST = 8  # characters shown of what should be an operator


@dataclass(frozen=True, slots=True)
class Limit:
    """The bound of a metric; `value` is in its SI unit."""

    text: str
    selector: Selector
    operator: Operator
    value: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a limit.

        Raises:
            QuestionError: no report could have such a metric; each diagnostic has its
                place in `text`, and ends in the fix.
        """
        selector, stop = scan(text)
        match = _OPERATOR.match(text, stop)
        if match is None:
            raise _no_operator(text, stop)
        try:
            value = units.quantity(text[match.end() :], UNITS[selector.metric])
        except units.UnitError as error:
            place = Span(min(match.end(), max(len(text) - 1, 0)), len(text))
            wrong = Diagnostic("limit", error.problem, span=place, hint=error.fix)
            raise QuestionError((wrong,)) from error
        operator: Operator = match[1]  # type: ignore[assignment] # the pattern has no other
        return cls(text.strip(), selector, operator, value)


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
    rows: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows_of(report):
        rows[id_of(row).partition("[")[0]].append(row)
    return tuple(
        verdict
        for limit in limits
        for verdict in _verdicts(limit, rows[limit.selector.head], report)
    )


def early(limits: Iterable[Limit], rows: Sequence[Measurement]) -> list[str]:
    """Return the verdict of each limit on each of some rows of a run in progress."""
    heads = [(id_of(row).partition("[")[0], row) for row in rows]
    results = (
        _of(limit, row)
        for limit in limits
        for head, row in heads
        if head == limit.selector.head and limit.selector.matches(row)
    )
    return [verdict.verdict for verdict in results if verdict is not None]


def rows_of(report: Report) -> Iterator[Row]:
    """Yield everything that a limit may select."""
    yield from report.measurements
    yield from report.fits
    yield from report.break_evens


def _verdicts(limit: Limit, rows: Iterable[Row], report: Report) -> Iterator[Verdict]:
    selected = (row for row in rows if limit.selector.matches(row))
    unmeasured = [row for row in report.measurements if out_of_time(row)]
    short = limit.selector.bench in {row.case.bench for row in undecided(unmeasured)}
    models = {_model_of(row.case.id) for row in unmeasured}
    results = [verdict for row in selected if (verdict := _of(limit, row, short=short)) is not None]
    results += [
        replace(_missing(limit, id_), verdict="inconclusive" if id_ in models else "missing")
        for id_ in _unfitted(limit.selector, report)
    ]
    yield from results or [_missing(limit, None)]


def _of(limit: Limit, row: Row, *, short: bool = False) -> Verdict | None:
    """Return the verdict on a row; None for one that was measured and has no such figure.

    A benchmark out of time (`short`) may lack rows that the metric is computed from.
    """
    if isinstance(row, Measurement) and row.status != "ok":
        missing = _missing(limit, row.case.id)
        if out_of_time(row):  # there was no time: more of it may decide
            return replace(missing, verdict="inconclusive")
        return missing if row.status == "skipped" else replace(missing, verdict="fail")
    figure = row.metrics.get(limit.selector.metric)
    if figure is None and isinstance(row, Measurement) and not short:
        return None
    if figure is None:
        missing = _missing(limit, id_of(row))
        return replace(missing, verdict="inconclusive") if _no_time(row) else missing
    result = verdict_on(limit.operator, limit.value, figure)
    known = figure.has_interval
    return replace(
        _missing(limit, id_of(row)),
        verdict=result,
        value=None if figure.impossible else figure.value,
        low=figure.low if known else None,
        high=figure.high if known else None,
    )


def _no_time(row: Row) -> bool:
    """Return whether a row that has no figure might have had it in more time."""
    if isinstance(row, BreakEven):
        return row.reason is None and row.why_stopped == "budget"
    return isinstance(row, Measurement)


def _missing(limit: Limit, id_: str | None) -> Verdict:
    return Verdict(
        rule=RULE,
        text=limit.text,
        id=id_,
        metric=limit.selector.metric,
        verdict="missing",
        limit=limit.value,
    )


def _unfitted(selector: Selector, report: Report) -> list[str]:
    """Return the ids of planned models that were not fitted."""
    if selector.family.suffix != ".fit":
        return []
    there = {fit.id for fit in report.fits}
    planned = (_model_of(row.case.id) for row in report.measurements)
    unfitted = dict.fromkeys(id_ for id_ in planned if id_ is not None and id_ not in there)
    return [id_ for id_ in unfitted if selector.selects(id_)]


def _model_of(id_: str) -> str | None:
    """Return the id of the model that a row of a size sweep is for; None for any other."""
    head, keys = split_id(id_)
    if keys.pop("pattern", None) != "ladder":
        return None
    keys.pop("bytes", None)
    inside = ",".join(
        f"{key}={value}" for key, value in sorted({**keys, "pattern": "alone"}.items())
    )
    return f"{head}.fit[{inside}]"


def _no_operator(text: str, stop: int) -> QuestionError:
    rest = text[stop:].strip()
    if not rest:
        message, place = "nothing is asked of it", Span(max(len(text) - 1, 0), len(text))
    else:
        start = text.index(rest[0], stop)
        place = Span(start, min(start + _REST, len(text)))
        message = f'"{text[place.start : place.stop]}" does not begin with one of >=, <=, > and <'
    return QuestionError((Diagnostic("limit", message, span=place, hint=_EXAMPLE),))

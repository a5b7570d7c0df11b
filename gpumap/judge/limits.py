"""Limits, ``dot.many.speedup>=1.8``: what is asked, and what the rows of a report say to it.

    limit    = selector operator quantity
    operator = ">=" | "<=" | ">" | "<"

The quantity has a unit of the metric's dimension. With [low, high] the interval of a figure,

    pass            the whole interval is on the right side
    fail            the whole interval is on the wrong side; or the row failed; or it is no number
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
from gpumap.judge.ceilings import left_out, undecided
from gpumap.judge.selectors import Selector, id_of, scan, taken_apart
from gpumap.model import BreakEven, Measurement, Verdict, replace
from gpumap.model.figures import UNITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.model import Estimate, Fit, Report

    Row = Measurement | Fit | BreakEven

RULE = "limit"
Operator = Literal[">=", "<=", ">", "<"]
Word = Literal["pass", "fail", "inconclusive"]

_OPERATOR = re.compile(r"\s*(>=|<=|>|<)(?![<>=])\s*")
_EXAMPLE = "write it as dot.many.speedup>=1.8 or 'transfer.h2d.peak_bandwidth>=50GB/s'"
_REST = 8  # characters of what stands in the place of an operator


@dataclass(frozen=True, slots=True)
class Limit:
    """What a figure is to be: `value` is in the SI unit of the metric."""

    text: str
    selector: Selector
    operator: Operator
    value: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the limit that a text asks for.

        Raises:
            QuestionError: it asks for nothing that a report could have; each diagnostic has its
                place in `text`, and ends in the fix.
        """
        selector, stop = scan(text)
        found = _OPERATOR.match(text, stop)
        if found is None:
            raise _no_operator(text, stop)
        try:
            value = units.quantity(text[found.end() :], UNITS[selector.metric])
        except units.UnitError as error:
            place = Span(min(found.end(), max(len(text) - 1, 0)), len(text))
            wrong = Diagnostic("limit", error.problem, span=place, hint=error.fix)
            raise QuestionError((wrong,)) from error
        operator: Operator = found[1]  # type: ignore[assignment] # the pattern has no other
        return cls(text.strip(), selector, operator, value)


def word(operator: Operator, limit: float, figure: Estimate) -> Word:
    """Return what an interval says to a limit; infinity proves no more than that it is far."""
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
    """Return what each limit says to each of some rows of a run that still measures."""
    heads = [(id_of(row).partition("[")[0], row) for row in rows]
    found = (
        _of(limit, row)
        for limit in limits
        for head, row in heads
        if head == limit.selector.head and limit.selector.matches(row)
    )
    return [verdict.verdict for verdict in found if verdict is not None]


def rows_of(report: Report) -> Iterator[Row]:
    """Yield everything that a limit may select."""
    yield from report.measurements
    yield from report.fits
    yield from report.break_evens


def _verdicts(limit: Limit, rows: Iterable[Row], report: Report) -> Iterator[Verdict]:
    selected = (row for row in rows if limit.selector.matches(row))
    gone = [row for row in report.measurements if left_out(row)]
    short = limit.selector.bench in {row.case.bench for row in undecided(gone)}
    models = {_model_of(row.case.id) for row in gone}
    found = [verdict for row in selected if (verdict := _of(limit, row, short=short)) is not None]
    found += [
        replace(_missing(limit, id_), verdict="inconclusive" if id_ in models else "missing")
        for id_ in _unfitted(limit.selector, report)
    ]
    yield from found or [_missing(limit, None)]


def _of(limit: Limit, row: Row, *, short: bool = False) -> Verdict | None:
    """Return the verdict on a row; None for one that was measured and has no such figure.

    Of a benchmark that is cut `short` rows are left out that the figure may be made of.
    """
    if isinstance(row, Measurement) and row.status != "ok":
        missing = _missing(limit, row.case.id)
        if left_out(row):  # there was no time: more of it may decide
            return replace(missing, verdict="inconclusive")
        return missing if row.status == "skipped" else replace(missing, verdict="fail")
    figure = row.metrics.get(limit.selector.metric)
    if figure is None and isinstance(row, Measurement) and not short:
        return None
    if figure is None:
        missing = _missing(limit, id_of(row))
        return replace(missing, verdict="inconclusive") if _no_time(row) else missing
    said = word(limit.operator, limit.value, figure)
    known = figure.has_interval
    return replace(
        _missing(limit, id_of(row)),
        verdict=said,
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
    wanted = dict.fromkeys(id_ for id_ in planned if id_ is not None and id_ not in there)
    return [id_ for id_ in wanted if selector.selects(id_)]


def _model_of(id_: str) -> str | None:
    """Return the id of the model that a row of a size sweep is for; None for any other."""
    head, keys = taken_apart(id_)
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

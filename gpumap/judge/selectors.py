"""Selectors of metrics, ``dot.many[size=1024].speedup``, and limits on them: ``...>=1.8``.

    limit    = selector ( ">=" | "<=" | ">" | "<" ) quantity
    selector = bench "." case [ "[" [ key "=" value { "," key "=" value } ] "]" ] "." metric

Bench and case are those of a row's id, and so are keys and values: ``names=a+b``, ``names=a>b``,
special characters of a name as ``%2b``. Any subset of the keys will do; keys that are not given may
have any value. In addition to those of the id there are

    name=dev0         rows that run on this name only, written as in the map
    size_name=small   another word for the bytes; and ``bytes=4KiB`` is ``bytes=4096``

The size sweep of a model is selected by ``pattern=ladder`` only, exchanges of cold buffers by
``buffers=cold`` only. A metric of the model selects models, such as ``transfer.h2d.latency``.

The quantity of a limit has a unit of the metric's dimension. The interval of a figure decides,
whatever flags the row has:

    pass            the whole interval is on the right side
    fail            the whole interval is on the wrong side; or the row failed; or it is NaN
    inconclusive    the row was left out for time; the limit lies inside; or there is no interval:
                    of too few samples, or of a ratio that was impossible
    missing         the row was skipped, or no row has the figure: never a pass
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self

from gpumap import units
from gpumap.bench.registry import BENCHMARKS, find
from gpumap.errors import Diagnostic, QuestionError, Span
from gpumap.judge.ceilings import out_of_time, undecided
from gpumap.model import BreakEven, Fit, Measurement, Verdict, replace
from gpumap.model.maps import UNITS
from gpumap.text import fix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.bench.registry import Family
    from gpumap.model import Estimate, Report

Row = Measurement | Fit | BreakEven  # what has an id and metrics

EXAMPLE = "write it as dot.many.speedup or dot.many[size=1024].speedup"
_SHOWN = 40  # characters of the user's text inside a message; the caret shows its position
_HEAD = re.compile(r"[^\[<>=]*")  # up to the keys, or to the operator of a limit
_DOT = re.compile(r"\s*\.|")
_WORD = re.compile(r"[^<>=]*")
_QUOTED = re.compile(r"%(25|2b|2c|3d|5b|5d|3e)")  # as ids write what would end a name
_SPECIAL = str.maketrans({c: f"%{ord(c):02x}" for c in "%+,=[]>"})


_NAMED = (("pattern", "ladder"), ("buffers", "cold"))  # keys of rows that a selector has to give
EVERYWHERE = ("backend", "names", "name")  # keys of every row


@dataclass(frozen=True, slots=True)
class Selector:
    """One metric of the rows of a case, and the keys that they must have."""

    bench: str
    case: str
    keys: Mapping[str, str] = field(hash=False)
    metric: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what a text selects.

        Raises:
            QuestionError: no report could have such a metric; each diagnostic has its
                place in `text`, and lists the valid names.
        """
        selector, stop = scan(text)
        rest = _stripped(text, stop, len(text))
        if rest.start < rest.stop:
            raise _no_selector(text, rest, f'"{_excerpt(text, rest)}" is left over')
        return cls(selector.bench, selector.case, selector.keys, selector.metric)

    def __str__(self) -> str:
        keys = ",".join(f"{key}={value}" for key, value in self.keys.items())
        return f"{self.bench}.{self.case}{f'[{keys}]' if keys else ''}.{self.metric}"

    @property
    def family(self) -> Family:
        """Return the rows that it selects from."""
        families = _families(self.bench)
        return next(f for f in families if self.case in f.cases and self.metric in f.metrics)

    @property
    def head(self) -> str:
        """Return the part before the keys in the ids of those rows."""
        return f"{self.bench}.{self.case}{self.family.suffix}"

    def matches(self, row: Row) -> bool:
        """Return whether it selects a row, whether or not that has the figure."""
        extra = row.case.keys_not_in_id if isinstance(row, Measurement) else None
        return self.selects(id_of(row), extra)

    def selects(self, id_: str, extra_keys: Mapping[str, str] | None = None) -> bool:
        """Return whether it selects the row of an id; `extra_keys` are in no id."""
        head, keys = split_id(id_)
        if head != self.head:
            return False
        keys |= extra_keys or {}
        if any(keys.get(key) == value and key not in self.keys for key, value in _NAMED):
            return False
        return all(_has_key(key, value, keys) for key, value in self.keys.items())


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
        # as ids write it, whether it is written so already or as in the map
        name = _QUOTED.sub(lambda each: chr(int(each[1], 16)), value).translate(_SPECIAL)
        return keys.get("names") == name
    present = keys.get(key)
    return present == value or (present in ("True", "False") and present.lower() == value)


# --- parsing: one function for each rule of the grammar


def scan(text: str) -> tuple[Selector, int]:
    """Return the selector that `text` begins with, and where it ends.

    Raises:
        QuestionError: as `Selector.parse`.
    """
    head, inside, metric = _parts(text)
    bench, case, families = _case(text, head)
    name = text[metric.start : metric.stop]
    having = [family for family in families if name in family.metrics]
    keys, wrong = _keys(text, inside, having or families) if inside else ({}, [])
    if not having:
        known = _all(metric for family in families for metric in family.metrics)
        message = f'{bench}.{case} has no metric "{_excerpt(text, metric)}"'
        wrong += _unknown(message, metric, name, known).diagnostics
    if wrong:
        raise QuestionError(tuple(wrong))
    return Selector(bench, case, keys, name), metric.stop


def _parts(text: str) -> tuple[Span, Span | None, Span]:
    """Return the spans of bench and case, keys, and metric; there may be no keys."""
    stop = _matched(_HEAD, text, 0)
    if text[stop : stop + 1] != "[":
        dot = text.rfind(".", 0, stop)
        if dot < 0:
            raise _no_selector(text, Span(0, stop), "bench, case and metric have dots between")
        return _stripped(text, 0, dot), None, _stripped(text, dot + 1, stop)
    closing = text.find("]", stop)
    if closing < 0:
        raise _no_selector(text, Span(stop, len(text)), 'no "]" follows "["')
    dot = _matched(_DOT, text, closing + 1)
    if dot == closing + 1:
        raise _no_selector(text, Span(closing, dot), 'no ".METRIC" follows "]"')
    end = _matched(_WORD, text, dot)
    return _stripped(text, 0, stop), Span(stop + 1, closing), _stripped(text, dot, end)


def _families(bench: str) -> tuple[Family, ...]:
    return spec.families if (spec := find(bench)) is not None else ()


def _case(text: str, head: Span) -> tuple[str, str, list[Family]]:
    """Return the benchmark and the case that are named, and the families that have it."""
    dot = text.find(".", head.start, head.stop)
    if dot < 0:
        raise _no_selector(text, head, f'"{_excerpt(text, head)}" has no case')
    bench, case = _stripped(text, head.start, dot), _stripped(text, dot + 1, head.stop)
    name, what = text[bench.start : bench.stop], text[case.start : case.stop]
    of_bench = _families(name)
    if not of_bench:
        message = f'no benchmark is called "{_excerpt(text, bench)}"'
        raise _unknown(message, bench, name, tuple(BENCHMARKS))
    hits = [(known, f) for f in of_bench for known in f.cases if what in (known, known + f.suffix)]
    if not hits:
        message = f'{name} has no case "{_excerpt(text, case)}"'
        raise _unknown(message, case, what, _all(case for f in of_bench for case in f.cases))
    return name, hits[0][0], [family for _, family in hits]


def _keys(
    text: str, inside: Span, families: Sequence[Family]
) -> tuple[dict[str, str], list[Diagnostic]]:
    known = _all([*(key for family in families for key in family.keys), *EVERYWHERE])
    keys: dict[str, str] = {}
    wrong: list[Diagnostic] = []
    for item in _items(text, inside):
        try:
            key, value = _pair(text, item, known, keys)
        except QuestionError as error:
            wrong += error.diagnostics
        else:
            keys[key] = value
    return keys, wrong


def _items(text: str, inside: Span) -> Iterator[Span]:
    start = inside.start
    while (comma := text.find(",", start, inside.stop)) >= 0:
        yield _stripped(text, start, comma)
        start = comma + 1
    if inside.start < inside.stop:
        yield _stripped(text, start, inside.stop)


def _pair(
    text: str, item: Span, known: Sequence[str], others: Mapping[str, str]
) -> tuple[str, str]:
    equals = text.find("=", item.start, item.stop)
    if equals < 0:
        raise _no_selector(text, item, f'"{_excerpt(text, item)}" is not key=value')
    place, value = _stripped(text, item.start, equals), _stripped(text, equals + 1, item.stop)
    key = text[place.start : place.stop]
    if key not in known:
        message = f'no row has a key "{_excerpt(text, place)}"'
        raise _unknown(message, place, key, known)
    if key in others:
        raise _no_selector(text, place, f"duplicate key {key}")
    return key, _value(text, key, value)


def _value(text: str, key: str, value: Span) -> str:
    """Return a value as ids write it."""
    raw = text[value.start : value.stop]
    if not raw:
        raise _no_selector(text, value, f"{key} has no value")
    if key != "bytes":
        return raw
    try:
        return str(units.nbytes(raw))
    except ValueError as error:
        raise QuestionError((Diagnostic("selector", str(error), span=value),)) from error


def _unknown(message: str, place: Span, word: str, known: Sequence[str]) -> QuestionError:
    hint = fix(word, known, f"there are {', '.join(known)}")
    return QuestionError((Diagnostic("selector", message, span=place, hint=hint),))


def _no_selector(text: str, place: Span, message: str) -> QuestionError:
    if place.start == place.stop:  # something is missing there: a caret needs a character
        place = Span(place.start, min(place.start + 1, len(text)))
    return QuestionError((Diagnostic("selector", message, span=place, hint=EXAMPLE),))


def _excerpt(text: str, place: Span) -> str:
    part = text[place.start : place.stop]
    return part if len(part) <= _SHOWN else part[: _SHOWN - 1] + "…"


def _matched(pattern: re.Pattern[str], text: str, start: int) -> int:
    return match.end() if (match := pattern.match(text, start)) else start


def _stripped(text: str, start: int, stop: int) -> Span:
    while start < stop and text[start].isspace():
        start += 1
    while start < stop and text[stop - 1].isspace():
        stop -= 1
    return Span(start, stop)


def _all(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


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


def rows_of(report: Report) -> tuple[Row, ...]:
    """Return everything that a limit may select."""
    return (*report.measurements, *report.fits, *report.break_evens)


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
    value = None if figure.impossible else figure.value
    low, high = (figure.low, figure.high) if figure.has_interval else (None, None)
    return replace(_missing(limit, id_of(row)), verdict=result, value=value, low=low, high=high)


def _no_time(row: Row) -> bool:
    """Return whether a row that has no figure might have had it in more time."""
    if isinstance(row, BreakEven):
        return row.reason is None and row.why_stopped == "budget"
    return isinstance(row, Measurement)


def _missing(limit: Limit, id_: str | None) -> Verdict:
    metric = limit.selector.metric
    return Verdict(RULE, limit.text, id_, metric, "missing", limit=limit.value)


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
    inside = sorted({**keys, "pattern": "alone"}.items())
    return f"{head}.fit[{','.join(map('='.join, inside))}]"


def _no_operator(text: str, stop: int) -> QuestionError:
    rest = text[stop:].strip()
    if not rest:
        message, place = "it requests nothing", Span(max(len(text) - 1, 0), len(text))
    else:
        start = text.index(rest[0], stop)
        place = Span(start, min(start + _REST, len(text)))
        message = f'"{text[place.start : place.stop]}" does not begin with one of >=, <=, > and <'
    return QuestionError((Diagnostic("limit", message, span=place, hint=_EXAMPLE),))

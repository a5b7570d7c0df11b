"""Texts of selectors, ``dot.many[size=1024].speedup``, and of limits on them: ``...>=1.8``.

    limit    = selector ( ">=" | "<=" | ">" | "<" ) quantity
    selector = bench "." case [ "[" [ key "=" value { "," key "=" value } ] "]" ] "." metric

Bench and case are those of a row's id, and so are keys and values: ``names=a+b``, ``names=a>b``,
special characters of a name as ``%2b``; ``bytes=4KiB`` is ``bytes=4096``. Every row has the keys of
its devices, too: ``model=NVIDIA H200``. The quantity of a limit
has a unit of the metric's dimension. Which rows they select: `gpumap.judge.limits`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.bench.registry import BENCHMARKS, find
from gpumap.errors import Diagnostic, QuestionError, Span
from gpumap.judge.limits import OF_DEVICES, Limit, Operator, Selector
from gpumap.model.maps import UNITS
from gpumap.text import fix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpumap.bench.registry import Family

EXAMPLE = "write it as dot.many.speedup or dot.many[size=1024].speedup"
EVERYWHERE = ("backend", "names", "name", *OF_DEVICES)  # keys of every row
_SHOWN = 40  # characters of the user's text inside a message; the caret shows its position
_SELECTOR = re.compile(
    r"\s*(?P<bench>[^.\[\]<>=]*?)\s*\.\s*(?P<case>[^\[\]<>=]*?)\s*(?:\[(?P<keys>[^\]]*)\]\s*)?"
    r"\.\s*(?P<metric>[^.\[\]<>=]*?)\s*(?=[<>=]|\Z)"  # or an operator of a limit
)
_OPERATOR = re.compile(r"\s*(>=|<=|>|<)(?![<>=])\s*")
_EXAMPLE = "write it as dot.many.speedup>=1.8 or 'transfer.h2d.peak_bandwidth>=50GB/s'"
_REST = 8  # characters shown of what should be an operator


def selector(text: str) -> Selector:
    """Return what a text selects.

    Raises:
        QuestionError: no report could have such a metric; each diagnostic has its
            place in `text`, and lists the valid names.
    """
    found, stop = _scan(text)
    if stop < len(text):
        rest = Span(stop, len(text))
        raise _no_selector(text, rest, f'"{_excerpt(text[stop:])}" is left over')
    return found


def limit(text: str) -> Limit:
    """Return the limit that a text is.

    Raises:
        QuestionError: no report could have such a metric; each diagnostic has its
            place in `text`, and ends in the fix.
    """
    found, stop = _scan(text)
    match = _OPERATOR.match(text, stop)
    if match is None:
        raise _no_operator(text, stop)
    try:
        value = units.quantity(text[match.end() :], UNITS[found.metric])
    except units.UnitError as error:
        place = Span(min(match.end(), max(len(text) - 1, 0)), len(text))
        wrong = Diagnostic("limit", error.problem, span=place, hint=error.fix)
        raise QuestionError((wrong,)) from error
    operator: Operator = match[1]  # type: ignore[assignment] # the pattern has no other
    return Limit(text.strip(), found, operator, value)


# --- one function for each rule of the grammar


def _scan(text: str) -> tuple[Selector, int]:
    """Return the selector that `text` begins with, and where it ends.

    Raises:
        QuestionError: as `selector`.
    """
    match = _SELECTOR.match(text)
    if match is None:
        place = _stripped(text, 0, len(text))
        raise _no_selector(text, place, f'"{_excerpt(text.strip())}" is not BENCH.CASE.METRIC')
    bench, case, families = _case(match)
    name = match["metric"]
    having = [family for family in families if name in family.metrics]
    keys, wrong = _keys(text, Span(*match.span("keys")), having or families)
    if not having:
        known = _all(metric for family in families for metric in family.metrics)
        message = f'{bench}.{case} has no metric "{_excerpt(name)}"'
        wrong += _unknown(message, match.span("metric"), name, known).diagnostics
    if wrong:
        raise QuestionError(tuple(wrong))
    suffix = next(family.suffix for family in families if family in having)
    return Selector(bench, case, keys, name, f"{bench}.{case}{suffix}"), match.end()


def _families(bench: str) -> tuple[Family, ...]:
    return spec.families if (spec := find(bench)) is not None else ()


def _case(match: re.Match[str]) -> tuple[str, str, list[Family]]:
    """Return the benchmark and the case that are named, and the families that have it."""
    name, what = match["bench"], match["case"]
    of_bench = _families(name)
    if not of_bench:
        message = f'no benchmark is called "{_excerpt(name)}"'
        raise _unknown(message, match.span("bench"), name, tuple(BENCHMARKS))
    hits = [(known, f) for f in of_bench for known in f.cases if what in (known, known + f.suffix)]
    if not hits:
        message = f'{name} has no case "{_excerpt(what)}"'
        known = _all(case for family in of_bench for case in family.cases)
        raise _unknown(message, match.span("case"), what, known)
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
    """Yield what commas separate; of nothing there is none."""
    start = inside.start
    for item in text[start : inside.stop].split(",") if inside.start < inside.stop else ():
        yield _stripped(text, start, start + len(item))
        start += len(item) + 1


def _pair(
    text: str, item: Span, known: Sequence[str], others: Mapping[str, str]
) -> tuple[str, str]:
    equals = text.find("=", item.start, item.stop)
    if equals < 0:
        raise _no_selector(
            text, item, f'"{_excerpt(text[item.start : item.stop])}" is not key=value'
        )
    place, value = _stripped(text, item.start, equals), _stripped(text, equals + 1, item.stop)
    key = text[place.start : place.stop]
    if key not in known:
        message = f'no row has a key "{_excerpt(key)}"'
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


def _unknown(message: str, place: Iterable[int], word: str, known: Sequence[str]) -> QuestionError:
    hint = fix(word, known, f"there are {', '.join(known)}")
    return QuestionError((Diagnostic("selector", message, span=Span(*place), hint=hint),))


def _no_selector(text: str, place: Span, message: str) -> QuestionError:
    if place.start == place.stop:  # something is missing there: a caret needs a character
        place = Span(place.start, min(place.start + 1, len(text)))
    return QuestionError((Diagnostic("selector", message, span=place, hint=EXAMPLE),))


def _excerpt(part: str) -> str:
    return part if len(part) <= _SHOWN else part[: _SHOWN - 1] + "…"


def _stripped(text: str, start: int, stop: int) -> Span:
    while start < stop and text[start].isspace():
        start += 1
    while start < stop and text[stop - 1].isspace():
        stop -= 1
    return Span(start, stop)


def _all(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


def _no_operator(text: str, stop: int) -> QuestionError:
    rest = text[stop:].strip()
    if not rest:
        message, place = "it requests nothing", Span(max(len(text) - 1, 0), len(text))
    else:
        start = text.index(rest[0], stop)
        place = Span(start, min(start + _REST, len(text)))
        message = f'"{text[place.start : place.stop]}" does not begin with one of >=, <=, > and <'
    return QuestionError((Diagnostic("limit", message, span=place, hint=_EXAMPLE),))

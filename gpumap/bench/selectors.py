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
from gpumap.text import cut, fix

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumap.bench.registry import Family

EXAMPLE = "write it as dot.many.speedup or dot.many[size=1024].speedup; a limit ends in >=1.8"
EVERYWHERE = ("backend", "names", "name", *OF_DEVICES)  # keys of every row
_SELECTOR = re.compile(
    r"\s*(?P<bench>[^.\[\]<>=]*?)\s*\.\s*(?P<case>[^\[\]<>=]*?)\s*(?:\[(?P<keys>[^\]]*)\]\s*)?"
    r"\.\s*(?P<metric>[^.\[\]<>=]*?)\s*(?=[<>=]|\Z)"  # or an operator of a limit
)
_OPERATOR = re.compile(r"\s*(>=|<=|>|<)(?![<>=])\s*")
_EXAMPLE = "write it as dot.many.speedup>=1.8 or 'transfer.h2d.peak_bandwidth>=50GB/s'"
_ITEM = re.compile(r"(?:(?<=\[)|(?<=,))[^,\]]*")
_PAIR = re.compile(r"\s*(?P<key>[^=]*?)\s*=\s*(?P<value>.*?)\s*", re.DOTALL)


def selector(text: str) -> Selector:
    """Return what a text selects.

    Raises:
        QuestionError: no report could have such a metric; each diagnostic has its
            place in `text`, and lists the valid names.
    """
    found, stop = _scan(text)
    if stop < len(text):
        left_over = f'"{cut(text[stop:])}" is left over'
        raise _no_selector((stop, len(text)), left_over)
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
        place = Span(max(min(stop, len(text) - 1), 0), len(text))
        message = "no operator follows the metric: there are >=, <=, > and <"
        raise QuestionError((Diagnostic("limit", message, span=place, hint=_EXAMPLE),))
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
        message = f'"{cut(text.strip())}" is not BENCH.CASE.METRIC'
        raise _no_selector((0, len(text)), message)
    bench, case, families = _case(match)
    name = match["metric"]
    having = [family for family in families if name in family.metrics]
    if not having:
        message = f'{bench}.{case} has no metric "{cut(name)}"'
        known = (metric for family in families for metric in family.metrics)
        raise _unknown(message, match.span("metric"), name, known)
    keys = _keys(text, match.span("keys"), having)
    return Selector(bench, keys, name, f"{bench}.{case}{having[0].suffix}"), match.end()


def _case(match: re.Match[str]) -> tuple[str, str, list[Family]]:
    """Return the benchmark and the case that are named, and the families that have it."""
    name, what = match["bench"], match["case"]
    of_bench = find(name).families
    if not of_bench:
        message = f'no benchmark is called "{cut(name)}"'
        raise _unknown(message, match.span("bench"), name, BENCHMARKS)
    hits = [(known, f) for f in of_bench for known in f.cases if what in (known, known + f.suffix)]
    if not hits:
        message = f'{name} has no case "{cut(what)}"'
        known = (case for family in of_bench for case in family.cases)
        raise _unknown(message, match.span("case"), what, known)
    return name, hits[0][0], [family for _, family in hits]


def _keys(text: str, inside: tuple[int, int], families: Sequence[Family]) -> dict[str, str]:
    """Return the keys in the brackets, if there are any, with their values."""
    known = (*(key for family in families for key in family.keys), *EVERYWHERE)
    keys: dict[str, str] = {}
    for item in _ITEM.finditer(text, *inside) if inside[0] < inside[1] else ():
        pair = _PAIR.fullmatch(text, *item.span())
        if pair is None or not pair["value"]:
            raise _no_selector(item.span(), f'"{cut(item[0])}" is not key=value')
        key = pair["key"]
        if key not in known:
            message = f'no row has a key "{cut(key)}"'
            raise _unknown(message, pair.span("key"), key, known)
        if key in keys:
            raise _no_selector(pair.span("key"), f"duplicate key {key}")
        keys[key] = _bytes(pair) if key == "bytes" else pair["value"]
    return keys


def _bytes(pair: re.Match[str]) -> str:
    """Return a number of bytes as ids write it."""
    try:
        return str(units.nbytes(pair["value"]))
    except ValueError as error:
        wrong = Diagnostic("selector", str(error), span=Span(*pair.span("value")))
        raise QuestionError((wrong,)) from error


def _unknown(
    message: str, place: tuple[int, int], word: str, known: Iterable[str]
) -> QuestionError:
    words = dict.fromkeys(known)
    hint = fix(word, words, f"there are {', '.join(words)}")
    return QuestionError((Diagnostic("selector", message, span=Span(*place), hint=hint),))


def _no_selector(place: tuple[int, int], message: str) -> QuestionError:
    return QuestionError((Diagnostic("selector", message, span=Span(*place), hint=EXAMPLE),))

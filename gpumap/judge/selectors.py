"""Selectors of metrics: ``dot.many[size=1024].speedup``.

    selector = bench "." case [ "[" [ key "=" value { "," key "=" value } ] "]" ] "." metric

Bench and case are those of a row's id, and so are keys and values: ``names=a+b``, ``names=a>b``,
special characters of a name as ``%2b``. Any subset of the keys will do; keys that are not given may
have any value. In addition to those of the id there are

    name=dev0         rows that run on this name only, written as in the map
    size_name=small   another word for the bytes; and ``bytes=4KiB`` is ``bytes=4096``

The size sweep of a model is selected by ``pattern=ladder`` only: the time of
copies is that of the requested ones. Exchanges of cold buffers are selected by ``buffers=cold``
only: a limit without it is one on warm ones. A metric of the model selects models, such as
``transfer.h2d.latency``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

from gpumap import units
from gpumap.bench.registry import BENCHMARKS, find
from gpumap.errors import Diagnostic, QuestionError, Span
from gpumap.model import Measurement
from gpumap.text import fix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.bench.registry import Family

EXAMPLE = "write it as dot.many.speedup or dot.many[size=1024].speedup"
_SHOWN = 40  # characters of the user's text inside a message; the caret shows its position
_HEAD = re.compile(r"[^\[<>=]*")  # up to the keys, or to the operator of a limit
_DOT = re.compile(r"\s*\.|")
_WORD = re.compile(r"[^<>=]*")
_QUOTED = re.compile(r"%(25|2b|2c|3d|5b|5d|3e)")  # as ids write what would end a name
_SPECIAL = str.maketrans({c: f"%{ord(c):02x}" for c in "%+,=[]>"})


class Identified(Protocol):
    """Anything of a report with an id, except its rows: a model, a break-even."""

    @property
    def id(self) -> str:
        """Return ``BENCH.CASE[key=value,...]``."""


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

    def matches(self, row: Measurement | Identified) -> bool:
        """Return whether it selects a row, whether or not that has the figure."""
        return self.selects(
            id_of(row), row.case.keys_not_in_id if isinstance(row, Measurement) else None
        )

    def selects(self, id_: str, extra_keys: Mapping[str, str] | None = None) -> bool:
        """Return whether it selects the row of an id; `extra_keys` are in no id."""
        head, keys = split_id(id_)
        if head != self.head:
            return False
        keys |= extra_keys or {}
        if any(keys.get(key) == value and key not in self.keys for key, value in _NAMED):
            return False
        return all(_has_key(key, value, keys) for key, value in self.keys.items())


def id_of(row: Measurement | Identified) -> str:
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
    spec = find(bench)
    return spec.families if spec is not None else ()


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


# --- errors


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
    match = pattern.match(text, start)
    return match.end() if match else start


def _stripped(text: str, start: int, stop: int) -> Span:
    while start < stop and text[start].isspace():
        start += 1
    while start < stop and text[stop - 1].isspace():
        stop -= 1
    return Span(start, stop)


def _all(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))

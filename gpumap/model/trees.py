"""Types of fields in a report; nouns as trees of dictionaries and lists, and back."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from gpumap.model.maps import UNITS, Estimate, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Natural = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Number = int | float  # an int stays one: a report is written again as it was
Positive = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0.0)]
Above = Annotated[int, Meta(gt=0)] | Annotated[float, Meta(gt=0.0)]
Share = Annotated[int, Meta(ge=0, le=1)] | Annotated[float, Meta(ge=0.0, le=1.0)]
Correlation = Annotated[float, Meta(ge=-1.0, le=1.0)] | Annotated[int, Meta(ge=-1, le=1)]
Code = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9-]*\Z")]
DoctorCode = Annotated[str, Meta(pattern=r"\AGM[1-9][0-9]{2}\Z")]
Word = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_]*\Z")]
Words = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_]*(\+[a-z][a-z0-9_]*)*\Z")]
Bench = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_-]*\Z")]
CaseName = Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9_+-]*\Z")]
Id = Annotated[
    str,
    Meta(
        pattern=r"\A[a-z][a-z0-9_-]*(\.[a-z0-9][a-z0-9_+-]*)+"
        r"\[([a-z_0-9]+=[^,\[\]=]*(,[a-z_0-9]+=[^,\[\]=]*)*)?\]\Z"
    ),
]
Key = Annotated[str, Meta(pattern=r"\A[a-z_0-9]+\Z")]
Digits = Annotated[str, Meta(pattern=r"\A(?:0|[1-9][0-9]{0,17})\Z")]
Value = Annotated[str, Meta(pattern=r"\A(?:(?![,=\[\]])[ -~])*\Z")]  # would end in an id elsewhere
Params = Mapping[Key, Value | int | float | bool]
Sentence = Annotated[str, Meta(min_length=1, max_length=200)]
Moment = Annotated[
    str, Meta(pattern=r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z\Z")
]
Hash = Annotated[str, Meta(pattern=r"\Asha256:[0-9a-f.]+\Z")]
Version = Annotated[str, Meta(pattern=r"\A[0-9][0-9A-Za-z.+!-]*\Z")]
Times = Annotated[str, Meta(pattern=r"\A[0-9]{1,9}(\.[0-9]{1,9})?(\+[0-9]{1,9}(\.[0-9]{1,9})?)?\Z")]
MetricName = Annotated[str, Meta(pattern=rf"\A(?:{'|'.join(UNITS)})\Z")]
SomeId = Annotated[Id, Meta(extra_json_schema={"$ref": "#/$defs/Id"})]
Figures = Annotated[Mapping[Word, Estimate], Meta(extra_json_schema={"$ref": "#/$defs/Metrics"})]
Computed = Annotated[Mapping[Word, Estimate], Meta(extra_json_schema={"$ref": "#/$defs/Computed"})]


T = TypeVar("T")
# 1: never released; 2: see docs/schema-2.md
SCHEMA_VERSION = 2
_MISSING = object()
_FINITE = {str, int, bool, type(None)}


class Refused(Exception):
    """What is wrong with a saved report, and where in it; a hint if a new run is not the fix."""

    def __init__(self, reason: str, path: str = "$", hint: str | None = None) -> None:
        self.reason = reason
        self.path = path
        self.hint = hint
        super().__init__(reason)


def plain(noun: Any) -> Any:
    """Return a noun of the report as dictionaries and lists, as its fields are named in JSON."""
    return _without_nonfinite(msgspec.to_builtins(noun, enc_hook=_hook, str_keys=True))


def _hook(value: Any) -> Any:
    if isinstance(value, Estimate):
        return estimated(value)
    if isinstance(value, float):
        return float(value)  # NumPy's
    raise NotImplementedError(f"no JSON of {type(value)}")


def _without_nonfinite(tree: Any) -> Any:
    """Return a tree in which what JSON cannot hold is null."""
    if isinstance(tree, dict):
        return {
            key: item if type(item) in _FINITE else _without_nonfinite(item)
            for key, item in tree.items()
        }
    if isinstance(tree, list | tuple):
        return list(tree) if _numbers(tree) else [_without_nonfinite(item) for item in tree]
    return finite(tree) if isinstance(tree, float) else tree


def _numbers(numbers: Iterable[Any]) -> bool:
    """Return whether all are finite numbers, without a look at each: most lists are long."""
    try:
        return math.isfinite(sum(numbers))
    except TypeError:
        return False


def estimated(figure: Estimate) -> dict[str, Any]:
    """Return a figure with its interval; JSON has no infinity and no NaN: null, and which it is.

    Two null ends and nothing more mean that it has no interval.
    """
    tree: dict[str, Any] = {
        "value": finite(figure.value),
        "low": finite(figure.low),
        "high": finite(figure.high),
        "unit": figure.unit,
    }
    if figure.impossible:
        return {**tree, "nonfinite": "impossible"}
    bounds = (figure.low, figure.high) if figure.has_interval else ()
    nonfinite = [x for x in (figure.value, *bounds) if not math.isfinite(x)]
    return {**tree, "nonfinite": str(nonfinite[0])} if nonfinite else tree


def finite(value: float | None) -> float | None:
    """Return a number that JSON can hold, or None."""
    return value if value is not None and math.isfinite(value) else None


def copied(type_: Callable[..., T], *nouns: Any, **differ: Any) -> T:
    """Return an object whose fields are those that differ, and else those of nouns, by name.

    Of several nouns the first that has a field gives it; what none has keeps its default.
    """
    names = getattr(type_, "__struct_fields__", ()) or type_._fields  # type: ignore[attr-defined]
    for noun in nouns:
        for name in names:
            if name not in differ and (value := getattr(noun, name, _MISSING)) is not _MISSING:
                differ[name] = value
    return type_(**differ)


def digest(tree: dict[str, Any]) -> str:
    """Return what an accidental edit of a report changes: a hash of all other keys."""
    body = {key: item for key, item in tree.items() if key != "digest"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def typed(tree: Any, type_: type[T]) -> T:
    """Return the noun that a tree is of.

    Raises:
        msgspec.ValidationError: it is of another; the message says where.
    """
    return msgspec.convert(tree, type_, dec_hook=_figure)


def _figure(type_: type, tree: Any) -> Any:
    if type_ is Estimate:
        return estimate(tree)
    raise NotImplementedError(f"no reader of {type_}")


class Figure(msgspec.Struct):
    """A figure as JSON has it; its interval holds in this run.

    Attributes:
        value: The estimate; null if it is not a finite number, or was refused.
        low: Lower end of the interval; both ends are null without one: under 6 samples.
        high: Upper end.
        unit: SI.
        nonfinite: What each null stands for: a number that JSON cannot hold, or a ratio that was
            refused. Without nulls it is not there.
    """

    value: Number | None
    low: Number | None
    high: Number | None
    unit: Unit
    nonfinite: Literal["nan", "inf", "-inf", "impossible"] | None = None


def estimate(tree: Any) -> Estimate:
    """Return a figure; two null ends and nothing more are no interval.

    Raises:
        ValueError: `nonfinite` is missing or too much, or the interval does not hold the value.
    """
    shape = msgspec.convert(tree, Figure)
    ends = (shape.value, shape.low, shape.high)
    refused = shape.nonfinite == "impossible"
    if refused and ends == (None, None, None):
        return Estimate.refused(shape.unit)
    if shape.value is not None and (*ends[1:], shape.nonfinite) == (None, None, None):
        return Estimate.without_interval(shape.value, shape.unit)
    if refused or (None in ends) != (shape.nonfinite is not None):
        raise ValueError("nonfinite is allowed with null only")
    value, low, high = (_number(x, shape.nonfinite) for x in ends)
    if low > value or value > high:
        raise ValueError("the interval does not hold its value")
    return Estimate(value, low, high, shape.unit)


def _number(value: float | None, instead: str | None) -> float:
    if value is not None:
        return value
    return math.nan if instead is None else float(instead)

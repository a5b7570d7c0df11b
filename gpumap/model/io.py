"""Reports as JSON: they are written as their nouns are, and read back to the same nouns.

msgspec makes a tree of nouns, and nouns of a tree. These have a form of their own:

- A NamedTuple is an object: msgspec would write a list. So each has a Struct of the same fields.
- A device is listed once. A binding has its id and its library.
- An estimate without an interval has null ends. Null stands for what JSON cannot hold, too: then
  `nonfinite` says which number it was.
- Every other number that JSON cannot hold is an object: {"nonfinite": "inf"}.

`gpumap.model.schema` describes what is written, and `gpumap.model.json_text` makes the text.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import ChainMap
from functools import cache, partial
from importlib import import_module
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct, defstruct, structs

from gpumap import model
from gpumap.errors import Diagnostic, SourceError
from gpumap.files import read_text
from gpumap.model import results
from gpumap.model.devices import Binding, Device
from gpumap.model.field_types import Number, Version, Word
from gpumap.model.json_text import Refused, parse, text
from gpumap.model.maps import DeviceRef, Estimate, Kind, Unit
from gpumap.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpumap.model import Report

T = TypeVar("T")
Tree = dict[str, Any]
Devices = dict[tuple[str, str], Device]  # by id and library

VERSION = 3  # docs/json.md
LIMIT = 256 * 2**20  # bytes; 10,000 rows of 100 samples take a third of it
_WORD = '"nonfinite"'  # a key
_SHOWN = 200  # characters of what is wrong
_FIX = "name a file of --output, as it was written; or measure again with --output FILE.json"


class Tool(Struct, frozen=True):
    """Who wrote it.

    Attributes:
        name: The tool.
        version: Of the tool.
    """

    name: Literal["gpumap"]
    version: Version


class Reference(Struct, frozen=True):
    """A name of the map, and its device, which is listed in devices or other_devices.

    Attributes:
        name: The user's word.
        device: The id of its device.
        backend: The library that drives it.
    """

    name: str
    device: str
    backend: Word


class Figure(Struct, frozen=True, omit_defaults=True):
    """A figure; its interval holds in this run.

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


# --- the Struct of a NamedTuple

OBJECTS = (
    model.Headline, model.Problem, model.MapText, model.ContextMap, model.Entry, Diagnostic,
    model.Checked, model.Listed, model.Compared,
)  # fmt: skip
_FIRST = ("schema_version", "tool", "kind", "status", "exit_code", "headline")
_LAST = {"other_devices": tuple[Device, ...], "digest": str}


def _types(noun: type) -> Tree:
    """Return the types of a NamedTuple's fields; one that loads no msgspec names nouns alone."""
    files = (import_module(f"gpumap.model.{file}") for file in ("field_types", *model.FILES))
    hints = get_type_hints(noun, localns=ChainMap(*map(vars, files)), include_extras=True)
    return {name: _written_type(hints[name]) for name in noun._fields}  # type: ignore[attr-defined]


def _written_type(hint: Any) -> Any:
    """Return a type of which every NamedTuple is the Struct that is written."""
    if hint in OBJECTS:
        return struct_of(hint)
    inner = tuple(map(_written_type, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return Union.__getitem__(inner)
    return tuple.__class_getitem__(inner) if get_origin(hint) is tuple else hint


@cache
def struct_of(noun: type) -> type[Struct]:
    """Return the Struct of a NamedTuple: the same fields, types and sentences."""
    namespace = {"__doc__": noun.__doc__}
    fields = list(_types(noun).items())
    tag, key = (str.lower, results.TAG) if noun in results.RESULTS else (None, None)
    return defstruct(noun.__name__, fields, namespace=namespace, tag=tag, tag_field=key)


@cache
def saved() -> type[Struct]:
    """Return the Struct of a report: its fields, who wrote it, and the digest."""
    result = Union.__getitem__(tuple(map(_written_type, results.RESULTS)))
    fields = _types(model.Report) | {"schema_version": Literal[3], "tool": Tool} | _LAST
    fields["result"] = result
    del fields["version"]  # it is the tool's
    order = dict.fromkeys((*_FIRST, *fields))
    return defstruct(
        "Report",
        [(name, fields[name]) for name in order],
        rename={"elapsed": "elapsed_s"},
        namespace={"__doc__": model.Report.__doc__},
    )


def _opened(value: Any) -> Any:
    """Return what is written of a field: for a NamedTuple, and for each in a tuple, its Struct."""
    if type(value) in OBJECTS:
        return struct_of(type(value))(*map(_opened, value))  # type: ignore[arg-type]
    return tuple(map(_opened, value)) if type(value) is tuple else value


def _closed(value: Any) -> Any:
    """Return a field of what was written."""
    noun = next((noun for noun in OBJECTS if type(value) is struct_of(noun)), None)
    if noun is not None:
        return noun(*map(_closed, structs.astuple(value)))
    return tuple(map(_closed, value)) if type(value) is tuple else value


# --- nouns and trees


def plain(noun: Any, bind: Callable[[Binding], Any] | None = None) -> Any:
    """Return nouns as dictionaries, lists and tuples, by their names in JSON.

    Args:
        noun: one, or a list or a dictionary of some.
        bind: returns what is written of a binding.
    """
    return msgspec.to_builtins(noun, str_keys=True, enc_hook=partial(_compact, bind))


def _compact(bind: Callable[[Binding], Any] | None, value: Any) -> Any:
    if isinstance(value, Estimate):
        return _figure(value)
    if isinstance(value, DeviceRef):
        return str(value)
    if isinstance(value, Binding) and bind is not None:
        return bind(value)
    if isinstance(value, float):
        return float(value)  # NumPy's
    raise NotImplementedError(f"no JSON of {type(value)}")


def typed(tree: Any, kind: type[T], devices: Devices | None = None) -> T:
    """Return the noun that a tree is of.

    Args:
        tree: what `plain` returned, or JSON of it.
        kind: the type of the noun.
        devices: those that a binding may refer to.

    Raises:
        ValueError: it is of another; the message says where.
    """
    hook = partial(_read_compact, devices or {})
    return msgspec.convert(tree, kind, str_keys=True, dec_hook=hook)


def _read_compact(devices: Devices, kind: type, tree: Any) -> Any:
    if kind is Estimate:
        return _estimate(msgspec.convert(tree, Figure))
    if kind is DeviceRef:
        return _ref(tree)
    if kind is Binding:
        found = msgspec.convert(tree, Reference)
        if (device := devices.get((found.device, found.backend))) is None:
            raise ValueError(f'no device of the report is "{found.device}"')
        return Binding(found.name, device)
    raise NotImplementedError(f"no reader of {kind}")


def _figure(figure: Estimate) -> Figure:
    ends = (figure.value, figure.low, figure.high)
    known = ends if figure.has_interval else ends[:1]
    odd = next((str(number) for number in known if not math.isfinite(number)), None)
    word: Any = "impossible" if figure.impossible else odd
    value, low, high = (number if math.isfinite(number) else None for number in ends)
    return Figure(value, low, high, figure.unit, word)  # type: ignore[arg-type]


def _estimate(found: Figure) -> Estimate:
    if found.nonfinite == "impossible":
        return Estimate.refused(found.unit)
    if found.nonfinite is None and found.value is not None and found.low is found.high is None:
        return Estimate.without_interval(found.value, found.unit)
    ends = (found.value, found.low, found.high)
    if (None in ends) != (found.nonfinite is not None):
        raise ValueError("nonfinite is allowed with null only")
    odd = float(found.nonfinite or 0.0)
    value, low, high = (odd if number is None else number for number in ends)
    return Estimate(value, low, high, found.unit)


_REF = re.compile(
    rf"(?P<kind>{'|'.join(Kind)})"
    r"(?:@(?P<identity>.+)|(?:(?P<platform>\d+):)?(?P<index>\d+)?(?:\.(?P<part>\d+))?)"
)


def _ref(text: str) -> DeviceRef:
    """Return the device that a map writes so.

    Raises:
        ValueError: no map does.
    """
    match = _REF.fullmatch(text)
    if match is None:
        raise ValueError("this is not how a map writes a device")
    index, platform, part = (
        None if match[key] is None else int(match[key]) for key in ("index", "platform", "part")
    )
    return DeviceRef(Kind(match["kind"]), index, platform, part, match["identity"])


# --- write


def written(report: Report) -> str:
    """Return a report as JSON that people can read too, with its digest."""
    tree = _tree(report)
    try:
        return signed(tree)
    except ValueError:  # a number that JSON cannot hold
        return signed(_changed(tree, _with_word))


def signed(tree: Tree) -> str:
    """Return a report's tree as JSON that people can read too, with its digest.

    Raises:
        ValueError: it holds a number that JSON cannot hold.
    """
    return text({**tree, "digest": digest(tree)})


def _tree(report: Report) -> Tree:
    """Return a report as a tree; devices that only rows know are listed behind the others."""
    listed = {(device.id, device.backend) for device in report.devices}
    others: Devices = {}

    def refer(binding: Binding) -> Reference:
        device = binding.device
        if (device.id, device.backend) not in listed:
            others.setdefault((device.id, device.backend), device)
        return Reference(binding.name, device.id, device.backend)

    fields = {name: _opened(value) for name, value in report._asdict().items()}
    tool = Tool("gpumap", fields.pop("version") or __version__)
    last = {"schema_version": VERSION, "tool": tool, "other_devices": (), "digest": ""}
    tree: Tree = plain(saved()(**fields, **last), refer)
    tree["other_devices"] = plain(list(others.values()))
    for device in (*tree["devices"], *tree["other_devices"]):
        device["hardware"] = sorted(device["hardware"])  # a set has another order in each run
    return tree


def digest(tree: Tree, key: str = "digest") -> str:
    """Return what an edit of a tree changes: a hash of all keys but that of the hash itself.

    Raises:
        ValueError: it holds a number that JSON cannot hold.
    """
    body = {name: item for name, item in tree.items() if name != key}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _changed(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Return a tree with each of its parts changed, the inner ones first."""
    if isinstance(tree, dict):
        tree = {key: _changed(item, change) for key, item in tree.items()}
    elif isinstance(tree, list | tuple):
        tree = [_changed(item, change) for item in tree]
    return change(tree)


def _with_word(part: Any) -> Any:
    """Return for a number that JSON cannot hold an object with its name."""
    odd = isinstance(part, float) and not math.isfinite(part)
    return {"nonfinite": str(part)} if odd else part


def _with_number(part: Any) -> Any:
    """Return the number of such an object."""
    word = part.get("nonfinite") if isinstance(part, dict) and len(part) == 1 else None
    return float(word) if word in ("nan", "inf", "-inf") else part


# --- read


def read(path: Path) -> Report:
    """Return the report that `path` holds, a file of `--output`.

    Raises:
        SourceError: it cannot be read, or is no report that gpumap has written.
    """
    content = read_text(path, "report", LIMIT)
    try:
        return _report(parse(content), words=_WORD in content)
    except (Refused, RecursionError) as error:
        nested = isinstance(error, RecursionError)
        why = "its brackets are nested too deeply" if nested else str(error)[:_SHOWN]
        raise SourceError(f"cannot read the report {path}: {why}", _FIX) from error


def _report(tree: Any, *, words: bool) -> Report:
    """Return the report of a tree; `tool` tells gpumap's reports from other JSON.

    `words`: it may have words for numbers.
    """
    tool = tree.get("tool") if isinstance(tree, dict) else None
    if not isinstance(tool, dict) or tool.get("name") != "gpumap":
        raise Refused("it is JSON, but no report of gpumap")
    if json.dumps(tree.get("schema_version")) != str(VERSION):
        raise Refused(f"this gpumap reads schema_version {VERSION} alone; who wrote it reads it")
    if not _is_own(tree):
        raise Refused("it was edited after it was written")
    return _nouns(_changed(tree, _with_number) if words else tree)


def _is_own(tree: Tree) -> bool:
    try:
        return bool(tree.get("digest") == digest(tree))
    except ValueError:  # a number above all that gpumap writes
        return False


class _Listed(Struct):
    """The devices of a report, to which all else refers."""

    devices: tuple[Device, ...]
    other_devices: tuple[Device, ...]


def _nouns(tree: Tree) -> Report:
    """Return the report of a tree.

    Raises:
        Refused: its nouns have other keys or types: another gpumap wrote it.
    """
    try:
        listed = typed(tree, _Listed)
        every = (*listed.devices, *listed.other_devices)
        found: Any = typed(tree, saved(), {(one.id, one.backend): one for one in every})
        fields = {name: _closed(getattr(found, name)) for name in model.Report._fields[:-1]}
    except ValueError as error:  # also of a word that is no Unicode
        raise Refused(str(error)) from error
    return model.Report(**fields | {"devices": listed.devices}, version=found.tool.version)

"""Saved reports, read back: `read` returns the report that a JSON file was written from.

Every format renders it as it rendered the original. What a run cannot have written is refused:
another tool's JSON, a truncated or edited file, a version that is not known.

`published` returns their JSON Schema, made of the classes that they are written and read by: a
class gives keys, types and closed lists, `Attributes:` of its docstring a sentence for each key.
"""

from __future__ import annotations

import gc
import json
import math
import re
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from gpumap import model
from gpumap.errors import Diagnostic, SourceError
from gpumap.files import read_text
from gpumap.model import replace, shape
from gpumap.model.maps import COMPUTED, METRICS
from gpumap.model.trees import SCHEMA_VERSION, Figure, Id, Refused, digest
from gpumap.saved.reader import report
from gpumap.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gpumap.model import Report

LIMIT = 256 * 2**20  # bytes; 10,000 rows of 100 samples take a third of it
_PROVES = "measure again with --output FILE.json; a report that was edited proves nothing"
_SHOW = "measure again; gpumap report --accept-edited shows it all the same"
EDITED = Diagnostic(
    "edited", "the report was edited after gpumap wrote it", severity="warning", hint=_PROVES
)
_SHOWN = 200  # characters of what is wrong
_VERSION = 20  # of another gpumap


def read(path: Path, *, edited: bool = False) -> Report:
    """Return the report that `path` holds.

    Args:
        path: a file of `--output`.
        edited: take one that was edited too; a warning in its notes says so.

    Raises:
        SourceError: it cannot be read, or is no report that gpumap has written.
    """
    text = read_text(path, "report", LIMIT)
    tree = None
    try:
        with _uncollected():
            tree = parse(text)
            return _report(tree, edited=edited)
    except Refused as refused:
        raise _error(path, refused, tree) from refused


@contextmanager
def _uncollected() -> Iterator[None]:
    """Look for no garbage: none is made, and looking takes longer than reading a large report."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _report(tree: Any, *, edited: bool = False) -> Report:
    """Return the report of a tree; `tool` tells gpumap's reports from other JSON."""
    tool = tree.get("tool") if isinstance(tree, dict) else None
    if not isinstance(tool, dict) or tool.get("name") != "gpumap":
        raise Refused("it is JSON, but no report of gpumap", hint="name a file of --output")
    version = tree.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        hint = "read it with the gpumap that wrote it, or measure again with --output FILE.json"
        raise Refused(f"this gpumap reads version {SCHEMA_VERSION} alone", "$.schema_version", hint)
    own = tree.get("digest") == digest(tree)
    if not own and not edited:
        raise Refused("it was edited after it was written", "$.digest", _SHOW)
    found = report(tree)
    return found if own else replace(found, notes=(*found.notes, EDITED))


def _error(path: Path, refused: Refused, tree: Any) -> SourceError:
    where = "" if refused.path == "$" else f"{refused.path}: "
    text = f"{where}{refused.reason}"
    cut = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
    place = f"cannot read the report {path}"
    hint = refused.hint or _hint(tree)
    beside = path.with_suffix(".json")
    if hint == JSON and beside != path and beside.exists():
        hint = f"give the report beside it, {beside}"
    return SourceError(f"{place}: {cut}", hint)


def _hint(tree: Any) -> str:
    """Return the fix for what a run did not write: another version may have."""
    tool = tree.get("tool") if isinstance(tree, dict) else None
    version = tool.get("version") if isinstance(tool, dict) else None
    if not isinstance(version, str) or version == __version__:
        return _PROVES
    wrote = f"gpumap {version[:_VERSION]} wrote it, and this is {__version__}"
    return f"{wrote}: read it with that; or {_PROVES}"


_VALUES = 10_000_000  # of a text: a trace of 256 MiB has as many
_DEEPEST = 50  # levels of settings
_DIGITS = 18  # of a whole number: what 64 bits hold
_CUT_AT = 40  # characters of what is refused
JSON = "give the JSON report of the same run, which --output FILE.json writes"
_OTHERS = {  # how other forms of a report begin
    "<!doctype html": "an HTML page",
    "<?xml": "JUnit XML",
    "<testsuite": "JUnit XML",
    "record,": "CSV",
    "#": "Markdown",
}
_PLAIN = "\nmapped name "  # below the headline
_BEGIN = 2000  # characters that tell
_LAST = re.compile(r"[\\\w.+-]*\s*")  # the beginning of a word, a number or an escape


@dataclass(frozen=True, slots=True)
class _Odd:
    """Marks a value in a tree that must not be there."""

    reason: str


def _is_deep(tree: Any) -> bool:
    """Return whether lists and objects are nested beyond what any setting is."""
    level: list[Any] = [tree] if isinstance(tree, dict) else []
    for _ in range(_DEEPEST):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [one for each in inner for one in each if isinstance(one, dict | list)]
        if not level:
            return False
    return True


def parse(text: str) -> Any:
    """Return the tree of a JSON text.

    Raises:
        Refused: it is not JSON, or holds what a report cannot hold.
    """
    if not text.strip():
        raise Refused("it is empty")
    if sum(map(text.count, ",[{")) > _VALUES:  # each takes many times its text
        raise Refused(f"it holds more than {_VALUES:,} values", hint="name a file of --output")
    hooks = _Hooks()
    try:
        tree = json.loads(
            text,
            parse_int=hooks.whole,
            parse_float=hooks.real,
            parse_constant=hooks.constant,
            object_pairs_hook=hooks.keyed,
        )
        if hooks.odd:
            _refuse(tree, "$")
    except json.JSONDecodeError as error:
        begin = text.lstrip()[:_BEGIN].casefold()
        plain = "plain text" if _PLAIN in begin else None
        other = next((what for sign, what in _OTHERS.items() if begin.startswith(sign)), plain)
        reason = f"it is {other}, not JSON" if other else _malformed(text, error)
        raise Refused(reason, hint=None if begin[:1] in ("{", "[") else JSON) from error
    except RecursionError as error:
        raise Refused("its brackets are nested too deeply") from error
    if isinstance(tree, dict) and _is_deep(tree.get("settings")):  # who writes it recurses
        raise Refused("its brackets are nested too deeply")
    return tree


class _Hooks:
    """What JSON's reader asks about each number and object; notes whether anything was odd."""

    def __init__(self) -> None:
        self.odd = False

    def whole(self, digits: str) -> int | _Odd:
        if len(digits) <= _DIGITS:
            return int(digits)
        return self._refused(f"a whole number of {len(digits)} digits is too long")

    def real(self, digits: str) -> float | _Odd:
        value = float(digits)
        return value if math.isfinite(value) else self._refused(f"{_cut(digits)} is too large")

    def constant(self, word: str) -> _Odd:
        return self._refused(f"{word} is not JSON")

    def keyed(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            found[_repeated(pairs)] = self._refused("duplicate key")
        return found

    def _refused(self, reason: str) -> _Odd:
        self.odd = True
        return _Odd(reason)


def _repeated(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            break
        seen.add(key)
    return key


def _malformed(text: str, error: json.JSONDecodeError) -> str:
    last = _LAST.fullmatch(text, error.pos) is not None and error.pos > 0
    early = (last and not error.msg.startswith("Extra data")) or error.msg.startswith(
        "Unterminated"
    )
    message = "it ends too early" if early else f"it is not JSON: {error.msg.lower()}"
    return f"{message} (line {error.lineno}, column {error.colno})"


def _refuse(tree: Any, path: str) -> None:
    """Raise for the first odd thing in a tree, with its place."""
    if isinstance(tree, _Odd):
        raise Refused(tree.reason, path)
    if isinstance(tree, dict):
        for key, item in tree.items():
            _refuse(item, f"{path}.{_cut(key)}")
    elif isinstance(tree, list):
        for number, item in enumerate(tree):
            _refuse(item, f"{path}[{number}]")


def _cut(text: str) -> str:
    return text if len(text) <= _CUT_AT else text[: _CUT_AT - 1] + "…"


# --- the published JSON Schema

Tree = dict[str, Any]

_SENTENCE = re.compile(r"^ {8}(\w+): (.*(?:\n {12}.*)*)", re.MULTILINE)
_ABOUT = (
    "Keys are never renamed or dropped within a schema_version; keys may be added. Every row has "
    "every key; null: it does not apply. SI units in every number; _s, _bytes and _hz end names "
    "outside metrics."
)


def published() -> Tree:
    """Return the JSON Schema (2020-12) of what this gpumap writes."""
    roots = (shape.Report, Figure, Id)
    (*_, id_), made = msgspec.json.schema_components(roots, schema_hook=_figure)
    defs = {name: _described(name, made[name]) for name in made}
    defs["Metrics"] = _figures("Figures of a row, a fit or a break-even", METRICS)
    defs["Computed"] = _figures("Figures that are computed", COMPUTED)
    report = defs.pop("Report")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:gpumap:report:schema-{SCHEMA_VERSION}.json",
        "title": f"gpumap report, schema_version {SCHEMA_VERSION}",
        **report,
        "description": _ABOUT,
        "$defs": {name: defs[name] for name in sorted(defs)} | {"Id": _tidy(id_)},
    }


def _figures(about: str, table: Mapping[str, tuple[str, str]]) -> Tree:
    """Return the schema of metrics by name: those that there are, each in its unit."""
    figure = {"$ref": "#/$defs/Figure"}
    return {
        "description": f"{about}: those that there are.",
        "type": "object",
        "properties": {
            name: {"description": description, **figure, "properties": {"unit": {"const": unit}}}
            for name, (unit, description) in table.items()
        },
        "required": [],
        "additionalProperties": False,
    }


def _figure(type_: type) -> Tree:
    if type_ is model.Estimate:
        return {"$ref": "#/$defs/Figure"}
    raise NotImplementedError(f"no schema of {type_}")


def _described(name: str, made: Tree) -> Tree:
    """Return the schema of a class: closed, with a sentence for each key, and with its rules."""
    kind = getattr(shape, name, None) or (Figure if name == "Figure" else getattr(model, name))
    tree: Tree = _tidy(made)
    if "properties" not in tree:
        return tree
    sentences = dict(_sentences(kind))
    keys = {field.encode_name: sentences[field.name] for field in msgspec.structs.fields(kind)}
    return {
        "description": (kind.__doc__ or "").partition("\n")[0],
        "type": "object",
        "properties": {key: {"description": keys[key]} | tree["properties"][key] for key in keys},
        "required": [key for key in keys if (name, key) != ("Figure", "nonfinite")],
        "additionalProperties": False,
        **_rules().get(name, {}),
    }


def _sentences(kind: type) -> list[tuple[str, str]]:
    """Return what each attribute of a class holds, as its docstring and those of its bases say."""
    texts = [(each.__doc__ or "").partition("Attributes:\n")[2] for each in reversed(kind.__mro__)]
    return [
        (key, " ".join(text.split())) for every in texts for key, text in _SENTENCE.findall(every)
    ]


def _tidy(tree: Any) -> Any:
    """Return a schema without msgspec's titles and defaults, in the regular expressions of JSON."""
    if isinstance(tree, list):
        return [_tidy(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if "properties" not in tree and "$ref" in tree:  # which says all the rest
        return {"$ref": tree["$ref"]}
    found = {key: _tidy(item) for key, item in tree.items() if key not in ("title", "default")}
    if isinstance(pattern := found.get("pattern"), str):
        found["pattern"] = pattern.replace(r"\A", "^").replace(r"\Z", "$")
    if "anyOf" in found:
        found["anyOf"] = _numbers(found["anyOf"])
    return found["anyOf"][0] if list(found) == ["anyOf"] and len(found["anyOf"]) == 1 else found


def _numbers(choices: list[Tree]) -> list[Tree]:
    """Return choices without whole numbers where any number will do: JSON has one kind of them."""
    any_ = [choice | {"type": "integer"} for choice in choices if choice.get("type") == "number"]
    return [choice for choice in choices if choice not in any_]


@cache
def _rules() -> dict[str, Tree]:
    """Return what types cannot say: keys that depend on each other, by class."""
    from importlib.resources import files

    text = files("gpumap.saved").joinpath("rules.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]

"""The JSON Schema of reports: msgspec makes it of the nouns that are written.

A noun gives keys, types and closed lists; `Attributes:` of its docstring a sentence for each key.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from gpumap import model
from gpumap.files import shipped
from gpumap.model import io
from gpumap.model.field_types import UNBOUNDED, Id
from gpumap.model.maps import UNITS, DeviceRef, Estimate
from gpumap.model.results import TAG

if TYPE_CHECKING:
    from collections.abc import Mapping

Tree = dict[str, Any]

_SENTENCE = re.compile(r"^ {8}(\w+): (.*(?:\n {12}.*)*)", re.MULTILINE)
_ABOUT = (
    "Keys are never renamed or dropped within a schema_version; keys may be added. Every object "
    "has every key; null: it does not apply. SI units in every number; _s, _bytes and _hz end "
    'names outside metrics. A number that JSON cannot hold is {"nonfinite": "inf"}.'
)
_COMPUTED = {key: UNITS[key] for key in ("comm", "time", "speedup", "efficiency", "examples_per_s")}
_OPTIONAL = ("Figure", "nonfinite")  # without nulls it is not there
_MSGSPECS = ("title", "default", "discriminator")  # keys that tell readers nothing
_NONFINITE = {
    "description": "A number that JSON cannot hold.",
    "type": "object",
    "properties": {"nonfinite": {"description": "Which one.", "enum": ["-inf", "inf", "nan"]}},
    "required": ["nonfinite"],
    "additionalProperties": False,
}


def published() -> Tree:
    """Return the JSON Schema (2020-12) of what this gpumap writes."""
    roots = (io.saved(), io.Figure, io.Reference, Id)
    (*_, id_), made = msgspec.json.schema_components(roots, schema_hook=_compact)
    own: tuple[Any, ...] = (io.saved(), *_STRUCTS, *map(io.struct_of, io.OBJECTS))
    kinds = {kind.__name__: kind for kind in own}
    defs = {name: _described(kinds.get(name) or getattr(model, name), made[name]) for name in made}
    defs["Metrics"] = _figures("Figures of a row, a fit or a break-even", UNITS)
    defs["Computed"] = _figures("Figures of a step on several devices, computed", _COMPUTED)
    defs["Nonfinite"] = _NONFINITE
    report = defs.pop("Report")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:gpumap:report:schema-{io.VERSION}.json",
        "title": f"gpumap report, schema_version {io.VERSION}",
        **report,
        "description": _ABOUT,
        "$defs": {name: defs[name] for name in sorted(defs)} | {"Id": _tidy(id_)},
    }


_STRUCTS = (io.Tool, io.Reference, io.Figure)


def _compact(kind: type) -> Tree:
    """Return the schema of a noun that has a form of its own."""
    if kind is Estimate:
        return {"$ref": "#/$defs/Figure"}
    return {"type": "string"} if kind is DeviceRef else {"$ref": "#/$defs/Reference"}


def meanings() -> Mapping[str, str]:
    """Return what each metric is, in a sentence."""
    topics = shipped("gpumap.model", "metrics.toml")["metric"].items()
    summaries = ((name, topic["summary"]) for name, topic in topics)
    return {name: f"{summary[:1].upper()}{summary[1:]}." for name, summary in summaries}


def _figures(about: str, units: Mapping[str, str]) -> Tree:
    """Return the schema of metrics by name: those that there are, each in its unit."""
    figure, known = {"$ref": "#/$defs/Figure"}, meanings()
    return {
        "description": f"{about}: those that there are.",
        "type": "object",
        "properties": {
            name: {"description": known[name], **figure, "properties": {"unit": {"const": unit}}}
            for name, unit in units.items()
        },
        "required": [],
        "additionalProperties": False,
    }


def _described(kind: Any, made: Tree) -> Tree:
    """Return the schema of a class: closed, with a sentence for each key."""
    tree: Tree = _tidy(made)
    if "properties" not in tree:
        return tree
    sentences = dict(_sentences(kind))
    keys = {TAG: "The type of this result."} if TAG in tree["properties"] else {}
    keys |= {field.encode_name: sentences[field.name] for field in msgspec.structs.fields(kind)}
    return {
        "description": (kind.__doc__ or "").partition("\n")[0],
        "type": "object",
        "properties": {key: {"description": keys[key]} | tree["properties"][key] for key in keys},
        "required": [key for key in keys if (kind.__name__, key) != _OPTIONAL],
        "additionalProperties": False,
    }


def _sentences(kind: type) -> list[tuple[str, str]]:
    """Return what each attribute of a class holds, as its docstring and those of its bases say."""
    texts = [(each.__doc__ or "").partition("Attributes:\n")[2] for each in reversed(kind.__mro__)]
    found = (pair for text in texts for pair in _SENTENCE.findall(text))
    return [(key, " ".join(sentence.split())) for key, sentence in found]


def _tidy(tree: Any) -> Any:
    """Return a schema without msgspec's titles and defaults, in the regular expressions of JSON."""
    if isinstance(tree, list):
        return [_tidy(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if "properties" not in tree and "$ref" in tree:  # which says all the rest
        return {"$ref": tree["$ref"]}
    found = {key: _tidy(item) for key, item in tree.items() if key not in _MSGSPECS}
    if isinstance(pattern := found.get("pattern"), str):
        found["pattern"] = pattern.replace(r"\A", "^").replace(r"\Z", "$")
    if "anyOf" in found:
        found["anyOf"] = _numbers(found["anyOf"])
    return found["anyOf"][0] if list(found) == ["anyOf"] and len(found["anyOf"]) == 1 else found


def _numbers(choices: list[Tree]) -> list[Tree]:
    """Return choices without whole numbers where any number will do: JSON has one kind of them.

    Where it may be infinite, or no number, what stands for that is a choice, too.
    """
    if any(choice.pop(UNBOUNDED, False) for choice in choices):
        choices = [*choices, {"$ref": "#/$defs/Nonfinite"}]
    any_ = [choice | {"type": "integer"} for choice in choices if choice.get("type") == "number"]
    return [choice for choice in choices if choice not in any_]

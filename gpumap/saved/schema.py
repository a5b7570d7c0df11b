"""The published JSON Schema of reports: made of the classes that they are written and read by.

A class gives keys, types and closed lists, `Attributes:` of its docstring a sentence for each key.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from gpumap import model
from gpumap.errors import Exit
from gpumap.judge.exit_status import STATUS
from gpumap.model import shape
from gpumap.model.maps import COMPUTED, METRICS
from gpumap.model.trees import SCHEMA_VERSION, Figure, Id

if TYPE_CHECKING:
    from collections.abc import Mapping

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
            name: {"description": said, **figure, "properties": {"unit": {"const": unit}}}
            for name, (unit, said) in table.items()
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
    said = dict(_sentences(kind))
    keys = {field.encode_name: said[field.name] for field in msgspec.structs.fields(kind)}
    return {
        "description": (kind.__doc__ or "").partition("\n")[0],
        "type": "object",
        "properties": {key: {"description": keys[key]} | tree["properties"][key] for key in keys},
        "required": [key for key in keys if (name, key) != ("Figure", "nonfinite")],
        "additionalProperties": False,
        **_RULES.get(name, {}),
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


def _if(key: str, values: list[str], then: Tree) -> Tree:
    return {"if": {"properties": {key: {"enum": values}}}, "then": {"properties": then}}


_NUMBER, _NULL, _EMPTY = {"type": "number"}, {"type": "null"}, {"maxItems": 0}
_ENDED = (
    *((status, [int(code)]) for code, status in STATUS.items() if code != Exit.INCONCLUSIVE),
    ("inconclusive", [int(Exit.OK), int(Exit.INCONCLUSIVE)]),  # 0: no verdict was requested
    ("skipped", [int(Exit.OK)]),
)
# What types cannot say: keys that depend on each other.
_RULES: dict[str, Tree] = {
    "Report": {
        "allOf": [
            *(_if("status", [word], {"exit_code": {"enum": ends}}) for word, ends in _ENDED),
            _if(
                "kind",
                ["check", "devices", "doctor"],
                dict.fromkeys(("measurements", "fits", "break_evens", "verdicts"), _EMPTY),
            ),
        ]
    },
    "Row": {
        "allOf": [
            _if(
                "status",
                ["ok"],
                {
                    "reason": _NULL,
                    "samples": {"minItems": 1},
                    "iterations_per_sample": {"type": "integer"},
                    "clock": {"type": "string"},
                    "stop": {"type": "object"},
                    "check": {"type": "object", "properties": {"passed": {"const": True}}},
                    "metrics": {"minProperties": 1},
                },
            )
            | {"else": {"properties": {"reason": {"type": "object"}}}},
            {
                "if": {
                    "properties": {
                        "check": {"type": "object", "properties": {"passed": {"const": False}}}
                    }
                },
                "then": {
                    "properties": {"status": {"const": "failed"}, "metrics": {"maxProperties": 0}}
                },
            },
        ]
    },
    "Figure": {
        "oneOf": [
            {"properties": {"value": _NUMBER, "low": ends, "high": ends, "nonfinite": False}}
            for ends in (_NUMBER, _NULL)
        ]
        + [
            {
                "properties": dict.fromkeys(("value", "low", "high"), _NULL)
                | {"nonfinite": {"const": "impossible"}},
                "required": ["nonfinite"],
            },
            {
                "properties": {"nonfinite": {"enum": ["nan", "inf", "-inf"]}},
                "required": ["nonfinite"],
                "anyOf": [{"properties": {key: _NULL}} for key in ("value", "low", "high")],
            },
        ]
    },
    "TraceEvent": {
        "oneOf": [{"properties": {"start_s": time, "stop_s": time}} for time in (_NUMBER, _NULL)]
    },
}

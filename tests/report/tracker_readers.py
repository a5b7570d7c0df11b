"""Readers of what trackers take, as strict as their documentation, in the order of a file.

gab: `BenchmarkResult` in src/extract.ts of github-action-benchmark, and its README, "Examples",
`customBiggerIsBetter`: a list of objects of name, unit, value, and texts range and extra.
bmf: https://bencher.dev/bmf.json, the schema; names by the page that it is of: a benchmark has at
most 1024 characters, a measure 64.
openmetrics: both parsers of Prometheus' client; node_exporter reads the older text format, and
knows neither times nor a type beyond gauge, counter, histogram and summary.
"""

import json
from typing import NamedTuple

import pytest
from jsonschema import Draft7Validator
from prometheus_client import parser as old_format
from prometheus_client.openmetrics import parser

TRACKERS = ("gab-bigger", "gab-smaller", "bmf", "openmetrics")
_UPPER = {"required": ["name", "unit", "value"], "additionalProperties": False}
_TEXT = {"type": "string", "minLength": 1}
GAB = {"type": "array", "items": {"type": "object", **_UPPER, "properties": {
    "name": _TEXT, "unit": {"type": "string"}, "value": {"type": "number"},
    "range": _TEXT, "extra": _TEXT,
}}}  # fmt: skip
_NUMBERS = {key: {"type": "number"} for key in ("value", "lower_value", "upper_value")}
_METRIC = {"type": "object", "properties": _NUMBERS, "required": ["value"],
           "additionalProperties": False}  # fmt: skip
_MEASURES = {"type": "object", "patternProperties": {"^.{1,64}$": _METRIC},
             "additionalProperties": False}  # fmt: skip
BMF = {"type": "object", "patternProperties": {"^.{1,1024}$": _MEASURES},
       "additionalProperties": False}  # fmt: skip


class Read(NamedTuple):
    name: str
    metric: str  # as the format calls it
    value: float
    low: float | None
    high: float | None


def _json(text, schema):
    tree = json.loads(text, parse_constant=pytest.fail)  # no NaN, no Infinity
    Draft7Validator(schema).validate(tree)
    return tree


def gab(text):
    entries = _json(text, GAB)
    assert len({entry["name"] for entry in entries}) == len(entries)
    for entry in entries:
        low, high = json.loads(entry.get("range", "[null, null]").replace("inf", "Infinity"))
        name, _, metric = entry["name"].rpartition(" ")
        yield Read(name, metric, entry["value"], low, high)


def bmf(text):
    for name, measures in _json(text, BMF).items():
        for measure, m in measures.items():
            yield Read(name, measure, m["value"], m.get("lower_value"), m.get("upper_value"))


def families(text):
    """Return the families by their names; both parsers find the same in them."""
    found = {family.name: family for family in parser.text_string_to_metric_families(text)}
    old = {family.name: family for family in old_format.text_string_to_metric_families(text)}
    assert text.endswith("# EOF\n")
    assert found.keys() == old.keys()
    for name, family in found.items():
        assert (family.type, old[name].type) == ("gauge", "gauge")
        assert list(map(repr, family.samples)) == list(map(repr, old[name].samples))
        assert family.samples, name
        assert family.documentation == old[name].documentation != ""
        labels = [tuple(sorted(sample.labels.items())) for sample in family.samples]
        assert len(set(labels)) == len(labels)
        assert [sample.timestamp for sample in family.samples] == [None] * len(labels)
    return found


def openmetrics(text):
    found = families(text)
    values = {
        (name, sample.labels.get("name")): sample.value
        for name, family in found.items()
        for sample in family.samples
    }
    for (family, name), value in values.items():
        unit = f"_{found[family].unit}" if found[family].unit else ""
        metric = family.removesuffix(unit)
        if name is not None and not metric.endswith(("_low", "_high")):
            ends = (values.get((f"{metric}_{end}{unit}", name)) for end in ("low", "high"))
            yield Read(name, family.removeprefix("gpumap_"), value, *ends)


READERS = {"gab-bigger": gab, "gab-smaller": gab, "bmf": bmf, "openmetrics": openmetrics}

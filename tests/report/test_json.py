"""The JSON report against its published schema: every key, every closed list, every figure."""

import json

import made_reports
from jsonschema import Draft202012Validator
from report_schema import SCHEMA

from gpumap.model import replace
from gpumap.model.measurements import PHASES
from gpumap.report import Style
from gpumap.results.shown import render


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)
    silent = [
        f"{name}.{key}"
        for name, thing in [("", SCHEMA), *SCHEMA["$defs"].items()]
        for key, described in thing.get("properties", {}).items()
        if not described["description"].endswith(".")
    ]
    assert silent == []


def test_every_key_is_required():
    """Null says that one does not apply; metrics, which differ by benchmark, may be missing."""
    nouns = {name: each for name, each in SCHEMA["$defs"].items() if "properties" in each}
    optional = {name: {*each["properties"]} - {*each["required"]} for name, each in nouns.items()}
    assert optional.pop("Figure") == {"nonfinite"}
    assert {name for name, keys in optional.items() if keys} == {"Metrics", "Computed"}


def test_the_phases_of_a_step_are_those_of_the_code():
    """Other closed lists are those of the topics: tests/explain."""
    phases = SCHEMA["$defs"]["Samples"]["properties"]["phases_s"]["propertyNames"]["enum"]
    assert phases == [*PHASES]


def test_what_hardware_a_device_is_has_one_order():
    """Two reports of one machine are the same text: a set has another order in each run."""
    names = [f"core:{number}" for number in range(40)]
    report = made_reports.checked()
    devices = tuple(replace(each, hardware=frozenset(names)) for each in report.devices)
    found = json.loads(render("json", replace(report, devices=devices), Style()))["devices"]
    assert [each["hardware"] for each in found] == [sorted(names)] * 2

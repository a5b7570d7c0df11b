"""The JSON report against its published schema: every key, every closed list, every figure."""

import json

import made_reports
import pytest
from jsonschema import Draft202012Validator
from report_schema import SCHEMA, VALIDATOR

from gpumap import model
from gpumap.bench import transfer_causes
from gpumap.judge.bottlenecks import CAUSES
from gpumap.judge.exit_status import STATUS
from gpumap.model import replace
from gpumap.model.measurements import PHASES
from gpumap.report import Style
from gpumap.results.shown import render

STATE = model.State(0.02, 0.0, 0.01)
CEILING = model.Ceiling("rate", 2e11, "FLOP/s", 0.5, "by its clock", "computed")
CAUSE = model.Explanation(
    "serialised", "they take turns", {"overlap": model.Estimate(0.1, 0, 0.25, "1")}
)
TAKEN = model.Samples(
    (0.5, 0.4), (0, 1), queue=(0.25, 0.125), cpu=(0.5, 0.375), empty_sync=1e-6,
    worked={"a": (0.5, 0.25)}, intervals={"a": model.WorkTimes((0.0, 1.0), (0.5, 1.5))},
    sample_notes=(model.SampleMark(1, "throttled", "heat"),),
    phases={"compute": (0.375, 0.25), "sync": (0.125, 0.0)},
)  # fmt: skip


def problems(report):
    found = VALIDATOR.iter_errors(report)
    return [("/".join(map(str, e.absolute_path)), e.message) for e in found]


def measured():
    report = made_reports.passed()
    one, many = report.measurements
    one = replace(one, samples=TAKEN, ceiling=CEILING, around=model.Around(1.5, 0.25, 2.0, 4))
    judged = made_reports.verdict("inconclusive", id_=many.case.id)
    return replace(
        report, status="inconclusive", exit_code=5, before=STATE, verdicts=(judged,),
        measurements=(one, replace(many, explanation=CAUSE, flags=("unstable",))),
    )  # fmt: skip


def copied():
    return made_reports.copies()


def tree(report):
    return json.loads(render("json", report, Style()))


TREE = tree(measured())
TREES = {"measured": TREE, "copies": tree(copied()), "doctor": tree(made_reports.diagnosed())}


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)
    silent = [
        f"{name}.{key}"
        for name, thing in [("", SCHEMA), *SCHEMA["$defs"].items()]
        for key, described in thing.get("properties", {}).items()
        if not described["description"].endswith(".")
    ]
    assert silent == []


@pytest.mark.parametrize("name", TREES)
def test_a_report_has_its_keys_in_the_order_of_the_schema(name):
    """All of them and no other, and so has each row: the schema is of this gpumap's reports."""
    report = TREES[name]
    assert problems(report) == []
    assert list(report) == SCHEMA["required"]
    for row in report["result"].get("measurements", ()):
        assert list(row) == SCHEMA["$defs"]["Measurement"]["required"]
        assert list(row["case"]) == SCHEMA["$defs"]["Case"]["required"]
    assert problems({**report, "more": 1}) != []


def test_every_key_is_required():
    """Null says that one does not apply; metrics, which differ by benchmark, may be missing."""
    nouns = {name: each for name, each in SCHEMA["$defs"].items() if "properties" in each}
    optional = {name: {*each["properties"]} - {*each["required"]} for name, each in nouns.items()}
    assert optional.pop("Figure") == {"nonfinite"}
    assert {name for name, keys in optional.items() if keys} == {"Metrics", "Computed"}


def test_the_closed_lists_are_those_of_the_code():
    """Of the ends of a run, of causes, and of the phases of a step."""
    assert {*SCHEMA["properties"]["status"]["enum"]} == {*STATUS.values(), "skipped"}
    causes = SCHEMA["$defs"]["Explanation"]["properties"]["cause"]["enum"]
    assert causes == sorted({*CAUSES, *transfer_causes.CAUSES})
    phases = SCHEMA["$defs"]["Samples"]["properties"]["phases_s"]["propertyNames"]["enum"]
    assert phases == [*PHASES]


def test_what_hardware_a_device_is_has_one_order():
    """Two reports of one machine are the same text: a set has another order in each run."""
    names = [f"core:{number}" for number in range(40)]
    report = made_reports.checked()
    devices = tuple(replace(each, hardware=frozenset(names)) for each in report.devices)
    found = tree(replace(report, devices=devices))["devices"]
    assert [each["hardware"] for each in found] == [sorted(names)] * 2

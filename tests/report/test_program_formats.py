"""Formats that programs read: JSON by its published schema, CSV exact and harmless, JUnit's XML."""

import csv
import io
import json
import math

import made_reports
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from junitparser.xunit2 import JUnitXml
from made_reports import case, figure, made, matrix, ok, passed, problem, skipped
from report_schema import SCHEMA
from tables import table

from gpumap.judge.exit_status import STATUS
from gpumap.model import Diagnosis, Explanation, Finding, replace
from gpumap.model.measurements import PHASES
from gpumap.report import Style
from gpumap.report.csv import cell
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


def of(report, record):
    lines = csv.DictReader(io.StringIO(render("csv", report, Style()), newline=""))
    return [line for line in lines if line["record"] == record]


@given(st.floats())
def test_every_float_comes_back(value):
    back = float(cell(np.float64(value)))
    assert back == value or (math.isnan(back) and math.isnan(value))


def test_numbers_come_back_as_they_were():
    report = passed()
    (row, *_) = report.measurements
    found = {line["metric"]: line for line in of(report, "measurement")[:2]}
    for name, wanted in row.metrics.items():
        back = [float(found[name][key]) for key in ("value", "low", "high")]
        assert back == [wanted.value, wanted.low, wanted.high]
        assert found[name]["unit"] == wanted.unit


@pytest.mark.parametrize(("value", "shown"), table(__file__)["formulas"])
def test_a_formula_is_text(value, shown):
    """What a spreadsheet would run has an apostrophe before it; a number has none."""
    assert cell(value) == shown


@given(st.text(st.characters()))
def test_no_text_begins_a_formula(value):
    """Whatever it is; and it is printable, and otherwise what it was."""
    shown = cell(value)
    assert shown.isprintable()
    formula = shown.lstrip(" ")[:1] in tuple("=+-@\uff1d\uff0b\uff0d\uff20")
    assert not formula or float(shown.strip()) is not None


def test_a_copy_has_its_way_in_its_names():
    names = {line["names"] for line in of(matrix(2), "measurement")}
    assert names == {f"device number {a}>device number {b}" for a, b in ((0, 1), (1, 0))}


def read(report):
    return JUnitXml.fromstring(render("junit", report, Style()).encode())


def suites(report):
    """Return the tests of each suite: their names, and whether they passed."""
    return {s.name.rpartition(".")[2]: [(t.name, not t.result) for t in s] for s in read(report)}


def test_a_metric_that_is_only_shown_is_no_test():
    """There is one for each judged metric: what is not judged can be neither green nor red."""
    words = ("pass", "shown", "improvement", "shown")
    verdicts = tuple(made_reports.verdict(word, "base", f"{n}.time", id_=f"dot.many[{n}]")
                     for n, word in enumerate(words))  # fmt: skip
    found = suites(made(measurements=(ok(case()),), verdicts=verdicts))["verdicts"]
    assert found == [("0.time dot.many[0]", True), ("2.time dot.many[2]", True)]


@pytest.mark.parametrize(("code", "names"), [(0, 2), (1, 2), (4, 0)])
def test_a_name_is_green_only_where_the_map_is_true(code, names):
    report = made(STATUS[code], code, kind="check")
    assert len(suites(report).get("names", ())) == names


def test_a_name_that_is_not_used_says_the_first_fix():
    causes = tuple(
        Finding(code, "key", "text", fix) for code, fix in (("GM205", "drive"), ("GM1", "x"))
    )
    found = Diagnosis("a", "cuda0", "not used", "no device", causes)
    *_, suite = read(made("no", 1, kind="doctor", diagnoses=(found,)))
    assert [test.result[0].text.partition("fix: ")[2] for test in suite] == ["drive"]


def test_names_in_a_suite_are_unique():
    """Readers join runs by them: also where one looks like a second one."""
    messages = ("none", "none (2)", "none", "none (2)", "none (3)", "none")
    errors = tuple(problem("absent", message, 3) for message in messages)
    names = [name for name, _ in suites(made("absent", 3, errors=errors))["errors"]]
    same = [name for name, _ in suites(made("absent", 3, errors=errors[:1] * 3))["errors"]]
    assert len(set(names)) == len(names)
    assert same == ["absent: none", "absent: none (2)", "absent: none (3)"]


def test_figures_are_properties():
    figures = {"time": figure(0.5, spread=0.5), "speedup": figure(2.0, "1", 0.5)}
    why = Explanation("serialised", "they take turns")
    row = replace(ok(case()), metrics=figures, flags=("unstable",), explanation=why)
    _, rows = read(made(measurements=(row, skipped(case("many")))))
    assert [(p.name, p.value) for p in next(iter(rows)).properties()] == [
        ("time", "0.5 [0.25, 0.75] s"), ("speedup", "2.0 [1.0, 3.0]"),
        ("flags", "unstable"), ("explanation", "serialised: they take turns"),
    ]  # fmt: skip

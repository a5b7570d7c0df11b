"""A command adds a type of result and what it shows; no format and no other part is edited."""

import json
import re
import sys
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
from made_reports import made
from msgspec import Struct
from tracker_readers import TRACKERS

from gpumap import results
from gpumap.judge.headline import Question
from gpumap.judge.phrases import answer
from gpumap.model import Estimate, replace
from gpumap.model import io as file
from gpumap.model import results as types
from gpumap.report import FORMATS, Style
from gpumap.report.parts import Outcome, Record, Section, Text
from gpumap.report.table import Table
from gpumap.results.shown import render


class Weighed(Struct, frozen=True, tag="weighed", tag_field=types.TAG):
    """What a scale says of each device.

    Attributes:
        grams: By the names of the map.
    """

    grams: dict[str, float]


def sections(_, result, __):
    rows = tuple((name, f"{grams:g} g") for name, grams in result.grams.items())
    yield Section("tables", (Table("devices on a scale", ("name", "weight"), rows, ()),))
    yield Section("method", (Text(("weighed in air",)),))


def records(_, result):
    heavy = Outcome("failed", "heavy", "more than a kilogram")
    for name, grams in result.grams.items():
        figures = {"weight": Estimate.without_interval(grams / 1000, "kg")}
        outcome = heavy if grams > 1000 else Outcome("passed")
        yield Record("weight", None, {"names": name}, figures, outcome, name)


def heaviest(report, result):
    name = max(result.grams, key=result.grams.get)
    return answer(report, "good", (f"{name} is the heaviest.",))


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    """What a command adds: a type in the model, and a file of its name with its spec."""
    spec = results.ResultSpec(sections, Question(heaviest, "weighed"), records)
    monkeypatch.setattr(types, "RESULTS", (*types.RESULTS, Weighed))
    monkeypatch.setitem(sys.modules, "gpumap.results.weighed", SimpleNamespace(SPEC=spec))
    file.saved.cache_clear()
    yield
    file.saved.cache_clear()


def report():
    found = replace(made(), result=Weighed({"a": 1250.0, "b": 700.0}), headline=None)
    return replace(found, headline=results.headline(found))


@pytest.mark.parametrize("format_", sorted(set(FORMATS) - {"csv", "json", "junit", *TRACKERS}))
def test_every_format_for_people_shows_its_answer_its_table_and_its_text(format_):
    text = re.sub(r"\x1b\[[0-9;]*m", "", render(format_, report(), Style()))
    every = ("a is the heaviest.", "devices on a scale", "weight", "1250 g", "weighed in air")
    assert [part for part in every if part not in text] == []


def test_junit_has_a_test_for_each_device():
    tree = ET.fromstring(render("junit", report(), Style()))  # noqa: S314 - gpumap has made it
    suite = next(each for each in tree if each.get("name").endswith("weights"))
    ended = {test.get("name"): [child.tag for child in test] for test in suite.iter("testcase")}
    assert ended == {"a": ["properties", "failure"], "b": ["properties"]}


def test_it_is_saved_and_read_back(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(render("json", report(), Style()))
    tree = json.loads(path.read_text())
    assert tree["result"] == {"type": "weighed", "grams": {"a": 1250, "b": 700}}
    assert file.read(path).result == report().result

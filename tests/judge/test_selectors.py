"""Selectors: which figures a text means, and what is said of a text that means none."""

import pytest
from cases import planned_case
from hypothesis import example, given
from hypothesis import strategies as st
from report_schema import SCHEMA
from reports import fake_case, fitted
from tables import table

from gpumap import model
from gpumap.bench.registry import BENCHMARKS, find
from gpumap.bench.selectors import EVERYWHERE
from gpumap.bench.selectors import selector as selector_of
from gpumap.errors import QuestionError
from gpumap.judge.limits import id_of, split_id
from gpumap.model import Measurement, replace
from gpumap.model.maps import UNITS
from gpumap.report.diagnostics import render

TABLE = table(__file__)
METRICS = SCHEMA["$defs"]["Metrics"]["properties"]
NAMES = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters=";"), min_size=1)
COPY = {"bytes": 400, "memory": "pinned", "mode": "sync", "pattern": "alone"}


def row(*arguments, **keywords):
    return Measurement(fake_case(*arguments, **keywords), "ok")


@pytest.mark.parametrize(("text", "canonical"), TABLE["written"])
def test_a_selector_is_bench_case_keys_and_metric(text, canonical):
    """Blanks around the parts are no part of them; written again it means the same."""
    assert selector_of(text) == selector_of(canonical)


MANY, SMALL = row(), row("transfer", "h2d", "a", **COPY)
LADDER = row("transfer", "h2d", "a", **{**COPY, "pattern": "ladder"})
FIT = fitted(LADDER.case)
AFFINE = [row("transfer", "affine", "a", resident=resident) for resident in (True, "true")]
OF = {"many": [MANY], "small": [SMALL], "ladder": [LADDER], "fit": [FIT], "affine": AFFINE}


@pytest.mark.parametrize(("of", "text", "meant"), TABLE["matched"])
def test_bench_and_case_are_exact_and_any_keys_will_do(of, text, meant):
    assert {selector_of(text).matches(each) for each in OF[of]} == {meant}


@given(NAMES)
@example("my gpu")
@example("a+b")
def test_every_name_is_selected_as_ids_write_it(name):
    """Whatever a map may call a device; ids are taken apart into what they are made of.

    Who runs on it beside another is another row.
    """
    made, beside = row("dot", "solo", name), row("dot", "solo", name, f"{name}2")
    what, keys = split_id(made.case.id)
    assert (what, set(keys), keys["size"]) == ("dot.solo", {"backend", "names", "size"}, "64")
    assert "+" not in keys["names"]  # that is between two names
    for key in ("name", "names"):
        selector = selector_of(f"dot.solo[{key}={keys['names']}].time")
        assert (selector.matches(made), selector.matches(beside)) == (True, False)
    assert (split_id("x.y[]"), id_of(FIT)) == (("x.y", {}), FIT.id)


H200 = model.Device("gpu:0", model.Kind.CUDA, model.DeviceRef(model.Kind.CUDA, 0),
                    " NVIDIA H200 (rev. 1.0) ", "cupy", driver="580.65.06")  # fmt: skip
ODD = replace(H200, name="A, B; [C] 50% = D", ref=model.DeviceRef(model.Kind.CUDA, 1), driver=None)
CARDS = {"H200": H200, "another H200": H200, "odd": ODD}


@pytest.mark.parametrize(("keys", "devices", "meant"), TABLE["of_devices"])
def test_a_selector_knows_the_devices_of_a_row(keys, devices, meant):
    """All of them: a row of two models is of none."""
    bindings = tuple(model.Binding(name, CARDS[name]) for name in devices)
    case = planned_case("dot", "many", {"size": 64}, bindings, model.Work())
    found = selector_of(f"dot.many[{keys}].time")
    assert found.matches(Measurement(case, "ok")) == meant


def refused(text):
    try:
        selector_of(text)
    except QuestionError as error:
        return error.diagnostics
    return ()


@pytest.mark.parametrize(("text", "places", "hint"), TABLE["refused"])
def test_what_means_nothing_is_said_with_its_place(text, places, hint):
    found = refused(text)
    assert [[d.span.start, d.span.stop] for d in found] == places
    assert (found[0].hint or "").startswith(hint)


@given(st.text() | st.text("dot.many[size=1,]<> \x1b\u202e\ud800"))
def test_any_text_is_a_selector_or_a_question(text):
    """Each diagnostic has its place inside the text, and nothing that a terminal acts on."""
    found = refused(text)
    assert all(0 <= d.span.start <= d.span.stop <= len(text) for d in found)
    assert render(found, text).replace("\n", "").isprintable()


def test_every_metric_has_the_unit_of_the_schema():
    """And stands in the table, of one family for each case: never rows of two shapes."""
    families = [(key, family) for key in BENCHMARKS for family in find(key).families]
    found = [(key, case, m) for key, f in families for case in f.cases for m in f.metrics]
    units = {name: metric["properties"]["unit"]["const"] for name, metric in METRICS.items()}
    assert units == UNITS
    assert set(UNITS) == {metric for *_, metric in found}
    assert len(found) == len(set(found))
    assert not {key for _, family in families for key in family.keys} & set(EVERYWHERE)

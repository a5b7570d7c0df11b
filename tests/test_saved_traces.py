"""Saved traces come back as they were, and what no program can have done is refused."""

import json

import pytest
from report.made_reports import traced
from tables import table
from test_saved import edited, read, refused_tree

from gpumap.report import Style, render
from gpumap.report.programs import perfetto as drawn

TABLE = table(__file__)


@pytest.fixture
def tree():
    return json.loads(render("json", traced(text="sum"), Style()))


def test_a_trace_comes_back_as_it_was(tmp_path, tree):
    """Every event; so every format, and the viewer's file, show what they showed."""
    report = traced(text="sum")
    found = read(tmp_path, tree)
    assert found.traces == report.traces
    for format_ in ("plain", "json", "csv"):
        assert render(format_, found, Style()) == render(format_, report, Style())
    assert drawn(found.traces) == drawn(report.traces)


def test_a_summary_is_not_believed(tmp_path, tree):
    """Whoever edits it changes nothing: it is made of the events again."""
    tree["traces"][0]["summary"]["moved"] = {"count": 0, "bytes": 0, "time_s": 0.0}
    assert "in all 1 transfer, 16 B" in render("plain", read(tmp_path, tree), Style())


@pytest.mark.parametrize(("path", "value", "said"), TABLE["impossible"])
def test_what_no_program_can_have_done_is_refused(tmp_path, tree, path, value, said):
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    assert refused_tree(tmp_path, edited(tree, path, value))[0].startswith(f"${place}: {said}")


def test_an_event_may_take_no_time_that_a_clock_sees(tmp_path, tree):
    """It ends where it starts, which is not before."""
    event = tree["traces"][0]["events"][0]
    event["stop_s"] = event["start_s"]
    assert read(tmp_path, tree).traces[0].events[0].stop == event["start_s"]

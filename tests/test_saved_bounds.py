"""Readers of saved reports at their bounds: what a run, or a traced program, can have done."""

import json
import math
from types import SimpleNamespace

import pytest
from report.made_reports import device, traced
from saved_reports import written
from tables import table
from test_saved import ROW, edited, read, refused_tree

from gpumap.model import Estimate, replace
from gpumap.model.trees import Refused, estimate
from gpumap.report import Style, render
from gpumap.report.programs import perfetto as drawn
from gpumap.saved import parse
from gpumap.saved.reader import by_id
from gpumap.saved.row_reader import _samples


def test_of_several_libraries_that_drive_a_device_the_first_is_its_own():
    cupy, pygpu = (replace(device(), backend=name) for name in ("cupy", "pygpu"))
    assert by_id([cupy, pygpu])["cuda:0"].backend == "cupy"


@pytest.mark.parametrize(("path", "within", "beyond"), [
    ((*ROW, "check", "max_error"), 1.0, math.nextafter(1.0, 2.0)),
    ((*ROW, "check", "max_error"), 0.0, -0.0001),
])  # fmt: skip
def test_a_report_may_go_to_the_bound_and_not_beyond(tmp_path, path, within, beyond):
    """What is just possible was written by a run; one step more was not."""
    tree = written("dot").tree
    read(tmp_path, edited(tree, path, within))
    refused_tree(tmp_path, edited(tree, path, beyond))


def test_a_mark_is_of_a_sample_that_is_there(tmp_path):
    """The last one is, the one behind it is not."""
    tree = written("dot").tree
    row = next(r for r in tree["measurements"] if r["status"] == "ok" and not r["sample_notes"])
    at = ("measurements", tree["measurements"].index(row), "sample_notes")
    n = len(row["samples"])

    def marked(sample):
        return edited(tree, at, [{"sample": sample, "mark": "preempted", "detail": ""}])

    read(tmp_path, marked(n - 1))
    assert f"there are {n} samples" in refused_tree(tmp_path, marked(n))[0]


@pytest.mark.parametrize(("low", "high", "read_back"), [
    (1.0, 1.0, True), (0.5, 1.0, True), (1.0, 2.0, True), (1.1, 2.0, False), (0.5, 0.9, False),
])  # fmt: skip
def test_an_interval_holds_its_value(low, high, read_back):
    figure = {"value": 1.0, "low": low, "high": high, "unit": "s"}
    if read_back:
        assert estimate(figure) == Estimate(1.0, low, high, "s")
    else:
        with pytest.raises(ValueError, match="the interval does not hold its value"):
            estimate(figure)


def test_a_whole_number_has_eighteen_digits_at_most():
    """What 64 bits hold; of one more no tool could tell what it was."""
    assert parse("9" * 18) == 10**18 - 1
    with pytest.raises(Refused):
        parse("9" * 19)


def test_a_sample_that_is_no_number_stays_one():
    row = SimpleNamespace(clock="host", seconds=[None, 1.0], intervals={})
    first, second = _samples(row).seconds
    assert math.isnan(first)
    assert second == 1.0


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

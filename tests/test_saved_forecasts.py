"""Predictions and published tables, read back: what was computed is computed again."""

from __future__ import annotations

import json

import pytest
from saved_reports import written

from gpumap.errors import SourceError
from gpumap.report import Style, render
from gpumap.saved import read

ODD = "its figures do not follow from the rest"


def again(tmp_path, tree):
    """Return the report of a tree."""
    path = tmp_path / "report.json"
    path.write_text(json.dumps(tree))
    return read(path)


@pytest.mark.parametrize("name", ["predict", "published"])
def test_it_is_written_again_as_it_was(name):
    """Every key, every figure, every digit."""
    run = written(name)

    assert render("json", read(run.path), Style()) == run.text


@pytest.mark.parametrize("name", ["predict", "published"])
def test_older_reports_have_neither(tmp_path, name):
    """The keys were added within the version."""
    tree = written(name).tree
    del tree["prediction"], tree["published"]

    found = again(tmp_path, tree)

    assert (found.prediction, found.published) == (None, None)


FORECAST = ("prediction", "forecasts", 2)
CELL = ("published", "cells", 1)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("prediction", "bytes"), 10**9, f"$.prediction: {ODD}"),
        (("prediction", "scaling"), "weak", f"$.prediction: {ODD}"),
        ((*FORECAST, "devices"), 3, f"$.prediction: {ODD}"),
        ((*FORECAST, "metrics", "speedup", "high"), 99.0, f"$.prediction: {ODD}"),
        (("prediction", "payoffs", 0, "pays"), "no", f"$.prediction: {ODD}"),
        (("prediction", "payoffs", 0, "best_devices"), 2, f"$.prediction: {ODD}"),
        (("prediction", "forecasts"), [], "$.prediction.forecasts: it is of no number of devices"),
        (
            ("prediction", "compute_s"),
            None,
            "$.prediction.batch: a batch is of a step that takes a time",
        ),
        (
            ("prediction", "link", "lines", 0, "from_bytes"),
            1,
            "$.prediction.link.lines: lines begin at 0 and go up, and no cost is below 0",
        ),
        (
            ("prediction", "link", "latency", "unit"),
            "B",
            '$.prediction.link.latency.unit: the unit is "s", not "B"',
        ),
        ((*CELL, "text"), "10.35+0.79", "$.published.cells[1]: it is not what its text says"),
        ((*CELL, "text"), "0.00+0.79", "$.published.cells[1].text: training takes a time"),
        ((*CELL, "row"), "AlexNet", "$.published.cells[1]: it is not what its text says"),
        ((*CELL, "metrics", "efficiency", "high"), 1.5, f"$.published: {ODD}"),
        ((*CELL, "flags"), ["super-linear"], f"$.published: {ODD}"),
        (("published", "fitted_devices"), [2, 8], f"$.published: {ODD}"),
        (("published", "models", 0, "fixed_s"), 0.5, f"$.published: {ODD}"),
        (("published", "other_links"), [], f"$.published: {ODD}"),
    ],
)
def test_what_was_edited_is_refused(tmp_path, path, value, message):
    """With its place."""
    tree = written(path[0] if path[0] == "published" else "predict").tree
    place = tree
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value

    with pytest.raises(SourceError) as raised:
        again(tmp_path, tree)

    (said,) = raised.value.diagnostics
    assert said.message.partition("report.json: ")[2] == message


def test_a_cell_that_stands_twice_is_refused(tmp_path):
    """As in the table itself."""
    tree = written("published").tree
    tree["published"]["cells"].append(tree["published"]["cells"][0])

    with pytest.raises(SourceError, match="a row stands twice at one number of devices"):
        again(tmp_path, tree)

"""Rows of one sample, and refused ratios, in every format: a value, and no interval."""

import csv
import io
import re
from xml.etree import ElementTree as ET

import pytest
from report_schema import checked
from saved_reports import few, signed, written
from shell import COLOURS
from tracker_readers import TRACKERS

from gpumap.model.io import read
from gpumap.model.maps import Estimate
from gpumap.report import FORMATS, Style
from gpumap.results.charts import charts, curves
from gpumap.results.shown import render

Figure = pytest.importorskip(
    "matplotlib.figure", reason="no matplotlib: pip install matplotlib"
).Figure
INTERVAL = re.compile(r"\[-?[0-9.]+(e[-+]?[0-9]+)?, ")
BARS = ("Speed-up",)  # charts whose figures have whiskers
TEXTS = sorted(set(FORMATS) - {"json", "csv", *TRACKERS})


@pytest.fixture(scope="module", params=["dot", "chain", "train"])
def one(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("few") / "report.json"
    path.write_text(signed(few(written(request.param).tree, 1)))
    return read(path)


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    tree = written("dot").tree
    row = next(row for row in tree["result"]["measurements"] if row["case"]["name"] == "many")
    row["metrics"]["speedup"] = {
        "value": None, "low": None, "high": None, "unit": "1", "nonfinite": "impossible",
    }  # fmt: skip
    row["flags"].append("impossible")
    path = tmp_path_factory.mktemp("refused") / "report.json"
    path.write_text(signed(tree | {"status": "inconclusive"}))
    return read(path)


def shown(format_, report):
    return COLOURS.sub("", render(format_, report, Style(1000, color=True)))


def figures(report):
    return {
        (row.case.id, name): f for row in report.measurements for name, f in row.metrics.items()
    }


@pytest.mark.parametrize("format_", TEXTS)
def test_no_format_shows_an_interval(one, format_):
    text = shown(format_, one)
    assert INTERVAL.search(text) is None
    assert "█" not in text
    times = [f.value for (_, name), f in figures(one).items() if name == "time"]
    assert times
    if format_ == "junit":
        values = [p.get("value", "").split(" ")[0] for p in ET.fromstring(text).iter("property")]  # noqa: S314
        assert set(map(repr, times)) <= set(values)
    assert INTERVAL.search(shown(format_, read(written("dot").path)))  # it would be found


def drawn(chart):
    figure = Figure()
    chart.draw(figure)
    bars = [bar for axes in figure.axes for bar in axes.patches]
    return bars, [bar for bar in bars if bar.get_fill()]


def test_it_is_drawn_hollow(one):
    """No whisker, and nothing filled."""
    found = [chart for chart in charts(one) if chart.title.startswith(BARS)]
    assert found
    for chart in found:
        every, filled = drawn(chart)
        assert every
        assert filled == []
    whole = [chart for chart in charts(read(written("dot").path)) if "Speed" in chart.title]
    assert [drawn(chart)[1] for chart in whole] != [[]]  # it would be found


def test_a_point_of_copies_is_hollow():
    axes = Figure().subplots()
    few, many = Estimate.without_interval(0.5, "s"), Estimate(0.5, 0.4, 0.6, "s")
    curves.dots(axes, {1.0: few, 2.0: many}, "black")
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [dot.get_fillstyle() for dot in dots] == ["none", "full"]


def test_a_refused_ratio_is_named_where_figures_stand(refused):
    """No number stands in its place: it is null with a reason in JSON, and a flag in CSV."""
    for format_ in TEXTS:
        text = shown(format_, refused)
        assert "impossible" in text
        assert re.search(r"\b(nan|inf)\b", text.partition("<script>")[0]) is None
    assert "many: impossible (speedup): a ratio is above" in shown("plain", refused)
    tree = checked(render("json", refused, Style()))
    row = next(row for row in tree["measurements"] if row["case"] == "many")
    lines = csv.DictReader(io.StringIO(render("csv", refused, Style())))
    line = next(x for x in lines if (x["case"], x["metric"]) == ("many", "speedup"))
    assert row["metrics"]["speedup"]["nonfinite"] == "impossible"
    assert (line["value"], line["low"], line["high"], line["flags"]) == ("", "", "", "impossible")

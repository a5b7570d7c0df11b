"""A report as a page: whole, harmless, always the same, and nothing of it from anywhere else."""

import re
import sys
from collections import Counter
from xml.etree import ElementTree as ET

import made_reports
import pytest
from made_reports import EVERY
from markupsafe import escape
from saved_reports import written
from tables import table

from gpumap.errors import Diagnostic
from gpumap.extras import install
from gpumap.model import replace
from gpumap.model.io import read
from gpumap.report import Style
from gpumap.report.charts import COLORS
from gpumap.report.parts import tone
from gpumap.results.shown import render

pytest.importorskip("matplotlib", reason="no matplotlib: pip install matplotlib")

TABLE = table(__file__)
MEASURED = ("dot", "sizes", "chain", "allreduce", "train", "copies")
VOID = {"meta", "link", "wbr", "br", "hr", "img", "input"}  # a browser closes no other by `/>`


def page(report):
    text = render("html", report, Style())
    assert text.isascii()  # it is the same in whatever encoding it is written
    markup = re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL)
    assert {*re.findall(r"<(\w+)[^<>]*/>", markup)} <= VOID
    return text, ET.fromstring(text)  # noqa: S314 - gpumap has made it


def words(element):
    return " ".join("".join(element.itertext()).split())


@pytest.fixture(params=MEASURED)
def measured(request):
    return read(written(request.param).path)


@pytest.mark.parametrize("end", EVERY)
def test_a_page_has_its_landmarks_and_its_language(end):
    """Whoever cannot see it finds each section by its name; the answer first, the map last."""
    _, tree = page(EVERY[end]())
    assert tree.get("lang") == "en"
    assert [child.tag for child in tree.find("body")] == ["header", "main", "footer"]
    assert len(list(tree.iter("h1"))) == 1
    assert tree.find("body/header/div[@class]/h1").text
    ids = {element.get("id") for element in tree.iter() if element.get("id")}
    found = [section.get("aria-labelledby") for section in tree.iter("section")]
    order = ("figures", "errors", "verdicts", "diagnoses", "devices", "plan", "tables", "method",
             "notes", "map")  # fmt: skip
    assert found == [name for name in order if name in found]
    assert found[-1] == "map"
    assert set(found) <= ids


def test_a_table_is_in_a_region_that_the_keyboard_reaches(measured):
    """It scrolls by itself; each cell has the heading of its column and of its row."""
    _, tree = page(measured)
    regions = list(tree.iterfind(".//div[@role='region']"))
    found = [table for region in regions for table in region.iter("table")]
    assert found == list(tree.iter("table"))
    assert all(region.get("aria-label") for region in regions)
    assert {region.get("tabindex") for region in regions} == {"0"}
    assert {th.get("scope") for table in found for th in table.iter("th")} == {"col", "row"}


def test_each_chart_has_a_name_and_the_colours_of_the_page(measured):
    """Ink and font are those of the page."""
    text, tree = page(measured)
    figures = list(tree.iter("figure"))
    exchanges = {row.case.bench for row in measured.measurements} == {"allreduce"}
    assert bool(figures) != exchanges  # of which there is no chart
    for figure in figures:
        (svg,) = figure.iter("svg")
        title = words(figure.find("figcaption/h3"))
        assert (svg.get("role"), svg.get("aria-label")) == ("img", title)
        drawn = ET.tostring(svg, encoding="unicode")
        assert {*re.findall(r"#[0-9a-f]{6}\b", drawn)} <= {*COLORS}
        assert "#000000" not in drawn
    assert re.search(r"^svg \{ fill: currentColor; \}$", text, re.MULTILINE)
    assert re.search(r"^svg text \{ font-family: inherit !important;", text, re.MULTILINE)
    used = set(re.findall(r"var\(--([a-z0-9]+)\)", text))
    for scheme in re.findall(r":root \{(.*?)\}", text, re.DOTALL):
        assert used <= set(re.findall(r"--([a-z0-9]+):", scheme))


def luminance(color):
    parts = (int(color[n : n + 2], 16) / 255 for n in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1])
@pytest.mark.parametrize("ground", ["page", "raised"])
def test_every_colour_stands_out(scheme, ground):
    """Words by 4.5 to 1, and what is drawn by 3 to 1, in both schemes: WCAG 2, AA."""
    text, _ = page(made_reports.passed())
    block = re.findall(r":root \{(.*?)\}", text, re.DOTALL)[scheme]
    colors = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))

    def contrast(color):
        low, high = sorted((luminance(color), luminance(colors[ground])))
        return (high + 0.05) / (low + 0.05)

    words_ = ("ink", "soft", "accent", "good", "unclear", "bad")
    assert [name for name in words_ if contrast(colors[name]) < 4.5] == []
    assert [color for color in COLORS if contrast(color) < 3.0] == []


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 0.0, -1.0, 1e300, 1e-300])
def test_a_figure_without_a_place_is_in_no_chart(value):
    report = made_reports.passed()
    (one, many) = report.measurements
    odd = many.metrics | {"speedup": made_reports.figure(value, "1"),
                          "time": made_reports.figure(value)}  # fmt: skip
    text, _ = page(replace(report, measurements=(one, replace(many, metrics=odd))))
    assert "Speed-up of" not in text


def test_without_matplotlib_all_but_the_pictures_is_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    text, tree = page(read(written("dot").path))
    assert escape(install("report")) in text
    assert list(tree.iter("svg")) == []
    assert "Speed-up of dot, fake" in words(tree)


@pytest.mark.parametrize("name", [*MEASURED, "lost", "doctor", "bad map"])
def test_a_page_loads_nothing_from_elsewhere(name):
    """No address but what is in it, no script, and a policy that forbids the rest."""
    report = read(written(name).path)
    text, tree = page(report)
    for element in tree.iter():
        for key in ("src", "href", "data", "action", "srcset", "poster"):
            value = element.get(key, "#")
            assert value.startswith("#") or value == "data:,"
    assert "@import" not in text
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", text)
    policy = tree.find(".//meta[@http-equiv]").get("content")
    assert policy.startswith("default-src 'none';")
    assert "script" not in policy
    assert list(tree.iter("script")) == []
    assert [key for e in tree.iter() for key in e.attrib if key.startswith("on")] == []
    if name == "bad map":  # its errors have a caret below the place, and the fix
        told = words(tree.find(".//ul[@class='told']"))
        assert 'error in entry 1: no "->" in "a=>cuda0"' in told
        assert "^~~~~~~~" in told
        assert 'fix: write "a->cuda0"' in told
    ids = Counter(element.get("id") for element in tree.iter() if element.get("id"))
    assert set(ids.values()) == {1}
    assert set(re.findall(r"(?:url\(|href=\")#([\w-]+)", text)) <= set(ids)
    assert len(text.encode()) < 1_000_000  # of a usual run
    assert text == page(report)[0]  # no date of today, and no number that is drawn by lot


def test_matplotlib_s_own_settings_stay_as_they_are():
    import matplotlib as mpl

    with mpl.rc_context({"text.usetex": True, "font.size": 99.0}):
        before = dict(mpl.rcParams)
        text, _ = page(read(written("dot").path))
        assert dict(mpl.rcParams) == before
    assert text == page(read(written("dot").path))[0]


@pytest.mark.parametrize(("word", "shown"), TABLE["tones"])
def test_a_word_that_says_how_something_ended_has_its_colour(word, shown):
    """On a page and on a terminal; a text that only begins with one has none."""
    assert tone(word) == shown


@pytest.mark.parametrize(("end", "colour"), TABLE["banners"])
def test_the_answer_has_the_colour_of_its_level_and_a_failure_is_red(end, colour):
    _, tree = page(EVERY[end]())
    assert tree.find("body/header/div").get("class") == f"banner {colour}"


def test_a_page_says_by_what_a_run_was_simulated():
    """A stand-in for a driver is no script: the words are those of the run's own note."""
    text = "a stand-in for a driver, or a simulator: no figure is of a device"
    note = Diagnostic("simulated", text, severity="note")
    _, tree = page(replace(made_reports.made(), notes=(note,)))
    notice = tree.find(".//p[@class='notice']")
    assert words(notice) == f"Simulated: {text}."

"""Every format of every end that a run can have: complete, harmless, and what a library reads."""

import csv
import io
import json
import re
from functools import cache
from xml.etree import ElementTree as ET

import made_reports
import pytest
from commands.scripts import script
from hypothesis import given, settings
from hypothesis import strategies as st
from junitparser.xunit2 import JUnitXml
from made_reports import ENDS, EVERY
from markdown_it import MarkdownIt
from report_schema import validate
from rich.text import Text
from runner import commands
from shell import COLOURS
from tables import table
from tracker_readers import READERS as TRACKER_READERS
from tracker_readers import TRACKERS, families

from gpumap.bench.keys import is_call
from gpumap.errors import Diagnostic
from gpumap.escape import printable
from gpumap.model import replace
from gpumap.report import FORMATS, SUFFIXES, Style, diagnostics
from gpumap.results.cells import named
from gpumap.results.shown import render

WIDE = Style(4000, color=True, verbose=True)  # no line is wrapped, and nothing left out
HOSTILE = [*table(__file__)["hostile"], "\ud800"]  # which TOML cannot hold
MARKDOWN = MarkdownIt("gfm-like")  # tables, raw HTML, and links that are none but look so
QUIET = {"text", "code_inline", "strong_open", "strong_close", "softbreak"}
STRANGE = {"code_block", "fence", "blockquote_open", "hr", "html_block"}
FOR_READERS = [name for name in FORMATS if name not in TRACKERS]  # trackers take figures alone
INTERVAL = re.compile(r"\[-?[0-9.]+(e[-+]?[0-9]+)?, ")


def rendered(format_, report):
    return render(format_, report, WIDE)


@cache
def tame(format_, make):
    """Return the text of a report with nothing hostile in it: charts take a library its time."""
    return rendered(format_, make())


def texts_of(value):
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for item in value:
            yield from texts_of(item)
    else:
        yield str(value)


def read_csv(text):
    header, *lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert all(len(line) == len(header) for line in lines)
    return [cell for line in lines for cell in line]


def read_junit(text):
    found = []
    for suite in JUnitXml.fromstring(text.encode()):
        found += [p.value for p in suite.properties()]
        for test in suite:
            found += [test.name, *(result.message for result in test.result)]
            found += [p.value for p in test.properties()]
    return found


def read_markdown(text):
    """Return what is shown: nothing but text, bold words and code, in lists and tables."""
    tokens = MARKDOWN.parse(text)
    inner = [token.children or () for token in tokens]
    assert {child.type for children in inner for child in children} <= QUIET
    assert not {token.type for token in tokens} & STRANGE
    return ["".join(child.content for child in children) for children in inner]


def read_html(text):
    page = ET.fromstring(text.replace("<wbr />", ""))  # noqa: S314 - gpumap has made it; no text
    for hidden in page.iter("style"):
        hidden.text = ""
    return [words for words in page.find("body").itertext() if words.strip()]


def read_openmetrics(text):
    samples = [sample for family in families(text).values() for sample in family.samples]
    return [value for sample in samples for value in sample.labels.values()]


READERS = {
    "plain": lambda text: text.split("\n"),
    "rich": lambda text: Text.from_ansi(text).plain.split("\n"),
    "json": lambda text: list(texts_of(json.loads(text, parse_constant=pytest.fail))),
    "github": lambda text: [*text.split("\n"), *(command.data for command in commands(text))],
    "csv": read_csv, "markdown": read_markdown, "junit": read_junit, "html": read_html,
    **{name: lambda text, read=read: [each.name for each in read(text)]
       for name, read in TRACKER_READERS.items()},
    "openmetrics": read_openmetrics,
}  # fmt: skip


def said(format_, make, report):
    """Return all that a user sees: where stdout has only the result, stderr has the errors."""
    found = READERS[format_](tame(format_, make))
    if format_ in ("plain", "rich"):
        found += diagnostics.render(p.diagnostic for p in report.errors).split("\n")
    return "\n".join(found)


@pytest.mark.parametrize("end", EVERY)
@pytest.mark.parametrize("format_", FOR_READERS)
def test_a_report_is_complete(format_, end):
    report = EVERY[end]()
    text = said(format_, EVERY[end], report)
    assert report.headline.text in text
    for row in report.measurements:
        if format_ in ("json", "csv", "junit"):  # others name a row by its case and its names
            assert row.case.id in text
        elif is_call(row.case):  # it has its part in a table of break-evens
            assert named(row.case) in text
        elif report.plans or row.status == "ok":
            assert row.case.name in text
            assert named(row.case) in text
        assert row.reason is None or report.plans or row.reason.text in text
    for verdict in report.verdicts:
        assert verdict.verdict in text
        row = verdict.id or ""
        assert (row.partition("[")[0] if format_ == "html" else row) in text  # a page has words
    for problem in report.errors:
        assert problem.diagnostic.message in text
    whole = tame(format_, EVERY[end])
    assert whole == "" or whole.endswith("\n")  # what is written behind it has its own line
    if format_ == "json":
        validate(json.loads(whole))


@pytest.mark.parametrize("format_", FORMATS)
def test_hostile_text_is_harmless(format_):
    for hostile in HOSTILE if format_ != "html" else ():  # charts take a library its time
        assert_harmless(format_, ENDS["limit missed"], (hostile, "b"), hostile)
    for make in EVERY.values():
        assert_harmless(format_, make, ("".join(HOSTILE), "b"), "".join(HOSTILE))


@pytest.mark.parametrize("format_", [name for name in FORMATS if name != "html"])
@given(name=st.text(st.characters()), text=st.text(st.characters()))
def test_any_text_is_harmless(format_, name, text):
    assert_harmless(format_, made_reports.limit_missed, (name, "b"), text)


@settings(max_examples=15)  # a page has charts, which take a library its time
@given(name=st.text(st.characters()), text=st.text(st.characters()))
def test_any_text_is_harmless_in_a_page(name, text):
    assert_harmless("html", made_reports.limit_missed, (name, "b"), text)


def assert_harmless(format_, make, names, text):
    hostile = rendered(format_, make(names, text))
    READERS[format_](hostile)
    assert shape(format_, hostile) == shape(format_, tame(format_, make))
    lines = lines_of(hostile)
    assert len(lines) == len(lines_of(tame(format_, make)))
    narrow = render(format_, make(names, text), Style(color=True))
    for line in lines + lines_of(narrow):
        assert line.isprintable()
        assert line == printable(line) or format_ == "github"  # which has commands of its own


def shape(format_, text):
    if format_ == "markdown":
        return [token.type for token in MARKDOWN.parse(text)]
    return [each.name for each in commands(text)] if format_ == "github" else None


def lines_of(text):
    return COLOURS.sub("", text).replace("\r\n", "\n").split("\n")


def test_a_suffix_leads_to_its_format(gpumap):
    """As `--output report.md` to Markdown; each format has its reader here."""
    assert set(READERS) == set(FORMATS) >= set(SUFFIXES.values())
    paths = {gpumap.folder / f"report{suffix}": format_ for suffix, format_ in SUFFIXES.items()}
    outputs = [word for path in paths for word in ("--output", path)]
    run = ("bench", "dot", "--dry-run", "--map", "a->cuda0", *outputs)
    assert gpumap.fake(script({}))(*run).code == 0
    for path, format_ in paths.items():
        assert "dot" in "\n".join(READERS[format_](path.read_bytes().decode()))


@pytest.mark.parametrize("format_", FOR_READERS)
def test_no_format_leaves_out_what_was_warned_of_or_let_pass(format_):
    """On stdout the result alone: stderr has what was let pass."""
    warning = Diagnostic("cpu-contention", "others had two cores", severity="warning")
    let_pass = made_reports.problem("inconclusive", "it is not known", 0, severity="warning")
    report = replace(made_reports.passed(), notes=(warning,), errors=(let_pass,))
    text = "\n".join(READERS[format_](rendered(format_, report)))
    assert warning.message in text
    assert format_ in ("plain", "rich") or let_pass.diagnostic.message in text


@pytest.mark.parametrize("format_", [each for each in FOR_READERS if each not in ("json", "csv")])
def test_few_samples_have_no_interval_and_a_refused_ratio_no_number(format_):
    """Nor a bar in a table; it is named where figures stand."""
    text = COLOURS.sub("", rendered(format_, made_reports.few()))
    assert INTERVAL.search(text) is None
    assert "impossible" in text
    assert re.search(r"█|\b(nan|inf)\b", text) is None
    whole = COLOURS.sub("", rendered(format_, made_reports.passed()))
    assert INTERVAL.search(whole)  # it would be found


@pytest.mark.parametrize("format_", ["markdown", "html"])
def test_of_many_errors_that_are_alike_the_number_is_shown(format_):
    errors = tuple(made_reports.problem("absent", f"b{n} is not there", 3, entry=n, name=f"b{n}")
                   for n in range(1, 10))  # fmt: skip
    report = replace(made_reports.errors_only(), errors=errors)
    text = "\n".join(READERS[format_](rendered(format_, report)))
    assert "b1 is not there" in text
    assert "and 8 more like it, in entries 2-9" in text


@pytest.mark.parametrize("format_", ["plain", "rich", "markdown", "html"])
def test_all_memory_of_a_device_stands_before_what_is_free_of_it(format_):
    report = made_reports.listed()
    device = replace(report.devices[0], memory_total=8 << 30, memory_free=2 << 30)
    listed = replace(report, devices=(device,))
    text = rendered(format_, listed)
    assert -1 < text.index("memory") < text.index("free")
    assert -1 < text.index("8.0 GiB") < text.index("2.0 GiB")

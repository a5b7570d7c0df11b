"""The markup of a page: well-formed as HTML too, and escaped by its templates alone."""

import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from made_reports import EVERY
from test_html import HOSTILE, page

from gpumap.report import html


def test_templates_escape_by_themselves():
    """No text of a report is trusted: only the style and the script, which are files of ours."""
    assert html._environment().autoescape is True
    folder = files("gpumap.report.html")
    texts = [each.read_text() for each in folder.iterdir() if each.name.endswith(".j2")]
    assert len(texts) == 4
    assert [t for t in texts if re.search(r"\|\s*safe\b|autoescape|Markup", t)] == []


class Reader(HTMLParser):
    """Reads a page as a browser does, and keeps what no browser would take as it is meant."""

    VOID = ("meta", "link", "wbr", "br", "hr", "img", "input")

    def __init__(self):
        super().__init__()
        self.open, self.wrong = [], []

    def handle_starttag(self, tag, _attributes):
        self.open += [] if tag in self.VOID else [tag]

    def handle_startendtag(self, tag, _attributes):
        """Only drawings have elements that end where they begin."""
        if tag not in self.VOID and "svg" not in self.open:
            self.wrong.append(tag)

    def handle_endtag(self, tag):
        if self.open.pop() != tag:
            self.wrong.append(tag)


@pytest.mark.parametrize("hostile", ["x", "".join(HOSTILE)])
@pytest.mark.parametrize("end", EVERY)
def test_a_page_is_html(end, hostile):
    reader = Reader()
    reader.feed(page(EVERY[end]((hostile, "b"), hostile))[0])
    reader.close()
    assert (reader.open, reader.wrong) == ([], [])

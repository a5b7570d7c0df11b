"""Markdown, read back by a parser with GitHub's tables and links: the text of others is code."""

import made_reports
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from made_reports import EVERY, made, problem
from markdown_it import MarkdownIt

from gpumap.escape import printable
from gpumap.report import Style
from gpumap.report.diagnostics import SHOWN
from gpumap.report.markdown import code
from gpumap.results.shown import render

PARSER = MarkdownIt("gfm-like")  # tables, raw HTML and links that are none but look so
QUIET = {"text", "code_inline", "strong_open", "strong_close", "softbreak"}
HOSTILE = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a|b", r"a\|b", "|", "\\", "`",
    "``", "`a", "a`", "[a](http://evil.example)", "![a](b)", "www.evil.example", "@user",
    "http://evil.example", "#1", "*a*", "__a__", "~~a~~", "&lt;", "&#64;", "a\nb", "\r\n# a", "- a",
    "1. a", "> a", ":smile:", "<!-- a", "</details>", "\x1b[31m", "\0", "\ud800", "\u202e", " ",
    "  ", " a ", "a@evil.example", "$x$", "[^1]", "%0A::error::x",
]  # fmt: skip


def text(report):
    return render("markdown", report, Style())


def tables(report):
    found, rows = [], []
    for token in PARSER.parse(text(report)):
        if token.type == "table_open":
            rows = []
            found.append(rows)
        elif token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and token.level > 3:
            rows[-1].append("".join(child.content for child in token.children))
    return [[tuple(row) for row in rows] for rows in found]


def assert_harmless(report):
    tokens = PARSER.parse(text(report))
    kinds = {child.type for token in tokens for child in token.children or ()}
    assert kinds <= QUIET
    strange = ("code_block", "fence", "blockquote_open", "hr", "html_block")
    assert not [t for t in tokens if t.type in strange]


@given(shown=st.text(st.characters(), min_size=1))
def test_a_code_span_shows_its_text(shown):
    (token,) = PARSER.parseInline(code(shown))
    (child,) = token.children
    expected = printable(shown)
    blank = not expected.strip(" ")
    assert child.type == "code_inline"
    assert child.content == (f" {expected} " if blank else expected)  # blanks alone are kept


@pytest.mark.parametrize("name", EVERY)
def test_hostile_text_is_code(name):
    """In names, messages, reasons, drivers and files: it shows, no more. Each table stays one."""
    plain = [[len(row) for row in rows] for rows in tables(EVERY[name]())]
    for hostile in HOSTILE if name == "limit missed" else ["".join(HOSTILE)]:
        report = EVERY[name]((hostile, "b"), hostile)
        assert_harmless(report)
        found = tables(report)
        heads = [line for line in text(report).splitlines() if line.startswith(("|:", "|-"))]
        assert len(found) == len(heads)
        assert all(len(row) == len(rows[0]) for rows in found for row in rows)
        assert [[len(row) for row in rows] for rows in found] == plain


@given(name=st.text(st.characters(), min_size=1), words=st.text(st.characters()))
@example(name="a", words="\\")
@example(name="|`|", words="`|`")
def test_no_text_is_anything_but_code(name, words):
    report = made_reports.limit_missed((name, "b"), words)
    assert_harmless(report)
    assert all(len(row) == len(rows[0]) for rows in tables(report) for row in rows)


def test_a_map_of_very_many_errors_does_not_push_the_table_out():
    errors = tuple(problem(f"map{n}", "wrong", 2) for n in range(SHOWN + 5))
    found = text(made("error", 2, errors=errors)).splitlines()
    assert sum(line.startswith("- **error**") for line in found) == SHOWN
    assert "- and 5 more; `--format json` lists them all" in found

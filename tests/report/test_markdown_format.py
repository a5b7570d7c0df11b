"""Markdown, read back by a parser with GitHub's tables and links: the text of others is code."""

import made_reports
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from made_reports import EVERY, case, made, ok, problem
from markdown_it import MarkdownIt

from gpumap.escape import printable
from gpumap.model import Case
from gpumap.report import Style
from gpumap.report.diagnostics import SHOWN
from gpumap.report.markdown import LIMIT, code
from gpumap.results.shown import render

PARSER = MarkdownIt("gfm-like")  # tables, raw HTML and links that are none but look so
OURS = ("<details><summary>Every row</summary>\n", "</details>\n")
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
    assert {t.content for t in tokens if t.type == "html_block"} <= set(OURS)
    assert not [t for t in tokens if t.type in ("code_block", "fence", "blockquote_open", "hr")]


@given(shown=st.text(st.characters(), min_size=1))
def test_a_code_span_shows_its_text(shown):
    (token,) = PARSER.parseInline(code(shown))
    (child,) = token.children
    expected = printable(shown)
    blank = not expected.strip(" ")
    assert child.type == "code_inline"
    assert child.content == (f" {expected} " if blank else expected)  # blanks alone are kept


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_is_code(name, hostile):
    """In names, messages, reasons, drivers and files: it shows, no more. Each table stays one."""
    report = EVERY[name]((hostile, "b"), hostile)
    assert_harmless(report)
    found, plain = tables(report), tables(EVERY[name]())
    heads = [line for line in text(report).splitlines() if line.startswith(("|:", "|-"))]
    assert len(found) == len(heads)
    assert all(len(row) == len(rows[0]) for rows in found for row in rows)
    assert [[len(row) for row in rows] for rows in found] == [
        [len(row) for row in rows] for rows in plain
    ]


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


def many(number, name="a"):
    (bound,) = made_reports.bindings((name,))
    rows = (ok(Case("dot", "one", {"size": n, "dtype": "float32"}, (bound,), case().work))
            for n in range(number))  # fmt: skip
    return made(measurements=tuple(rows))


@pytest.mark.parametrize("name", ["a", "名" * 100])
def test_what_does_not_fit_is_left_out_from_the_end(name):
    """GitHub drops a summary of more bytes as a whole; what is left is well-formed."""
    report = many(6000, name)
    found = text(report)
    assert LIMIT - 4096 < len(found.encode()) <= LIMIT
    assert found.endswith("left out; `--format json` has all of it.\n")
    assert_harmless(report)


def test_a_fold_that_is_cut_is_closed():
    """Else what another step writes would be hidden in it. What fits is whole, and says nothing."""
    rows = many(1).measurements * 9000  # one table, and a longer one of ids
    found = text(made(measurements=rows)).splitlines()
    assert found[-4:-1] == ["", "</details>", ""]
    assert found.count("<details><summary>Every row</summary>") == 1
    small = many(100, "a|`b")
    assert "left out" not in text(small)
    assert [row[0] for row in tables(small)[-1]][1:] == [r.case.id for r in small.measurements]

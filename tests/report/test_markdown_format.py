"""Markdown, read back by a parser with GitHub's tables and links: the text of others is code."""

from hypothesis import given
from hypothesis import strategies as st
from made_reports import made, problem
from markdown_it import MarkdownIt

from gpumap.escape import printable
from gpumap.report import Style
from gpumap.report.diagnostics import SHOWN
from gpumap.report.markdown import code
from gpumap.results.shown import render


@given(shown=st.text(st.characters(), min_size=1))
def test_a_code_span_shows_its_text(shown):
    (token,) = MarkdownIt("gfm-like").parseInline(code(shown))
    (child,) = token.children
    expected = printable(shown)
    blank = not expected.strip(" ")
    assert child.type == "code_inline"
    assert child.content == (f" {expected} " if blank else expected)  # blanks alone are kept


def test_a_map_of_very_many_errors_does_not_push_the_table_out():
    errors = tuple(problem(f"map{n}", "wrong", 2) for n in range(SHOWN + 5))
    found = render("markdown", made("error", 2, errors=errors), Style()).splitlines()
    assert sum(line.startswith("- **error**") for line in found) == SHOWN
    assert "- and 5 more; `--format json` lists them all" in found

"""Markdown, read back by a parser with GitHub's tables and links: the text of others is code."""

from __future__ import annotations

from dataclasses import replace

import made_reports
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from made_reports import EVERY, case, made, ok, problem
from markdown_it import MarkdownIt

from gpumap.errors import Diagnostic
from gpumap.escape import printable
from gpumap.model import Case, Estimate
from gpumap.report import Style, render
from gpumap.report.diagnostics import SHOWN
from gpumap.report.markdown import LIMIT, code

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
    """Return a report as Markdown."""
    return render("markdown", report, Style())


def inline(report):
    """Return every token inside of a line."""
    return [child for token in PARSER.parse(text(report)) for child in token.children or ()]


def codes(report):
    """Return what stands in code spans."""
    return [token.content for token in inline(report) if token.type == "code_inline"]


def tables(report):
    """Return each table: its rows as tuples of what the cells show."""
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
    """Hold that all that is rendered is text, code and what this format itself puts in."""
    tokens = PARSER.parse(text(report))
    kinds = {child.type for token in tokens for child in token.children or ()}
    assert kinds <= QUIET
    assert {t.content for t in tokens if t.type == "html_block"} <= set(OURS)
    assert not [t for t in tokens if t.type in ("code_block", "fence", "blockquote_open", "hr")]


# --- code spans


@pytest.mark.parametrize(
    ("shown", "span"),
    [
        ("a", "`a`"), ("a`b", "``a`b``"), ("`", "`` ` ``"), ("``", "``` `` ```"),
        ("`a", "`` `a ``"), ("a``b`c", "```a``b`c```"), (" a ", "`  a  `"), ("", ""),
        ("a\n", "`a\\n`"),
    ],
)  # fmt: skip
def test_a_code_span_has_a_fence_that_its_text_has_not(shown, span):
    """And a blank before a backtick at its edge, which a reader drops."""
    assert code(shown) == span


@given(shown=st.text(st.characters(), min_size=1))
def test_a_code_span_shows_its_text(shown):
    """Whatever it is: the parser gives it back, printable."""
    (token,) = PARSER.parseInline(code(shown))
    (child,) = token.children

    expected = printable(shown)
    blank = not expected.strip(" ")
    assert child.type == "code_inline"
    assert child.content == (f" {expected} " if blank else expected)  # blanks alone are kept


# --- a report


def test_the_whole_text():
    """All of a small report."""
    row = replace(ok(case(), 0.5), metrics={"time": Estimate(0.5, 0.4, 0.6, "s")},
                  flags=("unstable",))  # fmt: skip
    report = made(
        "no", 1, measurements=(row,), bindings=made_reports.bindings()[:1],
        errors=(problem("limit", "not met", 1, "ask for less", entry=1),),
    )  # fmt: skip

    assert (
        text(report)
        == """\
## gpumap bench: no, exit code 1, simulated

### Errors

- **error** in entry 1: `not met` (fix: `ask for less`)

### Notes

- **note**: `unused: x` (hint: `x`)

### Map

- `Mapped name a to device cuda0: Fake device (simulated)`

### `dot 64 x 64 float32, fake`

| case   | on   |              time |     error |         n | status     |
|:-------|:-----|------------------:|----------:|----------:|:-----------|
| `one`  | `a`  | 500 ms [400, 600] | 0.050 < 1 | `6 (few)` | `unstable` |

`time: median of n blocks [95% interval, in this run], seed 1; every result verified`

<details><summary>Every row</summary>

| id                                                    | status   | flags or reason   | \
             time |
|:------------------------------------------------------|:---------|:------------------|\
------------------:|
| `dot.one[backend=fake,dtype=float32,names=a,size=64]` | `ok`     | `unstable`        | \
500 ms [400, 600] |

</details>

"""
    )


@pytest.mark.parametrize("name", EVERY)
def test_everything_is_in_it(name):
    """Status, exit code, errors, notes, and each row by its id with its reason."""
    report = EVERY[name]()

    lines, found = text(report).splitlines(), codes(report)
    assert lines[0].startswith(f"## gpumap {report.kind}: {report.status}, exit code ")
    assert str(report.exit_code) in lines[0]
    for row in report.measurements:
        assert row.case.id in found
        assert row.reason is None or f"{row.reason.code}: {row.reason.text}" in found
    for said in (*(p.diagnostic for p in report.errors), *report.notes):
        assert said.message in found


@pytest.mark.parametrize("name", EVERY)
def test_every_table_is_one(name):
    """Each row has as many cells as its header; the parser sees as many tables as were written."""
    report = EVERY[name]()

    found = tables(report)
    assert len(found) == sum(line.startswith(("|:", "|-"))
                             for line in text(report).splitlines())  # fmt: skip
    assert all(len(row) == len(rows[0]) for rows in found for row in rows)


def test_figures_stand_on_the_right_and_are_no_code():
    """They are compared by eye; names and words are code."""
    lines = text(made_reports.passed()).splitlines()
    head, rule, first, *_ = lines[lines.index("### `dot 64 x 64 x, fake`") + 2 :]

    kinds = dict(zip([c.strip() for c in head.split("|")], rule.split("|"), strict=True))
    cells = dict(zip([c.strip() for c in head.split("|")], first.split("|"), strict=True))
    assert {name for name, dashes in kinds.items() if dashes.endswith(":")} == {
        "time", "rate", "speed-up", "error", "n",
    }  # fmt: skip
    assert "`" not in cells["time"]
    assert cells["case"].strip() == "`one`"


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_is_code(name, hostile):
    """In names, messages, hints, reasons, parameters, drivers and files: it shows, no more."""
    report = EVERY[name]((hostile, "b"), hostile)

    assert_harmless(report)
    plain = EVERY[name]()
    assert [[len(row) for row in rows] for rows in tables(report)] == [
        [len(row) for row in rows] for rows in tables(plain)
    ]


@pytest.mark.parametrize("hostile", ["a|b", r"a\|b", "a`|`b", "|", "||", r"\|"])
def test_a_pipe_in_a_cell_is_shown_as_it_is(hostile):
    """A cell ends where it should, and the backslash that keeps it is not seen."""
    row = ok(case(bound=made_reports.bindings((hostile,))))

    (measured, *_) = tables(made(measurements=(row,)))
    assert measured[1][1] == hostile


@given(name=st.text(st.characters(), min_size=1), words=st.text(st.characters()))
@example(name="a", words="\\")
@example(name="|`|", words="`|`")
def test_no_text_is_anything_but_code(name, words):
    """Any name, any text."""
    report = made_reports.limit_missed((name, "b"), words)

    assert_harmless(report)
    assert all(len(row) == len(rows[0]) for rows in tables(report) for row in rows)


def test_names_in_cells_come_back():
    """Ids are what a reader searches for."""
    hostile = "a|`b"
    report = made_reports.passed((hostile, "b"))

    *_, every = tables(report)
    assert [row[0] for row in every[1:]] == [row.case.id for row in report.measurements]


def test_what_was_let_pass_is_a_note():
    """An error of exit code 0 failed nothing."""
    assert "### Errors" not in text(made_reports.absent_skipped())
    assert "x: not there" in codes(made_reports.absent_skipped())


# --- what is too long


def many(number, name="a"):
    """Return a report of many rows."""
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
    """Else what another step writes would be hidden in it."""
    rows = many(1).measurements * 9000  # one table, and a longer one of ids

    found = text(made(measurements=rows)).splitlines()
    assert found[-4:-1] == ["", "</details>", ""]
    assert found.count("<details><summary>Every row</summary>") == 1


def test_what_fits_is_whole():
    """No line says otherwise."""
    assert "left out" not in text(many(100))
    assert len(tables(many(100))[-1]) == 101


def test_as_many_errors_as_on_a_terminal():
    """A map of 100,000 wrong entries must not push the table out."""
    errors = tuple(problem("map", f"wrong {n}", 2) for n in range(SHOWN + 5))

    found = text(made("error", 2, errors=errors)).splitlines()
    assert sum(line.startswith("- **error**") for line in found) == SHOWN
    assert "- and 5 more; `--format json` lists them all" in found


def test_a_warning_says_so():
    """With its hint."""
    notes = (Diagnostic("silicon", "a and b share", hint="--distinct", severity="warning"),)

    assert "- **warning**: `a and b share` (hint: `--distinct`)" in text(made(notes=notes))

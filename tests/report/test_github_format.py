"""What GitHub shows: the log of a step, which text commands nothing in, and Markdown."""

import made_reports
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_reports import made, problem
from markdown_it import MarkdownIt
from runner import commands

from gpumap.errors import Diagnostic, Exit
from gpumap.escape import printable
from gpumap.judge.exit_status import STATUS
from gpumap.model import replace
from gpumap.report import Style
from gpumap.report.diagnostics import SHOWN
from gpumap.report.markdown import code
from gpumap.results.shown import render


def log(report):
    return render("github", report, Style())


def annotations(report):
    """Return each annotation but the headline: its level, its title, its message."""
    every = [(c.name, c.properties["title"], c.data) for c in commands(log(report))]
    return [found for found in every if not found[1].endswith(": headline")]


def test_the_whole_text():
    shared = Diagnostic("hardware", "a,b:c", hint="look", severity="warning")
    told = problem("limit", "100% of it, not: met", 1, "request less", entry=1)
    report = made("no", 1, errors=(told,), notes=(shared,))
    assert log(report) == render("plain", report, Style()) + (
        "::notice title=gpumap bench%3A headline::Simulated: Not measured: 100%25 of it, not: met. "
        "Request less.\n"
        "::error title=gpumap bench%3A limit::entry 1: 100%25 of it, not: met%0Afix: request less\n"
        "::warning title=gpumap bench%3A hardware::a,b:c%0Ahint: look\n"
    )


@pytest.mark.parametrize("exit_", [each for each in Exit if each != 0])
def test_a_failed_run_has_an_error(exit_):
    report = made(STATUS.get(exit_, "ok"), exit_, notes=())
    assert annotations(report) == [
        ("error", f"gpumap bench: {report.status}", f"exit code {int(exit_)}")
    ]
    noted = replace(report, errors=(problem("a", "b", 0, severity="note"),))
    assert annotations(report)[0] in annotations(noted)


def test_what_was_let_pass_is_no_error():
    errors = (
        problem("inconclusive", "it is not known", 0, severity="warning"),
        problem("absent", "not there", 0, severity="note"),
    )
    assert [level for level, _, _ in annotations(made(errors=errors, notes=()))] == [
        "warning", "notice",
    ]  # fmt: skip
    assert annotations(made("skipped", notes=())) == [
        ("notice", "gpumap bench: skipped", "nothing was measured")
    ]
    assert annotations(replace(made_reports.passed(), notes=())) == []  # the exit code says it


@given(rest=st.text(st.sampled_from(":# \u034f\ufe0fa[]error"), max_size=12))
def test_no_line_of_text_is_a_command(rest):
    """A line of the report may begin with what a user wrote."""
    notes = made(kind="devices", notes=(), bindings=())
    (probe,) = notes.backends
    for start in ("", "::error::", "##[error]"):
        report = replace(notes, backends=(replace(probe, name=rest + start, notes=(rest,)),))
        assert annotations(report) == []


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

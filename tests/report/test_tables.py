"""Tables of rows: where backends differ, what is told apart, and how things are counted."""

import pytest
from cases import driven
from made_reports import bindings, case, copies, listed, made, passed, skipped

from gpumap import model
from gpumap.judge import answers
from gpumap.model import replace
from gpumap.report import Style
from gpumap.results.rows import tables
from gpumap.results.shown import render


@pytest.mark.parametrize(
    ("backends", "shown"), [(("cupy", "pygpu"), ("a (cupy)", "a (pygpu)")), (("cupy",), ("a",))]
)
def test_rows_of_several_backends_are_told_apart(backends, shown):
    report = copies()
    (fit,), (copy, *calls) = report.fits, report.measurements
    calls[3] = replace(calls[3], status="skipped", reason=model.Reason("budget", "late"))
    fits, rows = (
        [replace(each, case=driven(each.case, backend)) for backend in backends for each in found]
        for found in ([fit], calls[:4])
    )
    report = replace(report, fits=tuple(fits), measurements=(copy, *rows))
    (table,) = (t for t in tables(report, verbose=True) if t.title.startswith("break-even:"))
    assert tuple(row[table.columns.index("on")] for row in table.rows) == shown
    text = render("plain", report, Style(verbose=True))
    assert text.count("looked no further for lack of time") == 1


def test_one_case_in_one_group():
    one = case("one", bindings()[:1])
    plan = model.Plan((model.Group((one,)),), {"cuda:0": 1, "host": 2})
    said = render("plain", made(measurements=(skipped(one),), plans=(plan,)), Style())
    assert "plan: 1 case in 1 group, nothing measured" in said
    assert "memory: 1 B on cuda0\nmemory: 2 B on host\n" in said


def test_what_is_pasted_is_never_broken():
    report = listed()
    line = answers.check_line(report)
    assert len(line) > 20
    assert line in render("rich", report, Style(20)).splitlines()


def test_a_terminal_breaks_an_answer_between_words_and_a_pipe_does_not():
    report = passed()
    words = " ".join(["word"] * 30)
    report = replace(report, headline=replace(report.headline, text=words))
    assert render("plain", report, Style()).splitlines()[0] == words
    lines = render("rich", report, Style(40)).splitlines()
    first = [line for line in lines if line.startswith("word")]
    assert " ".join(first) == words
    assert max(map(len, first)) <= 40

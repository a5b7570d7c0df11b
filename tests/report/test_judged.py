"""Verdicts as tables: on limits, on changes, and what is said where nothing was measured."""

import pytest
from made_reports import SETTINGS, bindings, case, made, ok, problem, verdict

from gpumap.model import Acceptance
from gpumap.report.judged import tables
from gpumap.report.plain import skipped

MANY = case("many", bindings())
LIMIT = "dot.many.speedup>=1.8"


def rows(report):
    return {table.title: table.rows for table in tables(report)}


def test_a_limit_has_its_row_its_figure_and_its_word():
    found = made(
        verdicts=(verdict("fail"), verdict("missing", id_=None, value=None, low=None, high=None)),
        measurements=(ok(MANY, speedup=1.5),),
    )
    entry = Acceptance("2026-11-21", "a new BLAS", {"regression": 2, "pass": 1}, "a", "b")
    ((line,),) = rows(made(accepted=(entry,), measurements=(ok(MANY),))).values()
    assert line == ("2026-11-21", "a new BLAS", "2 regressions, 1 pass")
    assert rows(found) == {
        "limits": (
            (LIMIT, "dot.many a+b", "1.50 [1.40, 1.60]", "fail"), (LIMIT, "-", "-", "missing"),
        ),
    }  # fmt: skip


def test_changes_are_summed_up_and_the_worst_comes_first():
    """One line counts each word, in the order of the table; a reason stands once, counted."""
    words = ("pass", "regression", "improvement", "pass", "regression")
    (table,) = tables(made(verdicts=tuple(verdict(word, "base") for word in words)))
    found = verdict("regression", "base", threshold=0.05, reason="work-slower")
    (explained,) = tables(made(verdicts=(found, found)))
    order = ["regression"] * 2 + ["improvement"] + ["pass"] * 2
    assert [row[-1] for row in table.rows] == order
    assert table.remarks == ("2 regressions, 1 improvement, 2 pass",)
    assert explained.remarks[1].startswith("2 regressions: slower relative to its control")


@pytest.mark.parametrize(("word", "setting", "remarks"), [
    ("inconclusive", "pass", ("what is inconclusive was let pass: --inconclusive=pass",)),
    ("inconclusive", "fail", ()), ("fail", "pass", ()),
])  # fmt: skip
def test_what_was_let_pass_is_said(word, setting, remarks):
    found = made(verdicts=(verdict(word),), settings={**SETTINGS, "inconclusive": setting})
    assert [remarks] == [table.remarks for table in tables(found)]


def test_a_skipped_run_says_what_is_not_there():
    gone = [problem("absent", f"\x1b[31m{n}: not there", 0) for n in range(102)]
    lines = [part.text for part in skipped(made("skipped", errors=tuple(gone)))]
    assert lines[0] == "skipped: \\x1b[31m0: not there"
    assert lines[100:] == ["... and 2 more; --format json lists them all"]
    assert [part.text for part in skipped(made("absent", 3, errors=tuple(gone)))] == []


def test_rows_are_called_by_what_tells_them_apart():
    """Case and names, then the keys that differ; the id with -v, or where that is not enough."""
    sizes = [MANY.id.replace("size=64", f"size={n}") for n in (64, 128)]
    long = [MANY.id.replace("a+b", f"{'x' * 20}{n}{'x' * 20}") for n in (1, 2)]
    both = [
        MANY.id.replace("a+b", "+".join([f"{'x' * 20}{n}" for n in range(count)]))
        for count in (1, 2, 9)
    ]
    cut = [f"{'x' * 7}…{'x' * 6}{n}" for n in (0, 1)]
    for ids, called in (
        ([MANY.id], ["dot.many a+b"]),
        (sizes, ["dot.many a+b size=64", "dot.many a+b size=128"]),
        (long, long),
        ([*long, MANY.id], [*long, "dot.many a+b"]),
        (both, [f"dot.many {name}" for name in (cut[0], "+".join(cut), "9 devices")]),
    ):
        found = made(verdicts=tuple(verdict("pass", "base", id_=id_) for id_ in ids))
        assert [row[0] for (table,) in [tables(found)] for row in table.rows] == called
        assert [row[0] for (table,) in [tables(found, verbose=True)] for row in table.rows] == ids

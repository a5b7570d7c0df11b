"""What passed, failed, broke or was skipped: closed at every end; and verdicts as tables."""

import made_reports
import pytest
from made_reports import bindings, case, made, ok, problem, skipped, verdict, wrong
from tables import table

from gpumap.errors import Exit
from gpumap.judge.exit_status import STATUS
from gpumap.model import replace
from gpumap.results import outcomes
from gpumap.results.verdicts import judged as tables


@pytest.mark.parametrize(("report", "state"), [
    *((made(STATUS.get(code, "ok"), code, measurements=(ok(case()),)),
       "error" if code in (Exit.WRONG_DATA, Exit.INTERNAL) else "failed")
      for code in Exit if code != 0),
    (made(), "passed"),  # `check`: its exit code is all there is
    (made_reports.passed(), "passed"), (made_reports.dry_run(), "skipped"),
    (made_reports.absent_skipped(), "skipped"), (made("skipped"), "skipped"),
    (made("inconclusive", measurements=(ok(case()),)), "skipped"),  # no verdict was asked for
    (made(measurements=(skipped(case()),)), "skipped"), (made("a word of tomorrow"), "failed"),
])  # fmt: skip
def test_a_run_is_green_only_with_exit_code_0_and_something_measured(report, state):
    """Whatever the rows say; wrong data and gpumap's own errors are errors, the others failures."""
    found = outcomes.of_run(report)
    assert found.state == state
    assert report.exit_code == 0 or str(int(report.exit_code)) in found.text


def test_what_failed_is_no_skip_and_what_was_let_pass_is_one():
    """A row that failed has a reason, as a skipped one has."""
    lost = replace(skipped(case(), "device-lost", "gone"), status="failed")
    rows = (lost, skipped(case()), wrong(case()))
    assert [outcomes.of_row(row).state for row in rows] == ["failed", "skipped", "error"]
    found = [outcomes.of_problem(problem("x", "said", code)).state for code in (0, 1, 4)]
    assert found == ["skipped", "failed", "error"]


def judged(found, code=0):
    return outcomes.of_verdict(found, made(exit_code=code))


@pytest.mark.parametrize(("words", "codes", "state"), table(__file__)["states"])
def test_a_good_verdict_passes_in_any_run_and_any_other_fails_with_its_run(words, codes, state):
    for word in words.split():
        found = [judged(verdict(word), code) for code in codes]
        assert {(each.state, each.word) for each in found} == {(state, word)}


MANY = case("many", bindings())


def rows(report):
    return {table.title: table.rows for table in tables(report)}


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

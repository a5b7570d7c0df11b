"""What passed, failed, broke or was skipped: closed at every end."""

import made_reports
import pytest
from made_reports import bindings, case, made, ok, problem, skipped, verdict, wrong

from gpumap.errors import Exit
from gpumap.judge.exit_status import STATUS
from gpumap.model import Measurement, Reason, RoundTrip
from gpumap.report import outcomes


@pytest.mark.parametrize("code", [code for code in Exit if code != 0])
def test_a_run_is_green_only_with_exit_code_0(code):
    """Whatever the rows say; wrong data and gpumap's own errors are errors, the others failures."""
    found = outcomes.of_run(made(STATUS.get(code, "ok"), code, measurements=(ok(case()),)))
    broken = code in (Exit.WRONG_DATA, Exit.INTERNAL)
    assert found.state == ("error" if broken else "failed")
    assert str(int(code)) in found.text


@pytest.mark.parametrize(("report", "state"), [
    (made(), "passed"),  # `check`: its exit code is all there is
    (made_reports.passed(), "passed"), (made_reports.dry_run(), "skipped"),
    (made_reports.absent_skipped(), "skipped"), (made("skipped"), "skipped"),
    (made("inconclusive", measurements=(ok(case()),)), "skipped"),  # no verdict was asked for
    (made(measurements=(skipped(case()),)), "skipped"), (made("a word of tomorrow"), "failed"),
])  # fmt: skip
def test_a_run_of_exit_code_0_that_measured_nothing_has_not_passed(report, state):
    assert outcomes.of_run(report).state == state


@pytest.mark.parametrize(("row", "state", "code"), [
    (ok(case()), "passed", "ok"), (skipped(case(), "unsupported"), "skipped", "unsupported"),
    (wrong(case()), "error", "wrong-data"),
    (Measurement(case(), "ok", check=wrong(case()).check), "error", "ok"),
    (Measurement(case(), "failed", Reason("over-ceiling", "")), "error", "over-ceiling"),
    (Measurement(case(), "failed", Reason("device-lost", "")), "failed", "device-lost"),
    (Measurement(case(), "failed"), "failed", "failed"),
])  # fmt: skip
def test_a_row_passes_if_it_was_measured_and_verified(row, state, code):
    found = outcomes.of_row(row)
    assert (found.state, found.word) == (state, code)


def judged(found, code=0, **parts):
    (outcome,) = outcomes.of_verdicts(made(exit_code=code, verdicts=(found,), **parts))
    return outcome


def test_a_good_verdict_passes_in_any_run_and_any_other_fails_with_its_run():
    """Others may have failed; where the run has exit code 0 it was let pass, which is no pass."""
    for word in ("pass", "improvement"):
        assert {(judged(verdict(word), code).state, judged(verdict(word), code).word)
                for code in (0, 1, 5)} == {("passed", word)}  # fmt: skip
    for word in ("fail", "regression", "missing", "new", "inconclusive", "else"):
        assert [judged(verdict(word), code).state for code in (1, 0)] == ["failed", "skipped"]


@pytest.mark.parametrize(("found", "errors", "state"), [
    (verdict("inconclusive"), [("inconclusive", 0)], "skipped"),
    (verdict("missing"), [("missing", 0), ("limit", 1)], "skipped"),
    (verdict("missing"), [("missing", 0), ("missing", 1)], "failed"),  # a row, and a limit's
    (verdict("fail"), [("inconclusive", 0)], "failed"),
    (verdict("inconclusive"), [("inconclusive", 5)], "failed"),
    (verdict("inconclusive"), [], "failed"), (verdict("skipped"), [], "skipped"),
])  # fmt: skip
def test_what_was_let_pass_is_skipped_in_a_failed_run_too(found, errors, state):
    wrong = tuple(problem(code, "said", exit_) for code, exit_ in errors)
    assert judged(found, 1, errors=wrong).state == state


@pytest.mark.parametrize(("code", "state"), [
    (0, "skipped"), (1, "failed"), (3, "failed"), (124, "failed"), (4, "error"), (70, "error"),
])  # fmt: skip
def test_an_error_is_what_its_exit_code_says(code, state):
    found = outcomes.of_problem(problem("a-code", "a message", code, entry=2))
    assert found == outcomes.Outcome(state, "a-code", "entry 2: a message")


@pytest.mark.parametrize(("reason", "state"), [
    (None, "passed"), (Reason("wrong-data", ""), "error"), (Reason("device-lost", ""), "failed"),
])  # fmt: skip
def test_a_round_trip_passes_if_the_bytes_came_back(reason, state):
    device = bindings()[0].device
    assert outcomes.of_trip(RoundTrip(device, "a", reason)).state == state

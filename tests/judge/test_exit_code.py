"""Many outcomes end in one exit code: of several, what a script must hear about first."""

from itertools import combinations

from gpumap.errors import Exit
from gpumap.judge.exit_status import STATUS, exit_code, status
from gpumap.model import BreakEven, Case, Work

ORDER = (70, 2, 4, 130, 124, 3, 1, 5, 0)


def test_of_two_outcomes_the_one_that_comes_first_is_the_exit_code():
    """In whatever order, and however often, they came; that of a closed pipe no report tells."""
    for first, second in combinations(ORDER, 2):
        assert exit_code([second, first, second]) == exit_code([first, second]) == first
    assert exit_code([]) == Exit.OK
    assert set(ORDER) == set(Exit) - {Exit.CLOSED_PIPE} == set(STATUS)
    assert [status(Exit(code), ()) for code in ORDER] == [
        "internal", "error", "wrong-data", "interrupted", "timeout", "absent", "no",
        "inconclusive", "ok",
    ]  # fmt: skip


def test_a_break_even_without_an_answer_leaves_a_run_inconclusive():
    """Whatever the rows say, and only where nothing worse has happened."""
    open_ = BreakEven(Case("transfer", "affine", {}, (), Work()), "x", "host", (), 0, "budget", {})
    assert [status(code, (), (open_,)) for code in (Exit.OK, Exit.NO)] == ["inconclusive", "no"]

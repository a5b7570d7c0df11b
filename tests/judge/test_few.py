"""Rows of too few samples, and what rests on them: nothing is concluded from either."""

import pytest
from reports import noisy, row

from gpumap.judge.ceilings import founded, unanswered, undecided
from gpumap.model import BreakEven, Estimate, Reason, replace

ONE = row("one", noisy(0.02))
MANY = row("many", noisy(0.01), names=("a0", "b1"), against=ONE.case.id)
OTHER = row("one+fetch", noisy(0.02))


def thin(found):
    ((name, time),) = found.metrics.items()
    return replace(found, metrics={name: Estimate.without_interval(time.value, "s")})


def test_what_is_compared_with_a_row_of_too_few_samples_has_too_few():
    """Without the time of each device alone there is no ideal either; other rows stay."""
    assert founded([ONE, MANY, OTHER]) == [ONE, MANY, OTHER]
    assert founded([thin(ONE), MANY, OTHER]) == [OTHER]
    assert founded([ONE, thin(MANY), OTHER]) == [ONE, OTHER]
    assert founded([thin(row("solo", noisy(0.01))), ONE, MANY]) == []


@pytest.mark.parametrize(("found", "counts"), [
    (ONE, False), (thin(ONE), True),
    (replace(ONE, status="skipped", metrics={}, reason=Reason("budget", "")), True),
    (replace(ONE, status="skipped", metrics={}, reason=Reason("absent", "")), False),
    (replace(ONE, metrics={**ONE.metrics, "speedup": Estimate.refused("1")}), True),
    (thin(row("h2d", noisy(0.1), bench="transfer", metric="issue_interval")), True),
    (thin(row("product", noisy(0.1), bench="control")), False),
    (thin(row("h2d", noisy(0.1), bench="transfer", pattern="ladder")), False),
])  # fmt: skip
def test_a_requested_row_without_a_sure_figure_leaves_a_run_inconclusive(found, counts):
    assert undecided([found]) == [found] * counts


@pytest.mark.parametrize(("why", "figures", "reason", "open_"), [
    ("budget", {}, None, True), ("largest", {}, None, False),
    ("budget", {"break_even": Estimate.without_interval(64.0, "B")}, None, False),
    ("budget", {}, Reason("wrong-data", ""), False),
])  # fmt: skip
def test_a_break_even_is_unanswered_where_its_time_was_over_before_any_size(
    why, figures, reason, open_
):
    found = BreakEven(ONE.case, "affine", "host", (), 0, why, figures, reason=reason)
    assert unanswered(found) is open_

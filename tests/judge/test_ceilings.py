"""A figure is held against what physics allows: the share is told, and above it is an error."""

from __future__ import annotations

import pytest

from gpumap.judge.ceilings import SLACK, held
from gpumap.model import Case, Ceiling, Estimate, Limit, Measurement, Work

CASE = Case("dot", "solo", {"size": 64}, (), Work())
LIMIT = Limit("rate", 100.0, "FLOP/s", "measured: a probe")


def row(value, low=None):
    """Return a row of that rate."""
    rate = Estimate(value, value if low is None else low, value, "FLOP/s")
    return Measurement(CASE, "ok", flags=("unstable",), metrics={"rate": rate})


@pytest.mark.parametrize("value", [1.0, 50.0, 100.0, 100.0 * SLACK])
def test_below_its_ceiling_a_row_tells_its_share(value):
    """And stays as it is; a probe is trusted up to its own noise."""
    found = held(row(value), LIMIT)

    assert found.status == "ok"
    assert found.metrics["rate"].value == value
    assert found.ceiling == Ceiling("rate", 100.0, "FLOP/s", value / 100.0, "measured: a probe")


def test_above_its_ceiling_a_row_is_an_error_without_figures():
    """It says what was found, what is possible, and how that is known."""
    found = held(row(200.0), LIMIT)

    assert (found.status, found.metrics) == ("failed", {})
    assert found.flags == ("unstable", "over-ceiling")
    assert found.reason.code == "over-ceiling"
    assert found.reason.text == (
        "rate 200 FLOP/s is above what is possible, 100 (measured: a probe)"
    )
    assert found.ceiling.share == 2.0


def test_an_interval_that_reaches_down_to_the_ceiling_is_no_error():
    """A few odd samples are noise, not a device faster than physics."""
    assert held(row(200.0, low=90.0), LIMIT).status == "ok"


@pytest.mark.parametrize("limit", [None, Limit("bandwidth", 1.0, "B/s", "x"),
                                   Limit("rate", 0.0, "FLOP/s", "x")])  # fmt: skip
def test_without_a_ceiling_nothing_is_said(limit):
    """Not known, of another figure, or nothing."""
    assert held(row(5.0), limit) == row(5.0)

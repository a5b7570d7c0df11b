"""Intervals hold the truth as often as they say; docs/method.md has the whole table."""

from __future__ import annotations

import math

import pytest

from benchmarks import coverage
from benchmarks.coverage import RATIO, SCENARIOS, TIME, Line, drawn, measured
from gpumap import stats

RUNS = 400
SEED = 1000  # the first run's number: other runs than those of the table
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
BUDGET = 160


@pytest.fixture(autouse=True)
def short_runs(monkeypatch):
    """End at the budget that is looked at: what comes after it costs time, and changes nothing."""
    monkeypatch.setattr(coverage, "BUDGETS", (40, BUDGET, BUDGET))


def line(name, figure):
    """Return what the runs of a noise came to."""
    scenario = BY_NAME[name]
    runs = (drawn(scenario, figure, SEED + number)[-1] for number in range(RUNS))
    return Line(scenario, figure, BUDGET, tuple(runs))


@pytest.mark.parametrize("name", [s.name for s in SCENARIOS if s.held])
@pytest.mark.parametrize("figure", [TIME, RATIO])
def test_the_interval_holds_the_truth(name, figure):
    """As often as the table must show, and without a bias."""
    found = line(name, figure)

    assert not found.short
    assert figure == TIME or abs(found.bias) < 0.005


@pytest.mark.parametrize(
    ("name", "figure", "broken", "value"),
    [
        ("AR 0.9", RATIO, "inflation", lambda _: 1.0),
        ("AR 0.5", RATIO, "inflation", lambda _: 1.0),
        ("AR 0.9", TIME, "lag1", lambda _: 0.0),
        ("AR 0.5", TIME, "lag1", lambda _: 0.0),
        ("spikes, AR 0.5", TIME, "_ranks", list),
    ],
)
def test_a_broken_widening_would_be_seen(monkeypatch, name, figure, broken, value):
    """Without it, or with the lag of the values instead of their ranks, the bounds fail."""
    monkeypatch.setattr(stats, broken, value)

    assert line(name, figure).share("held") < 0.9


def test_what_does_not_converge_says_so():
    """At 160 blocks of noise that remembers 20 of them, no precision of 1 % can be had."""
    assert line("AR 0.9", TIME).share("either") >= 0.97


def test_two_modes_are_flagged():
    """A median between two heaps is no figure."""
    assert line("modes 1, 1.3", TIME).share("flagged") >= 0.99


def test_a_drift_does_not_move_a_ratio():
    """Blocks hold both cases, and go there and back."""
    assert abs(line("drift 5 %", RATIO).bias) < 0.001


def test_the_runner_ends_as_the_statistics_alone():
    """As many runs converge, after as many blocks: the fast way stands for the whole one."""
    scenario, runs = BY_NAME["independent"], 40
    fast = [drawn(scenario, TIME, number)[-1] for number in range(runs)]
    whole = [measured(scenario, TIME, BUDGET, number) for number in range(runs)]

    assert all(one.stopped for one in (*fast, *whole))
    assert sum(one.held for one in whole) >= 0.85 * runs
    blocks = [math.fsum(one.n for one in each) / runs for each in (fast, whole)]
    assert blocks[1] == pytest.approx(blocks[0], rel=0.25)

"""What noise does to verdicts: runs of A against A, their false alarms, and the noise floor."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap.judge.noise import FEWEST, RUNS, SHORTEST, THRESHOLDS, alarms, floor, noise, split
from gpumap.judge.verdict import judge
from gpumap.model import Alarms


def quiet(blocks, deviation, seed=1, shift=0.0):
    """Return ratios with a normal noise, off one by `shift`."""
    rng = random.Random(seed)  # noqa: S311 - noise, not a secret
    return [math.exp(shift + rng.gauss(0.0, deviation)) for _ in range(blocks)]


@given(st.integers(0, 2000))
def test_runs_are_consecutive_equal_and_long_enough(blocks):
    """They begin with the first block, and what is left at the end is less than a run."""
    found = split([float(n) for n in range(blocks)])

    lengths = {len(run) for run in found}
    joined = [ratio for run in found for ratio in run]
    assert len(found) <= RUNS
    assert len(lengths) <= 1
    assert min(lengths, default=SHORTEST) >= SHORTEST
    assert joined == [float(n) for n in range(len(joined))]
    assert blocks - len(joined) < max(min(lengths, default=SHORTEST), RUNS)


@pytest.mark.parametrize(("blocks", "runs", "length"), [
    (0, 0, 0), (19, 0, 0), (20, 1, 20), (239, 11, 20), (240, 12, 20), (1223, 12, 101),
])  # fmt: skip
def test_how_many_runs_there_are(blocks, runs, length):
    """Twelve, or as many of the shortest as there are."""
    found = noise([1.0] * blocks, id_="b", device="cpu:0", name="a")

    assert (runs, length) == (found.runs, found.run_blocks)


def test_runs_without_noise_are_all_the_same():
    """And the smallest change can be told."""
    found = noise([1.0] * 240, id_="b", device="cpu:0", name="a")

    assert found.floor == 0.0
    assert found.alarms == tuple(Alarms(t, same=12) for t in THRESHOLDS)
    assert [0] * len(THRESHOLDS) == [counts.false for counts in found.alarms]


def test_every_run_is_called_something():
    """Two that are off, up and down, and one that nobody can tell."""
    runs = [quiet(40, 0.001, shift=x) for x in (0.04, -0.04, 0.0)] + [quiet(40, 0.3)]

    assert Alarms(0.02, 1, 1, 1, 1) == alarms(runs, 0.02)


@pytest.mark.parametrize("deviation", [0.003, 0.02, 0.1])
def test_the_floor_is_where_runs_become_the_same(deviation):
    """At it all but one in twenty are; just below it, fewer."""
    runs = split(quiet(2400, deviation), 100)
    found = floor(runs)

    same = [sum(judge(run, found * x) == "same" for run in runs) for x in (1 + 1e-9, 1 - 1e-9)]
    assert len(runs) == 100
    assert same == [95, 94]


def test_more_noise_has_a_higher_floor():
    """Of the same shape: the logarithm grows as the noise does."""
    floors = [floor(split(quiet(240, deviation))) for deviation in (0.01, 0.02)]

    assert math.log1p(floors[1]) == pytest.approx(2 * math.log1p(floors[0]))


@pytest.mark.parametrize(
    "runs",
    [[], [[1.0] * 20] * (FEWEST - 1), [[1.0] * 20] * 6 + [[math.nan] * 20], [[1.0] * 5] * 12],
    ids=["none", "too few runs", "a run without an interval", "runs too short"],
)
def test_no_floor_is_made_up(runs):
    """Unknown is not zero."""
    assert floor(runs) is None

"""Verdicts: a pass for each metric by its upper end, alarms over all of them (Holm)."""

import math
from statistics import NormalDist

import pytest

from gpumap.engine.stopping import EARLY, LAST, LOOKS
from gpumap.judge.pairs import Change, alarms, passing

UP, DOWN = math.log(1.02), -math.log(1.02)


def fixed(low, high):
    return lambda _level: Change((low + high) / 2, low, high)


def normal(middle, deviation=0.01):
    def at(level):
        half = -deviation * NormalDist().inv_cdf(level)
        return Change(middle, middle - half, middle + half)

    return at


def words(changes, threshold):
    alarmed = alarms(changes, threshold, LAST)
    passed = [passing(each(LAST), threshold) for each in changes]
    return ["regression" if n in alarmed else word for n, word in enumerate(passed)]


@pytest.mark.parametrize(("low", "high", "expected"), [
    (math.nextafter(UP, 1), 0.05, "regression"),
    (UP, 0.05, "inconclusive"),  # it must exceed the threshold
    (-0.05, math.nextafter(UP, 0), "pass"),  # faster is never inconclusive
    (-0.05, UP, "inconclusive"),
    (-0.05, math.nextafter(DOWN, -1), "improvement"),
    (-0.05, DOWN, "pass"), (0.0, 0.0, "pass"), (-0.05, 0.05, "inconclusive"),
    (-math.inf, math.inf, "inconclusive"), (math.nan, 0.0, "inconclusive"),
    (0.0, math.nan, "inconclusive"),
    (0.01, -0.01, "inconclusive"),  # no interval
])  # fmt: skip
def test_an_interval_at_two_percent(low, high, expected):
    assert words([fixed(low, high)], 0.02) == [expected]


@pytest.mark.parametrize("threshold", [math.nan, math.inf, -0.01])
def test_what_is_no_threshold_decides_nothing(threshold):
    assert words([fixed(x, x) for x in (-1.0, 0.0, 1.0)], threshold) == ["inconclusive"] * 3
    assert words([lambda _: None, fixed(0.0, 0.0)], 0.02) == ["inconclusive", "pass"]


def test_alarms_are_corrected_for_their_number():
    """By Holm: each alarm leaves the rest a larger level; all looks share five per cent."""
    one = normal(UP + 0.02)  # two deviations: 2.3 %
    assert alarms([one], 0.02) == {0}
    assert alarms([one, normal(0.0)], 0.02) == set()
    assert alarms([one, normal(0.2)], 0.02) == {0, 1}  # the second takes its share away
    # what is judged elsewhere counts too: all groups together spend the level once
    assert alarms([one], 0.02, others=1) == set()
    assert alarms([one, normal(0.2)], 0.02, others=1) == {1}
    assert alarms([normal(UP + 0.03)], 0.02, others=9) == {0}  # three: 0.1 %
    assert pytest.approx(0.05) == LAST + (LOOKS - 1) * EARLY


def at(middle, below, above):
    return Change(middle, middle - below, middle + above)


def test_the_distances_of_both_runs_are_squared_and_added():
    """Zou & Donner: the lower end takes base's upper one, the upper end its lower one."""
    found = at(3.0, 0.3, 1.2) - at(1.0, 0.3, 0.4)
    assert (found.value, found.low, found.high) == pytest.approx(
        (2.0, 2.0 - math.hypot(0.3, 0.4), 2.0 + math.hypot(1.2, 0.3))
    )

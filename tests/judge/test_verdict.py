"""Verdicts: by interval against a threshold, and never the same by default."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap.judge.verdict import effective, judge, verdict, word
from gpumap.model import Verdict

UP, DOWN = math.log(1.02), -math.log(1.02)
OPPOSITE = {"regression": "improvement", "improvement": "regression"}
ENDS = st.floats(-2.0, 2.0)
INTERVALS = st.tuples(ENDS, ENDS).map(sorted)
THRESHOLDS = st.floats(0.0, 1.0)
UNKNOWN = "the threshold is 2%: no noise floor is stored here; `gpumap selftest` finds one"
# Apart by more than a rounding, or equal: 1 / x may make equals of neighbours.
RATIOS = st.lists(st.floats(0.1, 10.0).map(lambda x: round(x, 9)), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.03, 0.05, "regression"),
        (UP, 0.05, "inconclusive"),  # it must clear the threshold
        (math.nextafter(UP, 1), 0.05, "regression"),
        (-0.05, -0.03, "improvement"),
        (-0.05, DOWN, "inconclusive"),
        (-0.05, math.nextafter(DOWN, -1), "improvement"),
        (DOWN, UP, "same"),
        (0.0, 0.0, "same"),
        (-0.01, 0.015, "same"),
        (DOWN, math.nextafter(UP, 1), "inconclusive"),
        (math.nextafter(DOWN, -1), UP, "inconclusive"),
        (-0.05, 0.05, "inconclusive"),
        (-math.inf, math.inf, "inconclusive"),
        (math.nan, 0.0, "inconclusive"),
        (0.0, math.nan, "inconclusive"),
        (0.01, -0.01, "inconclusive"),  # no interval
    ],
)
def test_an_interval_against_two_percent(low, high, expected):
    """The whole interval must lie where the word says."""
    assert expected == word(low, high, 0.02)


@pytest.mark.parametrize("threshold", [math.nan, math.inf, -0.01])
def test_what_is_no_threshold_decides_nothing(threshold):
    """Neither an alarm nor the same."""
    assert {"inconclusive"} == {word(x, x, threshold) for x in (-1.0, 0.0, 1.0)}


def test_a_threshold_of_nothing():
    """Any change counts; the same is what is exactly the same."""
    assert [word(x, x, 0.0) for x in (-1e-9, 0.0, 1e-9)] == ["improvement", "same", "regression"]


@given(INTERVALS, THRESHOLDS)
def test_who_swaps_base_and_new_swaps_the_words(interval, threshold):
    """A regression one way is an improvement the other way; the rest stays."""
    low, high = interval
    found = word(low, high, threshold)

    assert word(-high, -low, threshold) == OPPOSITE.get(found, found)


@given(INTERVALS, THRESHOLDS, st.floats(0.0, 2.0), st.floats(0.0, 2.0))
def test_a_wider_interval_tells_no_more(interval, threshold, below, above):
    """What was inconclusive stays so; a verdict is lost, and never turned into another."""
    low, high = interval
    narrow, wide = word(low, high, threshold), word(low - below, high + above, threshold)

    assert wide in {narrow, "inconclusive"}


@given(INTERVALS, THRESHOLDS, THRESHOLDS)
def test_a_higher_threshold_raises_no_alarm(interval, one, other):
    """And takes back no "same"."""
    low, high = sorted((one, other))
    at_low, at_high = word(*interval, low), word(*interval, high)

    assert at_high in {at_low, "same", "inconclusive"}
    assert at_low != "same" or at_high == "same"


@pytest.mark.parametrize(
    "ratios",
    [
        [],
        [1.0] * 5,  # too few for an interval
        [1.0] * 39 + [math.nan],
        [math.nan] * 40,
        [1.0] * 39 + [math.inf],
        [1.0] * 39 + [0.0],
        [-1.0] * 40,
        [1.0 + n / 1e6 for n in range(40)],  # each is like the one before: worth less than six
    ],
    ids=["none", "five", "a NaN", "all NaN", "infinite", "zero", "negative", "one long drift"],
)
def test_what_gives_no_interval_is_never_the_same(ratios):
    """It fails closed."""
    found = verdict(ratios, 0.05, rule="base", id_="b", against="a")

    assert (found.verdict, found.value, found.low, found.high) == ("inconclusive", None, None, None)


@pytest.mark.parametrize(
    ("ratio", "threshold", "expected"),
    [
        (1.0, 0.01, "same"),
        (1.05, 0.02, "regression"),
        (1.05, 0.06, "same"),
        (1 / 1.05, 0.02, "improvement"),
        (1.02, 0.02, "same"),  # it counts from the threshold on
    ],
)
def test_ratios_without_noise(ratio, threshold, expected):
    """Six equal blocks are enough."""
    assert expected == judge([ratio] * 6, threshold)


@given(RATIOS, st.sampled_from((0.01, 0.02, 0.05, 0.3)))
def test_ratios_of_base_over_new_give_the_opposite(ratios, threshold):
    """Block by block; up to a rounding just at the threshold."""
    found = judge(ratios, threshold)
    swapped = judge([1 / ratio for ratio in ratios], threshold)
    near = {judge(ratios, threshold * (1 + e)) for e in (-1e-9, 1e-9)}

    assert swapped == OPPOSITE.get(found, found) or len(near) > 1


def test_a_verdict_says_all_of_it():
    """The ratio with its interval, what it is held against, and the change that counts."""
    ratios = [1.04, 1.05, 1.06, 1.05, 1.04, 1.06] * 4

    found = verdict(ratios, 0.02, rule="base", id_="dot.one[]", against="x", base=0.5)

    assert Verdict(
        "base", "dot.one[].time is within 2% of x.time", "dot.one[]", "time", "regression",
        value=pytest.approx(1.05), low=found.low, high=found.high, base=0.5, threshold=0.02,
    ) == found  # fmt: skip
    assert 1.02 < found.low <= found.value <= found.high < 1.07


@pytest.mark.parametrize(
    ("asked", "floor", "counts", "said"),
    [
        (0.02, None, 0.02, UNKNOWN),
        (0.02, 0.0125, 0.02, None),
        (0.02, 0.02, 0.02, None),
        (0.01, 0.0125, 0.0125, "the threshold is 1.25%, this machine's noise floor, not 1%"),
        (0.0, 0.0125, 0.0125, "the threshold is 1.25%, this machine's noise floor, not 0%"),
    ],
)  # fmt: skip
def test_a_threshold_is_never_below_the_noise_floor(asked, floor, counts, said):
    """And where it is raised, or nothing is known, that is said."""
    assert (counts, said) == effective(asked, floor)

"""Intervals of the median: exact ranks, widened by what neighbouring samples share."""

import math
import random
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap.stats import Location, lag1, location, outliers

VALUES = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=60)


def zigzag(n):
    """Return 1..n, low and high in turns: neighbours are unlike, so nothing is widened."""
    return [float(n - i // 2 if i % 2 else 1 + i // 2) for i in range(n)]


def covered(n, k):
    """Return the probability that the median lies between the k-th smallest and k-th largest."""
    return 1 - 2 * sum(math.comb(n, j) for j in range(k)) / 2**n


@pytest.mark.parametrize(
    ("n", "k"),
    [(1, 1), (2, 1), (5, 1), (6, 1), (8, 1), (9, 2), (10, 2), (12, 3), (20, 6), (40, 14), (80, 31)],
)
def test_the_interval_goes_from_rank_to_rank(n, k):
    """The k-th smallest to the k-th largest; under 6 values the whole range."""
    found = location(zigzag(n))

    assert (k, n + 1 - k, 0.0, n) == (found.low, found.high, found.autocorrelation, found.n)


def test_ten_values_cover_979_permille():
    """The second to the ninth of ten: 97.9 %, the best that does not fall below 95 %."""
    assert Location(5.5, 2.0, 9.0, 10, 0.0, 10.0) == location(zigzag(10))
    assert covered(10, 2) == pytest.approx(0.979, abs=5e-4)


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("n", [6, 7, 10, 39, 40, 100, 501, 999])
def test_the_ranks_are_the_exact_binomial_ones(n, confidence):
    """The largest k that still covers the median often enough, or 1 where none does."""
    right = [k for k in range(1, n // 2 + 1) if covered(n, k) >= confidence]

    assert max(right, default=1) == location(zigzag(n), confidence).low


@pytest.mark.parametrize("n", [1000, 4000])
def test_very_many_values_take_the_normal_approximation(n):
    """2^-n is no float any more; the rank is the approximation's, at most one below the exact."""
    k = location(zigzag(n)).low

    assert covered(n, int(k)) >= 0.95 > covered(n, int(k) + 2)


def test_no_values_have_no_location():
    """That is an error of the caller."""
    with pytest.raises(ValueError, match="no values"):
        location([])


# --- autocorrelation


@pytest.mark.parametrize(
    ("values", "lag"),
    [
        ([3.0], 0.0),
        ([0.1] * 40, 0.0),
        ([0.7] * 40, 0.0),
        ([1.0, 2.0] * 10, 0.0),
        ([1.0, 2.0, 3.0, 4.0], 0.25 + (1 + 4 * 0.25) / 4),
        ([1.0] * 100 + [2.0] * 100, 0.99),
    ],
)
def test_the_autocorrelation_is_corrected_and_clipped(values, lag):
    """R + (1 + 4 r) / n, in [0, 0.99]; values that do not vary have none."""
    assert lag == lag1(values)


@pytest.mark.parametrize("value", [n / 7 for n in range(1, 51)])
def test_equal_values_have_no_autocorrelation(value):
    """Though their mean may miss them by a rounding."""
    assert Location(value, value, value, 40, 0.0, 40.0) == location([value] * 40)


def test_the_autocorrelation_widens_the_interval():
    """By sqrt((1 + r) / (1 - r)) on each side; n counts for that much less, squared."""
    values = [1.0, 2.0, 3.0, 4.0, 8.0, 7.0, 6.0, 5.0, 1.0, 2.0]
    r = lag1(values)
    factor = math.sqrt((1 + r) / (1 - r))

    found = location(values)

    assert 0 < r < 0.99
    expected = Location(3.5, 3.5 - 2.5 * factor, 3.5 + 3.5 * factor, 10, r, 10 / factor**2)
    assert expected == found


def test_positive_values_are_widened_by_factors():
    """A time that drifts much keeps a lower bound above zero."""
    values = [1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 8.0, 8.0]
    r = lag1(values)
    factor = math.sqrt((1 + r) / (1 - r))

    plain, found = location(values), location(values, positive=True)

    assert plain.low < 0
    assert Location(3.0, 3 * (1 / 3) ** factor, 3 * (8 / 3) ** factor, 8, r, 8 / factor**2) == found


def test_a_zero_among_positive_values_is_widened_as_before():
    """Zero has no logarithm."""
    values = [0.0, 1.0, 2.0, 3.0]

    assert location(values) == location(values, positive=True)


# --- outliers


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1.0, 2.0, 3.0, 4.0, 5.0], []),
        ([1.0, 1.0, 1.0, 1.0, 9.0], []),
        ([1.0, 2.0, 3.0, 4.0, 100.0], [(4, 97 / 1.4826)]),
        ([100.0, 2.0, 3.0, 4.0, -100.0], [(0, 97 / 1.4826), (4, 103 / 1.4826)]),
        ([0.0, 1.0, 2.0, 3.0, 2.0 + 14.82, 1.0, 3.0], []),
    ],
)
def test_outliers_are_ten_robust_deviations_away(values, found):
    """Place and distance; where more than half the values are equal, nothing can be said."""
    assert found == [(place, pytest.approx(distance)) for place, distance in outliers(values)]


# --- properties


@given(VALUES, st.booleans())
def test_the_median_lies_in_its_interval(values, positive):
    """Whatever the values, and however much they are widened."""
    found = location(values, positive=positive)

    assert found.low <= found.value <= found.high
    assert 0 < found.effective_n <= found.n == len(values)


@given(VALUES)
def test_times_stay_above_zero(values):
    """The interval of a time holds no time that cannot be, and holds the plain ranks."""
    found = location(values, positive=True)

    assert found.low >= 0


@given(VALUES, st.randoms(use_true_random=False))
def test_the_median_does_not_depend_on_the_order(values, rng):
    """Only its interval does."""
    mixed = rng.sample(values, len(values))

    assert location(values).value == location(mixed).value


@given(VALUES, st.integers(-20, 20))
def test_another_unit_changes_nothing_else(values, exponent):
    """Values times a power of two give the same figures times that power, exactly."""
    factor = 2.0**exponent
    plain, scaled = location(values), location([v * factor for v in values])

    expected = (plain.value * factor, plain.low * factor, plain.high * factor)
    assert expected == (scaled.value, scaled.low, scaled.high)
    assert (plain.autocorrelation, plain.n) == (scaled.autocorrelation, scaled.n)


@pytest.mark.parametrize("noise", ["normal", "skewed"])
def test_the_interval_holds_the_median_as_often_as_it_says(noise):
    """1,000 runs of 40 independent values: 95 % nominal, 93 to 98 % seen."""
    rng = random.Random(5)  # noqa: S311 - noise, not a secret
    draw = {
        "normal": lambda: rng.gauss(1.0, 0.02),
        "skewed": lambda: 1 + rng.expovariate(50),
    }[noise]
    true = {"normal": NormalDist(1.0, 0.02).median, "skewed": 1 + math.log(2) / 50}[noise]

    runs = [location([draw() for _ in range(40)], positive=True) for _ in range(1000)]

    assert 930 <= sum(run.low <= true <= run.high for run in runs) <= 980

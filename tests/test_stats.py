"""Intervals of the median: exact ranks, widened by what neighbouring samples share."""

import math
import random
from statistics import NormalDist, fmean, stdev

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpumap.engine import stats
from gpumap.engine.stats import bimodal, correlated, enough, inflation, lag1, location, mean

VALUES = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=100)


def zigzag(n):
    """Return 1..n, low and high in turns: neighbours are unlike, so nothing is widened."""
    return [float(n - i // 2 if i % 2 else 1 + i // 2) for i in range(n)]


def covered(n, k):
    return 1 - 2 * sum(math.comb(n, j) for j in range(k)) / 2**n


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("n", [6, 7, 8, 9, 10, 20, 39, 40, 80, 100, 301])
def test_the_interval_goes_from_rank_to_rank(n, confidence):
    """The largest k that still covers the median often enough; where none does, no interval."""
    k = max((k for k in range(1, n // 2 + 1) if covered(n, k) >= confidence), default=-math.inf)
    found = location(zigzag(n), confidence)
    assert (found.low, found.high, found.autocorrelation, found.n) == (k, n + 1 - k, 0.0, n)


@pytest.mark.parametrize("n", range(1, 6))
@pytest.mark.parametrize("positive", [False, True])
def test_under_six_values_have_no_interval(n, positive):
    """Their range would hold the median too seldom; a mean has none either."""
    found = location(zigzag(n), positive=positive)
    assert (found.low, found.value, found.high) == (-math.inf, (n + 1) / 2, math.inf)
    assert mean(zigzag(n)) == ((n + 1) / 2, -math.inf, math.inf)


def test_a_rank_that_has_exactly_the_confidence_is_enough():
    """Of seven values 2 to 6 hold the median 7 times in 8; six are on one side of it once in 32."""
    assert (enough(6, 1 - 2**-5), enough(5, 1 - 2**-5)) == (True, False)
    assert covered(7, 2) == 0.875
    assert location(zigzag(7), 0.875).low == 2.0
    assert stats.Location(5.5, 2.0, 9.0, 10, 0.0, 10.0, 10.0) == location(zigzag(10))


@pytest.mark.parametrize("n", [1000, 4000])
def test_very_many_values_take_the_normal_approximation(n):
    """2^-n is no float any more; the rank is the approximation's, at most one below the exact."""
    k = location(zigzag(n)).low
    assert covered(n, int(k)) >= 0.95 > covered(n, int(k) + 2)
    with pytest.raises(ValueError, match="no values"):
        location([])


@pytest.mark.parametrize(("values", "lag"), [
    ([3.0], 0.0), ([0.1] * 40, 0.0), ([0.7] * 40, 0.0), ([1.0, 2.0] * 10, 0.0),
    ([1.0, 2.0, 3.0, 4.0], 0.25 + (1 + 4 * 0.25) / 4), ([1.0] * 100 + [2.0] * 100, 0.99),
])  # fmt: skip
def test_the_autocorrelation_is_corrected_and_clipped(values, lag):
    """R + (1 + 4 r) / n, in [0, 0.99]; values that do not vary have none."""
    assert lag == lag1(values)


def widening(values):
    """Return the factor of an interval's width, and what so many values are worth.

    That is sqrt((1 + r) / (1 - r)), and Student's quantile of the fewer values over that of all.
    """
    n, r = len(values), lag1(values)
    worth = n * (1 - r) / (1 + r)
    return math.sqrt(n / worth) * student(worth - 1) / student(n - 1), worth


def student(freedom):
    return stats._student(freedom, 0.95)


def test_the_autocorrelation_widens_the_interval():
    """On each side; and fewer values know their own width less well."""
    values = [1.0, 2.0, 3.0, 4.0, 8.0, 7.0, 6.0, 5.0, 1.0, 2.0]
    factor, worth = widening(values)
    found = location(values)
    assert 0 < found.autocorrelation == lag1(values) < 0.99
    low, high = max(3.5 - 2.5 * factor, 1.0 - 7.0), min(3.5 + 3.5 * factor, 8.0 + 7.0)
    assert (found.value, found.low, found.high) == pytest.approx((3.5, low, high))
    assert (found.n, found.effective_n) == (10, pytest.approx(worth))


def test_an_interval_goes_no_further_beyond_the_values_than_they_lie_apart():
    """Slow noise of few effective values tells nothing of what was never seen."""
    slow = [1.0 + n / 100 for n in range(40)]
    plain, factors = location(slow), location(slow, positive=True)
    assert (plain.low, plain.high) == pytest.approx((1.0 - 0.39, 1.39 + 0.39))
    assert (factors.low, factors.high) == pytest.approx((1.0 / 1.39, 1.39 * 1.39))


@pytest.mark.parametrize(("freedom", "quantile"), [
    (3, 3.182), (5, 2.571), (10, 2.228), (20, 2.086), (100, 1.984), (1e9, 1.960),
])  # fmt: skip
def test_students_quantile(freedom, quantile):
    """As tables have it, within 2 %; it ends at two degrees of freedom, where all is unstable."""
    assert student(freedom) == pytest.approx(quantile, rel=0.02)
    assert student(-0.9) == student(0.0) == student(1.0) == student(2.0)


def test_a_few_spikes_do_not_hide_the_autocorrelation():
    """Ranks stand: the lag of the values themselves would fall to nothing."""
    wave = [math.sin(n / 5) for n in range(200)]
    spiked = [100.0 if n % 20 == 7 else value for n, value in enumerate(wave)]
    assert lag1(wave) > 0.95
    assert lag1(spiked) > 0.7


def test_slow_noise_below_fast_noise_inflates():
    """It hides from the lag of neighbours, and shows in that of their averages."""
    rng = random.Random(7)  # noqa: S311 - noise, not a secret
    slow = [math.sin(n / 30) / 2 for n in range(640)]
    values = [value + rng.gauss(0, 1) for value in slow]
    r = lag1(values)
    assert inflation(values) > 2 * (1 + r) / (1 - r)


@pytest.mark.parametrize("n", [1, 2, 20, 79, 80, 640])
def test_what_does_not_vary_or_alternates_inflates_nothing(n):
    """Every value counts for one: never for more."""
    assert inflation([3.0] * n) == 1.0
    assert inflation([1.0, 2.0] * n) == pytest.approx(1.0, abs=0.1)


def test_positive_values_are_widened_by_factors():
    """Also times that jump from one age to another; zero has no logarithm."""
    values = [1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 8.0, 8.0]
    factor, _ = widening(values)
    plain, found = location(values), location(values, positive=True)
    assert plain.low < 0
    expected = (max(3 * (1 / 3) ** factor, 1 / 8), min(3 * (8 / 3) ** factor, 64.0))
    assert (found.low, found.high) == pytest.approx(expected)
    found = location([1e-6] * 31 + [1e6] * 29, positive=True)
    assert 0 <= found.low <= found.value == 1e-6
    assert math.isfinite(found.high)
    assert location([0.0, 1.0, 2.0, 3.0]) == location([0.0, 1.0, 2.0, 3.0], positive=True)


@pytest.mark.parametrize("n", [20, 22, 40, 80])
def test_independent_values_seldom_correlate(n):
    """At 1 %: at most 2 % of 2,000 samples."""
    rng = random.Random(n)  # noqa: S311 - noise, not a secret
    false = sum(correlated([rng.gauss(0.0, 1.0) for _ in range(n)]) for _ in range(2000))
    assert false <= 40


@pytest.mark.parametrize(("n", "least"), [(22, 70), (40, 95)])
def test_neighbours_that_agree_are_found(n, least):
    rng = random.Random(n)  # noqa: S311 - noise, not a secret
    found = 0
    for _ in range(100):
        values = [rng.gauss(0.0, 1.0)]
        for _ in range(n - 1):
            values.append(0.8 * values[-1] + 0.6 * rng.gauss(0.0, 1.0))
        found += correlated(values)
    assert found >= least


@pytest.mark.parametrize("shape", ["uniform", "gauss", "expovariate"])
@pytest.mark.parametrize("n", [20, 60, 320])
def test_one_mode_is_seldom_called_two(shape, n):
    rng = random.Random(n)  # noqa: S311 - noise, not a secret
    draw = getattr(rng, shape)
    args = (1.0,) if shape == "expovariate" else (0.0, 1.0)
    false = sum(bimodal([draw(*args) for _ in range(n)], 0.01) for _ in range(1000))
    assert false <= 20


def heaps(n, *centres):
    rng = random.Random(1)  # noqa: S311 - noise, not a secret
    return [centres[i % len(centres)] * rng.gauss(1, 0.02) for i in range(n)]


@pytest.mark.parametrize("n", [20, 40, 160, 10_240])
def test_two_heaps_are_told_from_one(n):
    """However many there are: of many, a few stray between them; a few outliers are no heap."""
    rng = random.Random(3)  # noqa: S311 - noise, not a secret
    spiked = [rng.gauss(1, 0.02) * (1.5 if place % 20 == 7 else 1.0) for place in range(40)]
    assert not bimodal(spiked)
    assert not bimodal(heaps(19, 1.0, 1.3))  # nineteen may look so by luck
    assert bimodal(heaps(n, 1.0, 1.3))
    assert not bimodal(heaps(n, 1.0))
    assert not bimodal([1.0] * n)
    # of ten thousand, a hundred stray: the gap is that between so many
    assert bimodal(heaps(10_000, 1.0, 1.3) + [1.06 + 0.18 * n / 100 for n in range(100)])


@pytest.mark.parametrize("value", [0.1, 1e-9, 1e9])
def test_rounding_makes_no_heaps(value):
    """A float clock gives the same time as one of two neighbours; their order tells nothing."""
    values = [value, math.nextafter(value, math.inf)] * 5 + [value] * 5
    values += [math.nextafter(value, math.inf)] * 5
    assert not bimodal(values)
    assert (lag1(values), inflation(values)) == (0.0, 1.0)


@given(VALUES, st.booleans())
def test_the_median_lies_in_its_interval_and_slow_noise_only_widens_that(values, positive):
    """Without it the interval lies within the one with it, and stands on no fewer values."""
    found = location(values, positive=positive)
    narrow = location(values, positive=positive, slow=False)
    assert found.low <= narrow.low <= found.value <= narrow.high <= found.high
    assert 0 < found.effective_n <= found.n == len(values)
    assert found.low >= 0 or not positive or not enough(len(values))  # no time that cannot be
    assert found.effective_n == narrow.effective_n == max(found.counted, 1.0)
    assert found.counted <= narrow.counted


@pytest.mark.parametrize(("draw", "true"), [
    (lambda rng: rng.gauss(1.0, 0.02), 1.0),
    (lambda rng: 1 + rng.expovariate(50), 1 + math.log(2) / 50),
], ids=["normal", "skewed"])  # fmt: skip
def test_the_interval_holds_the_median_as_often_as_it_says(draw, true):
    """1,000 runs of 40 independent values: 95 % nominal, 93 to 98 % seen."""
    rng = random.Random(5)  # noqa: S311 - noise, not a secret
    runs = [location([draw(rng) for _ in range(40)], positive=True) for _ in range(1000)]
    assert 930 <= sum(run.low <= true <= run.high for run in runs) <= 980


@pytest.mark.parametrize(
    "values", [zigzag(10), [0.0] * 9 + [1.0], [1.0 + n / 100 for n in range(40)], [4.0] * 8]
)
def test_a_mean_has_students_interval_for_what_its_values_are_worth(values):
    """Deviation over the root of the independent values, of which there are at least two."""
    worth = max(len(values) / inflation(values), 2.0)
    half = student(worth - 1) * stdev(values) / math.sqrt(worth)
    middle = fmean(values)
    assert mean(values) == pytest.approx((middle, middle - half, middle + half))


@pytest.mark.parametrize(("n", "inflated"), [(39, False), (40, True)])
def test_slow_noise_is_looked_for_from_forty_values_on(n, inflated):
    """Of fewer than twenty averages of neighbours the variance is not known."""
    assert (inflation([3.0 * (i % 2) + i / n for i in range(n)]) > 1.0) is inflated
    assert inflation([float(n) for n in range(160)]) == pytest.approx(1.99 / 0.01)  # the most


@example([0, 0, 0, 1, 2, 2, 0, 1])
@given(st.lists(st.integers(0, 4), min_size=2, max_size=60))
def test_equal_values_share_the_middle_of_their_ranks(values):
    """So the lag is the same whether ranks count from the smallest or from the largest value."""
    assert lag1(values) == pytest.approx(lag1([-value for value in values]))


def test_resampling_misses_a_part_of_the_spread():
    """sqrt(n / (n - 1)) of it, and Student's quantile of what the values are worth."""
    z = NormalDist().inv_cdf(0.975)
    assert stats.widening(10, 10) == pytest.approx(math.sqrt(10 / 9) * student(9) / z)
    assert stats.widening(10, 5) == pytest.approx(math.sqrt(10 / 9 * 2) * student(4) / z)

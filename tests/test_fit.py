"""Latency and bandwidth from times at several sizes: found again, in one regime or two, or not."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap.engine import stats
from gpumap.engine.fit import FITS, Model, fitted, intervals, resampled
from gpumap.model import Line

SIZES = [64 * 8**n for n in range(8)]
SMALL, LARGE = Line(5e-6, 1 / 50e9), Line(40e-6, 1 / 10e9, 262144.0)


def times(*lines):
    model = Model(lines, 0.0)
    return np.array([model.seconds(n) for n in SIZES])


@given(st.floats(1e-8, 1e-2), st.floats(1e6, 1e12))
def test_a_line_is_found_again(latency, bandwidth):
    """Exact times give exact figures; half the bandwidth at latency x bandwidth."""
    measured = times(Line(latency, 1 / bandwidth))
    model = fitted(SIZES, measured)
    assert len(model.lines) == 1
    assert model.residual < 1e-6
    assert [model.seconds(n) for n in SIZES] == pytest.approx(list(measured), rel=1e-6)
    assert fitted(SIZES, times(SMALL)).figures() == pytest.approx(
        {"latency": 5e-6, "peak_bandwidth": 50e9, "n_half": 250e3}, rel=1e-6
    )


def test_two_regimes_are_two():
    """The latency is that of small copies, the bandwidth that of large ones."""
    model = fitted(SIZES, times(SMALL, LARGE))
    assert model.fits
    assert [line.start for line in model.lines] == [0.0, 262144.0]
    assert model.figures() == pytest.approx(
        {
            "latency": 5e-6,
            "peak_bandwidth": 10e9,
            "n_half": 5e9 * 5e-6 / 0.9,  # reached by small copies already
        },
        rel=1e-6,
    )
    # what the second line, drawn back to smaller copies, would promise, these do not reach
    late = Model((Line(1e-6, 1 / 1e9), Line(10e-6, 1 / 10e9, 262144.0)), 0.0)
    assert late.figures()["n_half"] == 262144.0


CACHES = [*(64 * 8**n for n in range(5)), 1 << 20, 1 << 22, 1 << 24]


@pytest.mark.parametrize("latency", [5e-7, 35e-6])
@pytest.mark.parametrize(("rate", "then", "knot"), [
    (30e9, 9e9, 1 << 20),
    (None, 20e9, 1 << 15),  # a call that takes longer than its copy
])  # fmt: skip
def test_levels_of_caches_are_lines_that_meet(latency, rate, then, knot):
    """The second slower than the first; a size that the fit has not seen is predicted by them."""
    slope = 1 / rate if rate else 0.0

    def truth(size):
        return latency + min(size, knot) * slope + max(size - knot, 0) / then

    noise = 1.0 + 0.01 * np.cos(np.arange(8.0) * 2.5)
    model = fitted(CACHES, np.array([truth(size) for size in CACHES]) * noise)
    assert model.residual <= 0.05
    assert all(line.per_byte >= 0.0 for line in model.lines)
    assert model.seconds(1 << 17) == pytest.approx(truth(1 << 17), rel=0.1)
    figures = model.figures()
    assert figures["latency"] == pytest.approx(latency, rel=0.05)
    assert figures["peak_bandwidth"] == pytest.approx(then, rel=0.1)


def noisy(rng, blocks, share, lag=0.0):
    noise = rng.normal(0.0, share, (blocks, len(SIZES)))
    for n in range(1, blocks):
        noise[n] = lag * noise[n - 1] + math.sqrt(1 - lag**2) * noise[n]
    return times(SMALL) * np.exp(noise)


@pytest.mark.parametrize(("blocks", "share", "lag"), [
    (40, 0.01, 0.0), (40, 0.05, 0.0), (6, 0.02, 0.0), (16, 0.02, 0.5), (40, 0.02, 0.5),
])  # fmt: skip
def test_intervals_cover_the_truth(blocks, share, lag):
    """In 95 % of runs, less what chance allows; of every figure, also where neighbours agree."""
    truth = Model((SMALL,), 0.0).figures()
    covered = dict.fromkeys(truth, 0)
    for seed in range(50):
        samples = noisy(np.random.default_rng(seed), blocks, share, lag)
        model = fitted(SIZES, np.median(samples, axis=0))
        for name, found in intervals(SIZES, samples, model, 0.95, seed).items():
            covered[name] += found.low <= truth[name] <= found.high
    assert min(covered.values()) >= 44


def test_what_a_model_misses_beyond_noise_widens_its_intervals():
    """Each size moves by as much, up or down; of samples without noise there is no other width."""
    uneven = times(SMALL) * np.array([1.05, 0.95] * 4)
    found = intervals(SIZES, np.tile(uneven, (40, 1)), fitted(SIZES, uneven), 0.95, 1)["latency"]
    assert found.low < 5e-6 < found.high


def test_two_lines_must_miss_by_less_than_half_of_what_one_does():
    """Else they are the noise of one: here both miss by more than a tenth."""
    uneven = times(SMALL) * np.array([1.12, 0.88, 1.12, 0.88, 1.12, 0.88, 1.12, 0.88])
    model = fitted(SIZES, uneven)
    assert model.residual > 0.10
    assert len(model.lines) == 1


@pytest.mark.parametrize("power", [1.2, 1.0, 0.0, -0.2])
def test_no_line_promises_less_than_nothing(power):
    """Of times that grow faster than their sizes the latency is 0, of falling ones the slope."""
    sizes = SIZES[:5]
    (line,) = fitted(sizes, np.array([1e-9 * n**power for n in sizes])).lines
    assert (line.latency < 1e-15, line.per_byte < 1e-18) == (power >= 1.0, power <= 0.0)
    assert min(line.latency, line.per_byte) >= 0.0
    assert Model((Line(1e-6, 0.0),), 0.0).figures() == {
        "latency": 1e-6, "peak_bandwidth": np.inf, "n_half": np.inf,
    }  # fmt: skip


def test_a_model_misses_what_takes_longer_than_it_says():
    """The residual is the largest miss in either direction, as a share of the measured time."""
    slow = times(SMALL) * np.array([1, 1, 1, 3, 1, 1, 1, 1])
    model = fitted(SIZES, slow)
    misses = [abs(model.seconds(n) / t - 1.0) for n, t in zip(SIZES, slow, strict=True)]
    assert model.residual == pytest.approx(max(misses))
    assert model.residual > FITS
    assert not model.fits


def test_an_interval_leaves_out_as_much_at_either_end(monkeypatch):
    """Of half of all resamples: a quarter of them below it, and a quarter above."""
    monkeypatch.setattr(stats, "widening", lambda *_: 1.0)
    samples, drawn = noisy(np.random.default_rng(1), 41, 0.05)[:, :1], []

    def figures(medians):
        drawn.append(float(medians[0]))
        return [drawn[-1]]

    ((low, high),) = resampled(samples, figures, [float(np.median(samples))], 0.5, 1)
    below, above = (sum(x < low for x in drawn), sum(x > high for x in drawn))
    assert below <= 0.25 * len(drawn) <= below + sum(x == low for x in drawn)
    assert above <= 0.25 * len(drawn) <= above + sum(x == high for x in drawn)


def test_levels_of_caches_meet_between_sizes():
    """Five sizes are the fewest: latency, two slopes, and where the cache ends."""
    sizes = (64, 4096, 1 << 18, 1 << 20, 1 << 22)
    ends, inside, outside = 700_000, 18e-12, 85e-12
    exact = np.array([9e-6 + min(n, ends) * inside + max(n - ends, 0) * outside for n in sizes])
    model = fitted(sizes, exact)
    assert len(model.lines) == 2
    assert model.residual < 0.05
    assert model.seconds(1 << 17) == pytest.approx(9e-6 + (1 << 17) * inside, rel=0.05)
    assert len(fitted(sizes[1:], exact[1:]).lines) == 1


def test_two_regimes_are_looked_for_where_a_line_misses_by_more_than_a_tenth():
    """From three sizes on each; a model is worth something up to 15 %."""
    small, large = times(SMALL), times(SMALL, Line(7e-6, 1 / 50e9, 262144.0))
    late = Line(40e-6, 1 / 10e9, float(SIZES[-3]))
    assert len(fitted(SIZES, large).lines) == 2
    assert len(fitted(SIZES, np.minimum(large, 1.1 * small)).lines) == 1
    assert [line.start for line in fitted(SIZES, times(SMALL, late)).lines] == [0.0, SIZES[-3]]
    fewer = [len(fitted(SIZES[n:], times(SMALL, late)[n:]).lines) for n in (2, 3)]
    assert fewer == [2, 1]
    assert [Model((SMALL,), residual).fits for residual in (0.15, 0.1501)] == [True, False]

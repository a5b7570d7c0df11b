"""Intervals hold, flags are rare and comparisons decide: few runs of what benchmarks record."""

import numpy as np
import pytest
from saved_reports import written

from benchmarks.decisions import crossed, placed, stopped
from benchmarks.figures import wrong

RUNS = range(1000, 1200)  # other seeds than those of a record


@pytest.mark.parametrize(("kind", "least", "most_flagged"), [
    ("normal", 0.92, 0.04), ("lognormal", 0.92, 0.04), ("pareto", 0.92, 0.04),
    ("spikes", 0.92, 1.0), ("ar 0.5", 0.90, 1.0),
])  # fmt: skip
@pytest.mark.parametrize("blocks", [40, 80])
def test_intervals_hold_and_flags_are_rare(kind, least, most_flagged, blocks):
    """Of medians and ratios, with the stopping rule; bounds less what 200 runs leave to chance."""
    found = np.mean([stopped(kind, blocks, seed) for seed in RUNS], axis=0)
    time, time_flag, _, ratio, ratio_flag, _ = found
    assert min(time, ratio) >= least - 0.02
    assert max(time_flag, ratio_flag) <= most_flagged


@pytest.mark.parametrize(("kind", "least"), [("normal", 0.95), ("ar 0.5", 0.92)])
def test_intervals_of_a_break_even_hold(kind, least):
    """Of six samples at each size, and of a line between sizes that the truth is not."""
    held, halves = zip(*(crossed(kind, seed) for seed in RUNS), strict=True)
    assert sum(held) / len(RUNS) >= least
    assert np.median(halves) < 0.15


def test_the_ideal_of_two_equal_devices_is_two():
    """The larger of two noisy times in each block would be 5 % too long at 10 % of noise."""
    held, errors = zip(*(placed("normal", 0.10, 40, seed) for seed in RUNS), strict=True)
    assert sum(held) / len(RUNS) >= 0.91
    assert abs(np.mean(errors)) < 0.02


@pytest.mark.parametrize("name", ["dot", "sizes", "copies", "lost", "real"])
def test_reports_keep_the_rules(name):
    assert list(wrong(written(name).tree)) == []

"""Intervals hold, flags are rare and comparisons decide: few runs of what benchmarks record."""

import numpy as np
import pytest
from saved_reports import few, written

from benchmarks import decisions
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


def test_what_is_injected_is_there_and_is_not_said():
    """A tenth of the rows is computed twice, the result is right, and the control is as it was."""
    calls = []

    def gemm(session, a, b, out, **options):  # noqa: ARG001 - as a session's
        calls.append(len(a))
        np.matmul(a, b, out=out)

    slower = decisions.heavier(gemm)
    for size in (decisions.SIZE, 512):
        a, b = np.random.default_rng(size).standard_normal((2, size, size))
        out = np.zeros((size, size))
        slower(None, a, b, out, tf32=None)
        assert np.allclose(out, a @ b)
    assert calls == [1024, 102, 512]


def edited(metric, figure, row=3):
    """Return the report of products with another figure in the row of `many`."""
    tree = written("dot").tree
    tree["result"]["measurements"][row]["metrics"][metric] |= figure
    return tree


@pytest.mark.parametrize("name", ["dot", "sizes", "copies", "lost", "real"])
def test_reports_keep_the_rules(name):
    assert list(wrong(written(name).tree)) == []


@pytest.mark.parametrize(
    ("metric", "value"),
    [("speedup", 2.11), ("ideal", 2.88), ("efficiency", 1.06), ("overlap", 1.01)],
)
def test_a_ratio_above_its_ceiling_is_found(metric, value):
    assert len(list(wrong(edited(metric, {"value": value})))) == 1


def test_what_is_said_of_few_samples_is_found():
    tree = few(written("dot").tree, 5)
    row = tree["result"]["measurements"][3]
    row["metrics"]["speedup"] |= {"low": 0.0, "high": 2.0}
    row["explanation"] = {"cause": "cpu-contention"}
    assert len(list(wrong(tree))) == 2
    assert len(list(wrong(tree | {"status": "ok"}))) == 3

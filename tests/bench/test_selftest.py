"""A against A: one product as two cases, sized so that enough blocks fit."""

import pytest
from worlds import gpu, world

from gpumap.bench.products import RUNS, SHORTEST, false_alarms, fitting, selftest_plan


@pytest.mark.parametrize(("pilot", "share", "size"), [
    (0.0, 30.0, 1024),
    (1.7e-3, 28.5, 1024),  # a core at 160 GFLOP/s
    (1.7e-3, 5.0, 512),
    (0.1, 30.0, 256),
    (1e9, 30.0, 64),
])  # fmt: skip
def test_a_slow_device_gets_a_smaller_product(pilot, share, size):
    assert size == fitting(pilot, share)


def judged(ratios):
    """Return how runs of these ratios are judged at 5 %: false, passed, inconclusive."""
    (group,) = selftest_plan(world(gpu(0)).bindings, {"a": 64}).groups
    found = false_alarms(group.cases[1], ratios, 0.05)
    return found.runs, (found.false, found.passed, found.inconclusive)


@pytest.mark.parametrize(("ratios", "runs", "expected"), [
    ([1.0] * RUNS * SHORTEST, RUNS, (0, RUNS, 0)), ([1.0] * (3 * SHORTEST + 1), 3, (0, 3, 0)),
    ([1.0] * (SHORTEST - 1), 0, (0, 0, 0)), ([1.1] * 2 * SHORTEST, 2, (2, 0, 0)),
    ([1 / 1.1] * 2 * SHORTEST, 2, (2, 0, 0)),  # A would be the slower one
    ([0.9, 1.1] * SHORTEST, 2, (0, 0, 2)), ([float("nan")] * 2 * SHORTEST, 2, (0, 0, 2)),
])  # fmt: skip
def test_runs_of_a_against_a_are_judged(ratios, runs, expected):
    assert judged(ratios) == (runs, expected)

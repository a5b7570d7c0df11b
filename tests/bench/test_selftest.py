"""A against A: one product as two cases, sized so that enough blocks fit."""

import pytest
from worlds import SETTINGS, gpu, rows_on, world

from gpumap.bench.base import Settings
from gpumap.bench.products import RUNS, SHORTEST, SelfTest, false_alarms, fitting, selftest_plan
from gpumap.model import Work, replace


def measured(**settings):
    found = world(gpu(0))
    benchmark = SelfTest(found.bindings, found.sessions, {"a": 64})
    return found, benchmark, rows_on(found, benchmark, replace(SETTINGS, **settings))


def test_each_device_has_a_group_of_two():
    planned = selftest_plan(world(gpu(0), gpu(1), gpu(0)).bindings, dict.fromkeys("abc", 64))
    assert [[(case.name, case.names) for case in group.cases] for group in planned.groups] == [
        [("a", (name,)), ("b", (name,))] for name in "ab"
    ]
    for group in planned.groups:
        a, b = group.cases
        assert (None, a.id) == (a.against, b.against)
        assert a.work == b.work == Work(1, 2 * 64**3)
    assert {"cuda:0": 3 * 4 * 64**2, "cuda:1": 3 * 4 * 64**2}.items() <= planned.memory.items()


def test_it_takes_the_whole_budget():
    """A precision that is reached ends no comparison of noise: the noise is what is asked for."""
    blocks = Settings(budget=1.0, timeout=10.0).blocks
    found, _, rows = measured(budget=1.0, timeout=10.0, blocks=blocks, whole=True)
    assert {"budget"} == {row.stop.why for row in rows}
    assert 0.95 < found.clock.now() < 1.0


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

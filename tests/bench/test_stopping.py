"""When a group is measured well enough, and what is said of a row that is not."""

import math
import random
from functools import partial

import pytest
from cases import planned_case
from worlds import SETTINGS, gpu, world

from gpumap.engine import stopping
from gpumap.engine.stopping import Blocks, Standing, deciding, settled, unstable
from gpumap.model import Group, Samples, Work, replace

BINDINGS = world(gpu(0), gpu(1)).bindings
ONE = planned_case("dot", "one", {}, BINDINGS[:1], Work())
MANY = planned_case("dot", "many", {}, BINDINGS, Work(), against=ONE.id)
SOLO = planned_case("dot", "solo", {}, BINDINGS[:1], Work())
CONTROL = planned_case("control", "product", {}, BINDINGS[:1], Work())
GROUP = Group((SOLO, ONE, MANY, CONTROL))
QUIET = replace(SETTINGS, precision=0.02)
times, ratios = (partial(Standing, ratios=each) for each in (False, True))


def done(row, precision, confidence):
    return stopping.done(row.located(confidence), precision)


def noise(width, n=40, seed=1):
    rng = random.Random(seed)  # noqa: S311 - noise, not a secret
    return [1.0 + width * rng.uniform(-1.0, 1.0) for _ in range(n)]


def drift(n=40):
    return [1.0 + i / n for i in range(n)]


def samples(seconds, blocks=None):
    return Samples(tuple(seconds), tuple(range(len(seconds)) if blocks is None else blocks))


@pytest.mark.parametrize(("reference", "own", "stands"), [
    (samples([4.0, 6.0, 8.0], [0, 1, 3]), samples([2.0, 1.0, 2.0], [0, 2, 3]), ratios([2.0, 4.0])),
    # without a ratio it stands on its times
    (samples([4.0], [9]), samples([2.0, 3.0]), times((2.0, 3.0))),
    (samples([4.0, 4.0]), samples([2.0, 0.0]), times((2.0, 0.0))),
    (samples([0.0, 4.0]), samples([2.0, 3.0]), times((2.0, 3.0))),
])  # fmt: skip
def test_a_compared_row_stands_on_its_ratios(reference, own, stands):
    assert deciding(GROUP, {MANY.id: own}) == {MANY.id: times(own.seconds)}
    assert deciding(GROUP, {ONE.id: reference, MANY.id: own, SOLO.id: samples([5.0])}) == {
        ONE.id: times(reference.seconds), MANY.id: stands, SOLO.id: times((5.0,)),
    }  # fmt: skip


def test_ratios_settle_a_group_though_its_times_drift():
    """What hits all alike is not in the ratios; a run that is to use its whole time never is."""
    found = {case.id: samples(drift()) for case in (SOLO, ONE, MANY, CONTROL)}
    assert settled(GROUP, found, QUIET)
    assert not settled(GROUP, found, replace(QUIET, whole=True))
    assert not settled(GROUP, {id_: found[id_] for id_ in (SOLO.id, ONE.id)}, QUIET)
    other = replace(MANY, name="many+fetch")  # every compared row must be done
    noisy = found | {other.id: samples(noise(0.5))}
    assert not settled(Group((*GROUP.cases, other)), noisy, QUIET)


def test_where_no_row_is_compared_the_times_settle_it():
    """Also of a reference whose compared rows are lost; a control never keeps a group going."""
    still, noisy = samples([1.0] * 40), samples(noise(0.5))
    for found, wanted in (
        ({SOLO.id: still, ONE.id: still}, True), ({SOLO.id: still, ONE.id: noisy}, False),
        ({CONTROL.id: noisy, ONE.id: still}, True), ({CONTROL.id: noisy}, True), ({}, True),
    ):  # fmt: skip
        assert settled(GROUP, found, QUIET) == wanted


@pytest.mark.parametrize(("values", "precision", "enough"), [
    ([1.0] * 20, 0.02, True), ([1.0] * 20, 0.0, True), ([0.0] * 20, 0.02, True),
    ([1.0] * 19, 0.02, False),  # too few, however equal
    (noise(0.01), 0.02, True), (noise(0.01), 0.001, False), (noise(0.2), 0.02, False),
    (drift(), 0.02, False), (drift(), 10.0, False),  # forty values that are not worth twenty
    ([0.0] * 8 + [1.0] * 12, 0.02, False),
])  # fmt: skip
def test_a_row_is_done_when_it_is_narrow_and_worth_twenty(values, precision, enough):
    assert enough == done(ratios(values), precision, 0.95)


def test_a_time_is_of_this_run_and_a_ratio_is_not():
    """A slow change below fast noise is part of what a time is asked for, and in no ratio."""
    slow = [a + 0.02 * math.sin(i / 50.0) for i, a in enumerate(noise(0.03, 320))]
    assert done(times(slow), 0.02, 0.95)
    assert not done(ratios(slow), 0.02, 0.95)


HEAPS = noise(0.001, 20, 2) + [value + 0.3 for value in noise(0.001, 20, 3)]


@pytest.mark.parametrize(("values", "raised"), [
    ([1.0] * 40, False), ([1.0] * 19, False), ([1.0] * 5, False),
    (noise(0.01), False), (noise(0.5), False),  # wide is not unstable
    (drift(), True), ([1.0 + i / 800 for i in range(40)], True),  # by 7 % to either side
    ([1.0 + 0.01 * value for value in drift()], False),  # nor is a narrow drift
    (random.Random(1).sample(HEAPS, 40), True),  # noqa: S311 - noise
    (random.Random(1).sample([1.0 + (v - 1.0) / 6 for v in HEAPS], 40), False),  # noqa: S311 - noise
])  # fmt: skip
def test_a_row_is_unstable(values, raised):
    """Whose interval is wide, and whose samples drift or have two modes."""
    assert unstable(ratios(values), 1) is raised


@pytest.mark.parametrize("n", [6, 12, 20, 22, 30, 80])
@pytest.mark.parametrize("shape", ["gauss", "lognormvariate", "paretovariate"])
def test_independent_noise_is_seldom_unstable(n, shape):
    """In 2 % of 600 rows at most, and what chance allows beyond (p < 1 %)."""
    rng = random.Random(n)  # noqa: S311 - noise, not a secret
    draw = {"gauss": (1.0, 0.2), "lognormvariate": (0.0, 0.3), "paretovariate": (3.0,)}[shape]
    values = [[getattr(rng, shape)(*draw) for _ in range(n)] for _ in range(600)]
    assert sum(unstable(ratios(each), 7) for each in values) <= 21


def test_two_looks_that_are_due_at_once_are_one():
    """Each look is a chance to stop by luck: one that was missed is not made up for."""
    blocks = Blocks(0.0, 10.0, 1000, [0.25, 0.5])
    assert [blocks.due(now) for now in (1.0, 6.0, 6.1, 9.9)] == [False, True, False, False]

"""Each optimizer takes the steps of its formula, on every backend; and how rates are scaled."""

import numpy as np
import pytest
from buffers import got, sent
from hypothesis import given
from hypothesis import strategies as st
from sessions import opened, places

from gpumap.training import loop as users
from gpumap.training import optimizers as known
from gpumap.training.loop import scaled_rate
from gpumap.training.optimizers import OPTIMIZERS, Optimizer

STEPS, SIZE, RATE = 7, 1000, 0.03


def gradients():
    rng = np.random.default_rng(5)
    sizes = 10.0 ** rng.integers(-4, 2, (STEPS, SIZE))
    return (rng.normal(0, 1, (STEPS, SIZE)) * sizes).astype(np.float32)


def loop(name, w, every):
    w, m, v = w.astype(float), np.zeros(SIZE), np.zeros(SIZE)
    for step, g in enumerate(every.astype(float), 1):
        if name == "sgd":
            w = w - RATE * g
        else:
            m = known.FIRST * m + (1 - known.FIRST) * g
            v = known.SECOND * v + (1 - known.SECOND) * g * g
            rate = RATE * np.sqrt(1 - known.SECOND**step) / (1 - known.FIRST**step)
            w = w - rate * m / (np.sqrt(v) + known.EPSILON)
    return w, v


def stepped(session, optimizer, weights, every):
    for g in every:
        optimizer.step(weights, sent(session, g), RATE)


@pytest.mark.parametrize("place", places())
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_the_formula(place, name):
    """Adam's mean of squares moves by 0.001 to rounding: 1 - 0.999 in 32 bits is 0.00099999."""
    every = gradients()
    begin = np.random.default_rng(6).uniform(-1, 1, SIZE).astype(np.float32)
    exact, squares = loop(name, begin, every)
    with opened(place) as (session,):
        weights = sent(session, begin)
        optimizer = Optimizer(name, session, SIZE)
        stepped(session, optimizer, weights, every)
        found = got(weights)
        if name == "adam":
            near = 4 * STEPS * 2.0**-23
            np.testing.assert_allclose(got(optimizer.state[1]), squares, rtol=near)
        optimizer.reset()  # which forgets all: the same steps once more
        session.upload(begin, weights)
        stepped(session, optimizer, weights, every)
        assert got(weights).tobytes() == found.tobytes()
    moved = RATE * abs(every.astype(float)).sum(axis=0)
    if name == "adam":
        moved = STEPS * RATE * 3  # of each step, no more than three rates
    bound = 4 * STEPS * 2.0**-23 * (abs(begin) + moved)
    assert (abs(found - exact) <= bound).all()


@given(st.floats(1e-6, 1), st.integers(1, 1024), st.integers(1, 500), st.integers(0, 1000))
def test_a_rate_is_linear_in_the_workers_at_the_end(rate, workers, warmup, more):
    """It grows by the same factor each step until then."""
    assert scaled_rate(rate, more, warmup) == rate  # of one rank, to the bit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(users, "ranks", lambda: workers)
        assert scaled_rate(rate, warmup + more, warmup) == pytest.approx(rate * workers)
        assert scaled_rate(rate, more) == pytest.approx(rate * workers)
        found = [scaled_rate(rate, step, warmup) for step in range(warmup + 1)]
    assert found[0] == rate
    factor = workers ** (1 / warmup)
    assert found[1:] == pytest.approx([each * factor for each in found[:-1]])


def test_every_optimizer_has_a_rate_to_begin_with():
    assert {*OPTIMIZERS} == known.STATES.keys() == known.RATES.keys()
    assert all(0 < each < 1 for each in known.RATES.values())

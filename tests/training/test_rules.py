"""Rules as values: what is exchanged when, what it conserves, and that all workers agree."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sessions import got, opened, places, sent

from gpumap.training.optimizers import RULES, Chosen, Mean, Meet, Push

SIZE = 500
EPS = 2.0**-23
WORKERS = st.integers(1, 8)
SEEDS = st.integers(0, 2**32)


def gossip(workers, chance, seed=1):
    return Chosen("gosgd", chance=chance).of(workers, seed)


def drawn(seed):
    rng = np.random.default_rng(seed)
    return (rng.normal(0, 1, SIZE) * 10.0 ** rng.integers(-3, 3, SIZE)).astype(np.float32)


@settings(deadline=None)
@given(WORKERS, st.integers(0, 1000))
def test_bsp_takes_one_mean_in_each_step(workers, step):
    """Of gradients before the update, of parameters behind it; alone there is nothing to share."""
    some = workers > 1
    for_gradients = Chosen("bsp").of(workers, 1)
    for_parameters = Chosen("bsp", "parameters").of(workers, 1)
    assert list(for_gradients.before(step)) == [Mean("gradients")] * some
    assert list(for_gradients.after(step)) == []
    assert list(for_parameters.before(step)) == []
    assert list(for_parameters.after(step)) == [Mean("parameters")] * some


@settings(deadline=None)
@given(st.integers(2, 8), st.integers(1, 20), st.integers(1, 200))
def test_workers_meet_the_centre_every_tau_steps(workers, tau, steps):
    rule = Chosen("easgd", alpha=0.25, tau=tau).of(workers, 1)
    for step in range(steps):
        assert list(rule.before(step)) == []
        met = [Meet(worker, 0.25) for worker in range(workers)] if not (step + 1) % tau else []
        assert list(rule.after(step)) == met


def met(session, w, centre, share):
    a, b = sent(session, w), sent(session, centre)
    session.run("elastic", a, b, share, size=SIZE)
    return got(a), got(b)


@pytest.mark.parametrize("place", places())
@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.5, 0.9, 1.0])
def test_a_meeting_conserves_the_sum(place, alpha):
    w, centre = drawn(1), drawn(2)
    with opened(place) as (session,):
        a, b = met(session, w, centre, alpha)
    sides = abs(w.astype(float)) + abs(centre.astype(float))
    off = a.astype(float) + b - w.astype(float) - centre
    assert (abs(off) <= 4 * EPS * sides).all()
    apart = abs(1 - 2 * alpha) * abs(w.astype(float) - centre)
    assert (abs(abs(a.astype(float) - b) - apart) <= 8 * EPS * sides).all()


@pytest.mark.parametrize("place", places())
def test_a_share_of_0_changes_nothing_and_one_of_a_half_makes_both_equal(place):
    """To the bit where nothing is rounded: numbers of 20 bits, halves included."""
    rng = np.random.default_rng(1)
    w, centre = (rng.integers(-(2**20), 2**20, SIZE).astype(np.float32) for _ in range(2))
    with opened(place) as (session,):
        (a, b), none = met(session, w, centre, 0.5), met(session, w, centre, 0.0)
    assert a.tolist() == b.tolist() == ((w.astype(float) + centre) / 2).tolist()
    assert [each.tobytes() for each in none] == [w.tobytes(), centre.tobytes()]


def pushed(rule, values, step):
    """Carry out the pushes of a step on one number of each worker, exactly; return the pushes."""
    pushes = list(rule.after(step))
    for push in pushes:
        distance = values[push.sender] - values[push.receiver]
        values[push.receiver] += Fraction(push.share) * distance
    return pushes


@settings(deadline=None)
@given(st.integers(2, 8), st.sampled_from([0.1, 0.5, 1.0]), SEEDS)
def test_gossip_conserves_weights_and_what_they_weigh(workers, chance, seed):
    """Nobody pushes to itself, and each at most once a step, by a share below 1."""
    rule = gossip(workers, chance, seed)
    values = [Fraction(3 * n - 7) for n in range(workers)]
    mean, most = sum(values) / workers, 0
    for step in range(30):
        assert list(rule.before(step)) == []
        pushes = pushed(rule, values, step)
        senders = [push.sender for push in pushes]
        assert senders == sorted(set(senders))
        for push in pushes:
            assert push.receiver in set(range(workers)) - {push.sender}
            assert 0 < push.share < 1
        most = max(most, len(pushes))
        assert sum(rule.weights) == pytest.approx(1, abs=1e-12)
        assert min(rule.weights) > 0
        weighed = sum(Fraction(w) * v for w, v in zip(rule.weights, values, strict=True))
        assert float(weighed - mean) == pytest.approx(0, abs=1e-10)
    assert most == workers or chance < 1


@settings(deadline=None)
@given(st.integers(2, 8), SEEDS)
def test_gossip_makes_all_alike(workers, seed):
    rule = gossip(workers, 0.5, seed)
    values = [Fraction(n) for n in range(workers)]
    for step in range(60 * workers):
        pushed(rule, values, step)
        values = [value.limit_denominator(10**15) for value in values]
    assert [float(value) for value in values] == pytest.approx([(workers - 1) / 2] * workers)


@pytest.mark.parametrize("name", RULES)
def test_one_worker_exchanges_nothing(name):
    rule = Chosen(name, tau=1, chance=1.0).of(1, 1)
    assert not any([*rule.before(step), *rule.after(step)] for step in range(200))


@pytest.mark.parametrize(("workers", "chance"), [(2, 0.01), (4, 0.3), (8, 0.9)])
def test_as_many_push_as_are_expected(workers, chance):
    """N p a step, within 4 standard deviations; and everyone is pushed to as often as any other.

    At p = 0 that is nobody, at p = 1 everybody.
    """
    assert not any(gossip(workers, 0.0).after(step) for step in range(100))
    assert all(len(gossip(workers, 1.0).after(step)) == workers for step in range(100))
    steps = 20_000
    rule = gossip(workers, chance)
    received = [0] * workers
    for step in range(steps):
        for push in rule.after(step):
            received[push.receiver] += 1
    draws = steps * workers
    assert abs(sum(received) - draws * chance) < 4 * (draws * chance * (1 - chance)) ** 0.5
    assert max(received) - min(received) < 8 * (sum(received) / workers) ** 0.5


@pytest.mark.parametrize("place", places())
def test_a_blend_is_a_share_of_the_way(place):
    w, other, share = drawn(1), drawn(2), 0.375
    with opened(place) as (session,):
        a, b = sent(session, w), sent(session, other)
        session.run("blend", a, b, share, size=SIZE)
        found, kept = got(a), got(b)
    exact = w.astype(float) + share * (other.astype(float) - w)
    sides = abs(w.astype(float)) + abs(other.astype(float))
    assert (abs(found - exact) <= 4 * EPS * sides).all()
    assert kept.tobytes() == other.tobytes()


@pytest.mark.parametrize("name", RULES)
@settings(deadline=None)
@given(workers=WORKERS, seed=SEEDS)
def test_every_worker_draws_the_same(name, workers, seed):
    chosen = Chosen(name, tau=3, chance=0.4)
    every = [chosen.of(workers, seed) for _ in range(workers)]
    for step in range(20):
        first, *others = [(list(r.before(step)), list(r.after(step))) for r in every]
        assert all(other == first for other in others)


def test_a_rule_draws_by_its_seed():
    """Another seed draws others, and the same one the same."""
    rules = [Chosen("gosgd", chance=0.5).of(4, seed) for seed in (1, 1, 2)]
    one, same, other = ([tuple(rule.after(step)) for step in range(50)] for rule in rules)
    assert one == same != other
    assert isinstance(next(push for step in one for push in step), Push)

"""Rules as values: what is exchanged when, what it conserves, and that all workers agree."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sessions import got, opened, places, sent

from gpumap.errors import QuestionError
from gpumap.parallel.optimizers import RULES, Bsp, Chosen, Easgd, Gosgd, Mean, Meet, Push

SIZE = 500
EPS = 2.0**-23
WORKERS = st.integers(1, 8)
SEEDS = st.integers(0, 2**32)


def drawn(seed):
    rng = np.random.default_rng(seed)
    return (rng.normal(0, 1, SIZE) * 10.0 ** rng.integers(-3, 3, SIZE)).astype(np.float32)


@settings(deadline=None)
@given(WORKERS, st.integers(0, 1000))
def test_bsp_takes_one_mean_in_each_step(workers, step):
    """Of gradients before the update, of parameters behind it; alone there is nothing to share."""
    some = workers > 1
    for_gradients = Bsp(workers)
    for_parameters = Bsp(workers, "parameters")
    assert list(for_gradients.before(step)) == [Mean("gradients")] * some
    assert list(for_gradients.after(step)) == []
    assert list(for_parameters.before(step)) == []
    assert list(for_parameters.after(step)) == [Mean("parameters")] * some


@settings(deadline=None)
@given(st.integers(2, 8), st.integers(1, 20), st.integers(1, 200))
def test_workers_meet_the_centre_every_tau_steps(workers, tau, steps):
    rule = Easgd(workers, 0.25, tau)
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
    rule = Gosgd(workers, chance, seed)
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
    rule = Gosgd(workers, 0.5, seed)
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
    assert not any(Gosgd(workers, 0.0).after(step) for step in range(100))
    assert all(len(Gosgd(workers, 1.0).after(step)) == workers for step in range(100))
    steps = 20_000
    rule = Gosgd(workers, chance, 1)
    received = [0] * workers
    for step in range(steps):
        for push in rule.after(step):
            received[push.receiver] += 1
    draws = steps * workers
    assert abs(sum(received) - draws * chance) < 4 * (draws * chance * (1 - chance)) ** 0.5
    assert max(received) - min(received) < 8 * (sum(received) / workers) ** 0.5


@pytest.mark.parametrize("name", RULES)
@settings(deadline=None)
@given(workers=WORKERS, seed=SEEDS)
def test_every_worker_draws_the_same(name, workers, seed):
    chosen = Chosen(name, tau=3, chance=0.4)
    every = [chosen.of(workers, seed) for _ in range(workers)]
    for step in range(20):
        first, *others = [(list(r.before(step)), list(r.after(step))) for r in every]
        assert all(other == first for other in others)


def test_a_rule_has_the_numbers_that_were_asked_for():
    given_ = {"average": "parameters", "alpha": 0.1, "tau": 7, "chance": 0.2}
    bsp, easgd, gosgd = (Chosen(name, **given_).of(3, 5) for name in RULES)
    assert (bsp.name, bsp.workers, bsp.average) == ("bsp", 3, "parameters")
    assert (easgd.name, easgd.workers, easgd.alpha, easgd.tau) == ("easgd", 3, 0.1, 7)
    assert (gosgd.name, gosgd.workers, gosgd.chance, gosgd.seed) == ("gosgd", 3, 0.2, 5)
    rules = [Chosen("gosgd", chance=0.5).of(4, seed) for seed in (1, 1, 2)]
    one, same, other = ([tuple(rule.after(step)) for step in range(50)] for rule in rules)
    assert one == same != other
    assert isinstance(next(push for step in one for push in step), Push)


NAN = float("nan")


@pytest.mark.parametrize(("wrong", "said", "fix"), [
    *(({"name": name, key: value}, f"{value}.* make no rule", "alpha and p of 0 to 1, tau of 1")
      for name in RULES
      for key, values in {"alpha": (-0.1, 1.1, NAN), "chance": (-0.1, 1.5, NAN), "tau": (0, -3)}
      .items() for value in values),
    *(({"name": name}, f"no rule is called '{name}'", "choose bsp, easgd, gosgd")
      for name in ("", "BSP", "asgd")),
    ({"name": "bsp", "average": "losses"}, "no average of 'losses'", "gradients, parameters"),
])  # fmt: skip
def test_what_makes_no_rule_is_refused(wrong, said, fix):
    with pytest.raises(QuestionError, match=said) as raised:
        Chosen(**wrong).of(2, 1)
    assert fix in raised.value.fixes[0]

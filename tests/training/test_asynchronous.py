"""Asynchronous rules between devices of one process: pace, conservation, staleness, endings."""

from dataclasses import replace
from statistics import median
from types import SimpleNamespace

import numpy as np
import pytest
from sessions import got, opened, places

from gpumap.backends.base import Clock
from gpumap.training.asynchronous import AsynchronousTraining, Supply, gossip, receiver
from gpumap.training.jobs import LocalWorkers, Params, Scaling, Spec, job_of
from gpumap.training.mpi_asynchronous import AsynchronousRank
from gpumap.training.network import Layer, Network
from gpumap.training.steps import HELD_OUT, held_out
from gpumap.training.worker_groups import RuleSpec

NET = Network("line", 8, (Layer(1, "sigmoid"),))
EACH, COUNT, EPOCHS, RATE = 16, 2048, 4, 0.05
RULES = ("easgd", "gosgd")


def job(rule, names, seed=1, rate=RATE, chance=0.25):
    chosen = RuleSpec(rule, tau=2, chance=chance)
    params = Params((NET,), (chosen,), Scaling("weak", EACH), "sgd", rate, linear=True, seed=seed)
    found = job_of(params, Spec("line", rule, tuple(names), whole=True))
    return replace(found, config=replace(found.config, data=NET.data(COUNT, seed)))


def training(sessions, rule, **others):
    clock = getattr(sessions[0], "clock", None) or Clock()
    named = dict(zip("abcdefgh", sessions, strict=False))
    return LocalWorkers(named, clock).training(job(rule, named, **others))


def held(made):
    """Return what is conserved: the parameters of all workers, by weight, and of the center."""
    weights = made.weights if made._center is None else [1.0] * len(made._group.workers)
    workers = zip(weights, made._group.workers, strict=True)
    found = sum(weight * got(worker.model.weights).astype(float) for weight, worker in workers)
    return found + (0.0 if made._center is None else made._center)


@pytest.mark.parametrize("place", places())
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("workers", [2, 4])
def test_what_a_rule_conserves_is_conserved_at_rest(place, rule, workers):
    """Every example is taken once, every message is blended in, and the weights sum up to 1."""
    rng = np.random.default_rng(1)
    with opened(*[place] * workers) as sessions:
        made = training(sessions, rule, rate=1e-30)
        assert isinstance(made, AsynchronousTraining)
        made.poison()
        for worker in made._group.workers:
            given = rng.integers(-1000, 1000, NET.parameters).astype(np.float32)
            worker.model.put(given)
            worker.session.synchronize()
        before, apart = held(made), np.ptp([got(w.model.weights) for w in made._group.workers])
        for _ in range(3):
            made.record()
            made.run(20)
            assert abs(held(made) - before).max() <= 1e-4 * 1000 * workers
            assert sum(made.weights) == pytest.approx(1.0, abs=1e-12)
            assert not any(state.inbox for state in made._states)
        assert np.ptp([got(w.model.weights) for w in made._group.workers]) < apart
        assert sum(state.steps for state in made._states) == 60 * workers
        assert made._supply.taken == 60 * workers * EACH
    assert made.account.runs == 3
    assert made.account.exchanges > 0


@pytest.mark.parametrize("rule", RULES)
def test_one_worker_ends(rule):
    with opened("fake") as (session,):
        made = training([session], rule)
        assert not isinstance(made, AsynchronousTraining)  # there is no one to exchange with
        alone = AsynchronousTraining(made._config, made._group, made._initial, session.clock)
        for each in (made, alone):
            each.poison()
            each.record()
            each.run(7)
            each.finish()
    assert alone._states[0].steps == 7
    assert alone.weights == [1.0]
    assert alone.account.stale == 0
    if rule == "gosgd":
        assert alone.parameters().tobytes() == made.parameters().tobytes()


@pytest.mark.parametrize("rule", RULES)
def test_several_learn_what_one_worker_learns(rule):
    """The loss after equal epochs, the median of ten seeds, is within 1 % of the single worker's.

    The examples are separable. A center takes as much part as a worker does: the rate is that of
    one worker more. What is under way learns nothing, so that gossip is rare.
    """
    ratios = []
    more = 5 / 4 if rule == "easgd" else 1.0
    with opened(*["fake"] * 4) as sessions:
        for seed in range(10):
            found = []
            for used, rate in ((sessions, RATE * more), (sessions[:1], RATE)):
                made = training(used, rule, seed=seed, rate=rate, chance=0.02)
                made.poison()
                made.run(EPOCHS * COUNT // (EACH * len(used)))
                made.finish()
                found.append(held_out(made._config, made.parameters()))
            ratios.append(found[0] / found[1])
    assert median(ratios) == pytest.approx(1.0, abs=0.01)


def test_an_exchange_of_a_rank_itself_makes_it_no_staler():
    """Only those of others since its last one: a center that it has just left is not stale."""
    server = object.__new__(AsynchronousRank)  # counting takes no communicator
    server._exchanges, server._last = 0, [0, 0]
    assert [server._missed(rank) for rank in (0, 0, 1, 0, 1, 1)] == [0, 0, 2, 1, 1, 0]


def test_what_is_held_out_is_no_example_of_the_training():
    """All of its examples come behind those that workers train on."""
    taken = []

    class Data:
        count = 64

        def batch(self, numbers):
            taken.extend(numbers.tolist())
            return numbers, numbers

    network = SimpleNamespace(loss=lambda *_: 0.5)
    config = SimpleNamespace(data=Data(), network=network)
    assert held_out(config, None) == 0.5
    assert taken == list(range(64, 64 + HELD_OUT))


def test_a_supply_hands_out_each_example_once():
    """As many at once as are wanted, and towards the end fewer; beyond its end none."""
    supply = Supply(job("easgd", "abc").config)
    supply.extend(100)
    parts, left = [], 300
    while (part := supply.take(0, 40))[1]:
        parts.append(part)
        assert part[1] <= max(left // 6, 1)
        left -= part[1]
    assert left == 0
    assert [first for first, _ in parts] == [
        sum(steps for _, steps in parts[:n]) * EACH for n in range(len(parts))
    ]
    assert supply.take(1) == (300 * EACH, 0)
    supply.extend(1)
    assert supply.take(2, 9) == (300 * EACH, 1)


@pytest.mark.parametrize(("workers", "chance"), [(1, 1.0), (2, 0.0), (2, 1.0), (5, 0.3)])
def test_who_is_sent_to(workers, chance):
    """Never the sender; all others alike; as often as the chance says."""
    random = gossip(1, 0)
    drawn = [receiver(random, chance, 0, workers) for _ in range(5000)]
    sent = [each for each in drawn if each is not None]
    assert 0 not in sent
    if workers == 1 or not chance:
        assert not sent
        return
    assert abs(len(sent) - 5000 * chance) <= 4 * (5000 * chance * (1 - chance)) ** 0.5
    counts = [sent.count(each) for each in range(1, workers)]
    assert max(counts) - min(counts) <= 8 * (len(sent) / (workers - 1)) ** 0.5

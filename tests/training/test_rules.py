"""Ranks that train one network: as one worker with all examples, at their own pace, in the end."""

from dataclasses import replace
from random import Random
from statistics import median

import numpy as np
import pytest
from sessions import opened, places

from gpumap.backends.base import Clock
from gpumap.bench.train_workers import LocalWorkers, Training
from gpumap.comm.algorithms import STEPS
from gpumap.training.jobs import Params, Scaling, Spec, job_of
from gpumap.training.network import Layer, Network
from gpumap.training.rules import RULES, RuleSpec, Server, receiver
from gpumap.training.steps import held_out

NET = Network("line", 8, (Layer(1, "sigmoid"),))
DEEP = Network("small", 8, (Layer(16, "tanh"), Layer(1, "sigmoid")))
EACH, COUNT, EPOCHS, RATE = 16, 2048, 4, 0.05
EPS = 2.0**-23
CUTS = {1: (24,), 2: (12, 12), 3: (8, 8, 8), 4: (6, 6, 6, 6)}
UNEVEN = {1: (24,), 2: (19, 5), 3: (1, 15, 8), 4: (11, 0, 4, 9)}


@pytest.fixture(scope="module", params=places())
def four(request):
    with opened(*[request.param] * 4) as sessions:
        yield sessions


def training(sessions, rule, network=NET, counts=None, **others):
    """Return a training on sessions; `counts`: examples of a step that each has."""
    rule = rule if isinstance(rule, RuleSpec) else RuleSpec(rule, tau=2, chance=0.25)
    given = {"optimizer": "sgd", "rate": RATE, "seed": 1} | others
    params = Params(network, (rule,), Scaling("weak", EACH), **given)
    named = dict(zip("abcdefgh", sessions, strict=False))
    job = job_of(params, Spec(rule.name, tuple(named), whole=True))
    job = replace(job, data=network.data(COUNT, given["seed"]), counts=counts or job.counts)
    clock = getattr(sessions[0], "clock", None) or Clock()
    job = replace(job, most=max(job.most, *job.counts))
    return Training(LocalWorkers(named, clock), job), job


def learned(made, steps):
    made.poison()
    made.run(steps)
    made.finish()
    return made.parameters()


def alone(config, steps, rate):
    parameters = config.params.network.initial(1).astype(np.float64)
    for step in range(steps):
        numbers = config.data.numbers(step * config.batch, (step + 1) * config.batch)
        x, y = config.data.batch(numbers)
        gradient = config.params.network.gradient(parameters, x, y.astype(float), 1 / config.batch)
        parameters -= rate * gradient
    return parameters


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("algorithm", STEPS)
def test_workers_are_one_worker_with_all_examples(four, algorithm, workers):
    for cuts in (CUTS, UNEVEN):
        rule, how = RuleSpec("bsp"), {"rate": 0.5, "algorithm": algorithm}
        made, config = training(four[:workers], rule, DEEP, cuts[workers], **how)
        found, exact = learned(made, 6), alone(config, 6, 0.5)
        assert abs(exact - DEEP.initial(1)).max() > 1e4 * EPS  # they did move
        # each of six steps rounds a few times what it adds to the largest number
        assert abs(found - exact).max() <= 40 * EPS * max(1.0, abs(exact).max())
        if 0 not in config.counts:
            assert made.check().passed  # bits of all of them, too


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_trains_whatever_drives_the_devices(four, rule):
    """Gradients are right; what steps take is known where a device has no events, too."""
    made, job = training(four[:2], RuleSpec(rule, tau=2, chance=1.0))
    assert abs(learned(made, 6) - job.initial).max() > 0
    spent = made.phases()
    assert min(spent["compute"], spent["comm"]) > 0
    assert made.check().passed


def test_what_is_remembered_stays_alike(four):
    rate, found = 0.01, []
    for counts in ((24,), (8, 8, 8)):
        how = {"optimizer": "adam", "rate": rate}
        made, _ = training(four[: len(counts)], RuleSpec("bsp"), DEEP, counts, **how)
        found.append(learned(made, 10))
        assert learned(made, 10).tobytes() == found[-1].tobytes()  # it begins again
    # Adam divides by a root: what is nearly 0 may go either way, by a part of the rate
    assert abs(found[0] - found[1]).max() <= 1e-3 * rate


@pytest.mark.parametrize("rule", RULES)
def test_one_worker_exchanges_nothing(rule):
    with opened("fake") as sessions:
        made, config = training(sessions, rule)
        assert abs(learned(made, 7) - alone(config, 7, RATE)).max() <= 40 * EPS
        assert made.phases()["comm"] == 0.0


@pytest.mark.parametrize("rule", ["easgd", "gosgd"])
def test_several_learn_what_one_worker_learns(rule):
    """After equal epochs on separable examples.

    A center takes as much part as a worker does: the rate is that of one worker more. What is
    under way learns nothing, so that gossip is rare.
    """
    ratios = []
    more = 5 / 4 if rule == "easgd" else 1.0
    spec = RuleSpec(rule, tau=2, chance=0.02)
    with opened(*["fake"] * 4) as sessions:
        for seed in range(10):
            found = []
            for used, rate in ((sessions, RATE * more), (sessions[:1], RATE)):
                made, config = training(used, spec, seed=seed, rate=rate * len(used))
                parameters = learned(made, EPOCHS * COUNT // (EACH * len(used)))
                found.append(held_out(config, parameters))
            ratios.append(found[0] / found[1])
    assert median(ratios) == pytest.approx(1.0, abs=0.01)


def test_each_example_is_handed_out_once():
    """As many at once as are wanted, and towards the end fewer; beyond its end none."""
    served = Server((EACH,) * 3, 0.25)
    served.extend(100)
    parts, left = [], 300
    while (part := served.answer(0, 40))[1]:
        parts.append(part)
        assert part[1] <= max(left // 6, 1)
        left -= part[1]
    assert left == 0
    assert [first for first, _ in parts] == [
        sum(steps for _, steps in parts[:n]) * EACH for n in range(len(parts))
    ]
    assert served.answer(1, 1) == (300 * EACH, 0)
    served.extend(1)
    assert served.answer(2, 9) == (300 * EACH, 1)


def test_a_rank_and_the_center_move_towards_each_other():
    """By alpha of what they differ by; both by one half are then equal, by 0 nothing moves."""
    rng = np.random.default_rng(1)
    rank, center = rng.integers(-1000, 1000, (2, 50)).astype(np.float32)
    for alpha in (0.0, 0.25, 0.5):
        served = Server((1, 1), alpha, center.copy())
        array = rank.copy()
        assert served.answer(0, 0, array) == (0, 0)
        assert np.array_equal(array, rank - np.float32(alpha) * (rank - center))
        assert np.array_equal(array + served.center, rank + center)
        assert np.array_equal(array, served.center) == (alpha == 0.5)


@pytest.mark.parametrize(("workers", "chance"), [(1, 1.0), (2, 0.0), (2, 1.0), (5, 0.3)])
def test_who_is_sent_to(workers, chance):
    """Never the sender; all others alike; as often as the chance says."""
    random = Random(1)  # noqa: S311 - no secret
    drawn = [receiver(random, chance, 0, workers) for _ in range(5000)]
    sent = [each for each in drawn if each is not None]
    assert 0 not in sent
    if workers == 1 or not chance:
        assert not sent
        return
    assert abs(len(sent) - 5000 * chance) <= 4 * (5000 * chance * (1 - chance)) ** 0.5
    counts = [sent.count(each) for each in range(1, workers)]
    assert max(counts) - min(counts) <= 8 * (len(sent) / (workers - 1)) ** 0.5

"""Workers that train one network do what one worker with all of the examples would do."""

import threading
from functools import partial

import numpy as np
import pytest
from sessions import REAL, got, opened, places, sent, skipped

from gpumap.comm.algorithms import ALGORITHMS, schedule
from gpumap.comm.local import HostSum, LocalExchange, send
from gpumap.training.network import Layer, Network, Replica, reference
from gpumap.training.worker_groups import (
    Elastic,
    LocalGroup,
    Mean,
    Optimizer,
    Push,
    RuleSpec,
    Worker,
)

NET = Network("small", 8, (Layer(16, "tanh"), Layer(1, "sigmoid")))
SEED, COUNT, BATCH, RATE = 1, 512, 64, 0.5
STEPS = 6  # where workers are compared with one, within rounding
EPS = 2.0**-23
CUTS = {1: (24,), 2: (12, 12), 3: (8, 8, 8), 4: (6, 6, 6, 6)}
UNEVEN = {1: (24,), 2: (19, 5), 3: (1, 15, 8), 4: (11, 0, 4, 9)}


@pytest.fixture(scope="module", params=places())
def four(request):
    with opened(*[request.param] * 4) as sessions:
        yield sessions


def joined(algorithm, sessions):
    if algorithm == "host":
        return partial(HostSum, sessions)

    def join(buffers):
        plan = schedule(algorithm, len(sessions), buffers[0].shape[0])
        return LocalExchange(plan, sessions, buffers)

    return join


def team(sessions, algorithm="ring", optimizer="sgd", most=BATCH):
    workers = [
        Worker(f"w{n}", Replica(NET, s, most), Optimizer(optimizer, s, NET.parameters))
        for n, s in enumerate(sessions)
    ]
    return LocalGroup(workers, joined(algorithm, sessions))


def train(crew, rule, examples, counts, steps, rate=RATE):
    """Take steps, each worker with its part of each batch; return the routes of all copies."""
    total, routes = sum(counts), set()
    stops = np.cumsum([0, *counts]).tolist()
    averaged = rule.spec.name == "bsp" and rule.spec.average == "gradients"
    local = not averaged or len(counts) == 1
    for step in range(steps):
        start = step * total
        for worker, a, b in zip(crew.workers, stops, stops[1:], strict=False):
            worker.model.load(*examples.batch(examples.numbers(start + a, start + b)))
            worker.model.compute(1 / max(b - a, 1) if local else 1 / total)
        shares = [count / total for count in counts]
        for wanted in rule.before(step):
            routes |= crew.exchange(wanted, shares)
        for worker in crew.workers:
            worker.update(rate)
        for wanted in rule.after(step):
            routes |= crew.exchange(wanted, shares)
    for worker in crew.workers:
        worker.session.synchronize()
    return routes


def held(crew):
    return [got(worker.model.weights) for worker in crew.workers]


def alone(examples, total, steps, rate=RATE):
    parameters = NET.initial(SEED).astype(np.float64)
    for step in range(steps):
        x, y = examples.batch(examples.numbers(step * total, (step + 1) * total))
        parameters -= rate * reference(NET, parameters, x, y.astype(np.float64), 1 / total)
    return parameters


@pytest.mark.parametrize("average", ["gradients", "parameters"])
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_workers_are_one_worker_with_all_examples(four, algorithm, workers, average):
    examples = NET.data(COUNT, SEED)
    exact = alone(examples, 24, STEPS)
    begin = NET.initial(SEED)
    assert abs(exact - begin).max() > 1e4 * EPS  # they did move
    crew = team(four[:workers], algorithm)
    for cuts in (CUTS, UNEVEN):
        crew.begin(begin)
        rule = RuleSpec("bsp", average).of(workers, SEED)
        train(crew, rule, examples, cuts[workers], STEPS)
        first, *others = held(crew)
        # each of six steps rounds a few times what it adds to the largest number
        assert abs(first - exact).max() <= 40 * EPS * max(1.0, abs(exact).max())
        assert all(other.tobytes() == first.tobytes() for other in others)


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_what_is_remembered_stays_alike(four, optimizer):
    examples, rate = NET.data(COUNT, SEED), {"momentum": 0.05, "adam": 0.01}[optimizer]
    found = []
    for counts in ((24,), (8, 8, 8)):
        crew = team(four[: len(counts)], optimizer=optimizer)
        crew.begin(NET.initial(SEED))
        train(crew, RuleSpec("bsp").of(len(counts), SEED), examples, counts, 10, rate)
        first, *others = held(crew)
        assert all(other.tobytes() == first.tobytes() for other in others)
        found.append(first)
    # Adam divides by a root: what is nearly 0 may go either way, by a part of the rate
    assert abs(found[0] - found[1]).max() <= (1e-3 * rate if optimizer == "adam" else 200 * EPS)


def test_a_team_begins_again(four):
    examples = NET.data(COUNT, SEED)
    crew, found = team(four[:2], optimizer="momentum"), []
    crew.prepare([Mean("gradients"), Elastic(1, 0.5)])
    for _ in range(2):
        crew.begin(NET.initial(SEED))
        assert got(crew.center).tobytes() == NET.initial(SEED).tobytes()
        for name in ("bsp", "easgd"):
            rule = RuleSpec(name, tau=2).of(2, SEED)
            train(crew, rule, examples, (12, 12), 6, 0.05)
        found.append([each.tobytes() for each in (*held(crew), got(crew.center))])
    assert found[0] == found[1]


def test_a_meeting_is_of_one_worker_and_the_centre(four):
    """Pushes are one behind the other."""
    rng = np.random.default_rng(1)
    values = [rng.integers(-1000, 1000, NET.parameters).astype(np.float32) for _ in range(3)]
    center = np.zeros(NET.parameters, np.float32)
    crew = team(four[:3])
    crew.prepare([Elastic(0, 0.25)])
    crew.begin(center)
    for worker, each in zip(crew.workers, values, strict=True):
        worker.model.put(each)
    for number in (2, 0):
        routes = crew.exchange(Elastic(number, 0.25), [1 / 3] * 3)
        moved = 0.25 * (values[number] - center)
        values[number], center = values[number] - moved, center + moved
        assert bool(routes) == (number > 0)  # its own device needs no copy
    assert [each.tolist() for each in held(crew)] == [each.tolist() for each in values]
    assert got(crew.center).tolist() == center.tolist()
    for push in (Push(0, 1, 0.5), Push(1, 2, 0.25), Push(2, 1, 0.5), Push(0, 1, 0.125)):
        assert crew.exchange(push, [1 / 3] * 3)
        a, b = values[push.sender], values[push.receiver]
        values[push.receiver] = b + np.float32(push.share) * (a - b)
    for each, wanted in zip(held(crew), values, strict=True):
        assert abs(each - wanted).max() <= 4 * EPS * 1000


@pytest.mark.parametrize("names", [
    pytest.param(names, marks=skipped(*dict.fromkeys(names)))
    for names in (*((name, name) for name in REAL), ("numpy", "pyopencl"))
])  # fmt: skip
def test_a_copy_stands_between_what_is_before_and_behind_it(names):
    size = 100_000
    with opened(*names) as (one, two):
        a, b = (sent(session, np.full(size, n, np.float32)) for n, session in enumerate((one, two)))
        for _ in range(10):
            send(a, b)
            two.run("shift", b, b, 1.0, size=size)
            send(b, a)
            one.run("shift", a, a, 1.0, size=size)
        assert (got(b) == 19).all()
        assert (got(a) == 20).all()


def test_a_session_that_is_ahead_leaves_the_sum_to_the_others(monkeypatch):
    """By way of the host: the next numbers of one come down before the sum went up to the other."""
    with opened("numpy", "numpy") as (one, two):
        a, b = (
            sent(session, np.full(100, n + 1, np.float32)) for n, session in enumerate((one, two))
        )
        sum_, ahead = HostSum((one, two), (a, b)), threading.Event()
        download, upload = one.download, two.upload

        def late(source, target, repeat=1):
            two._queue(partial(ahead.wait, 60))
            upload(source, target, repeat)

        monkeypatch.setattr(two, "upload", late)
        sum_.queue()  # its last upload waits until `one` has sent its next numbers
        one.run("fill", a, 100.0, size=100)

        def early(source, target, repeat=1):
            download(source, target, repeat)
            one._queue(ahead.set)

        monkeypatch.setattr(one, "download", early)
        sum_.queue()
        sum_.finish()
        assert (got(b) == 103).all()
        assert (got(a) == 103).all()

"""Training as a benchmark: its plan, its figures, what a step moves, and what memory it takes."""

from types import SimpleNamespace

import numpy as np
import pytest
from tables import table
from worlds import SETTINGS, counting, gpu, rows_on, world

from gpumap.backends.fake import FakeSession
from gpumap.bench.train import PER, Train, counts, divided, plan
from gpumap.bench.train_workers import LocalWorkers, Training
from gpumap.engine.verify import judged
from gpumap.errors import QuestionError
from gpumap.model import replace
from gpumap.training.jobs import Params, Scaling, Spec, job_of
from gpumap.training.network import Examples, Layer, Network, Order
from gpumap.training.optimizers import OPTIMIZERS
from gpumap.training.ranks import PHASES
from gpumap.training.rules import RULES, RuleSpec

TABLE = table(__file__)
NET = Network("small", 8, (Layer(16, "tanh"), Layer(1, "sigmoid")))
WEAK = Scaling("weak", 24)
ALL = tuple(RuleSpec(name) for name in RULES)


def asked(*rules, network=NET, scaling=WEAK, **others):
    given_ = {"optimizer": "sgd", "rate": 0.1} | others
    return Params(network, rules or (RuleSpec("bsp"),), scaling, **given_)


def training(params, *scripts, **others):
    here = world(*(scripts or (gpu(0), gpu(1))), **others)
    return here, Train(here.bindings, LocalWorkers(here.sessions, here.clock), params)


def planned(names, params):
    return plan(world(*(gpu(n) for n in range(names))).bindings, LocalWorkers({}), params)


def steps(found):
    return [case for case in found.cases if case.name == "step"]


@pytest.mark.parametrize(("rule", "share"), [("bsp", 1 / 48), ("easgd", 1 / 24), ("gosgd", 1 / 24)])
def test_a_rank_that_meets_others_takes_the_mean_of_its_own_examples(rule, share):
    """Those of bsp sum up to the mean of all."""
    made = job_of(asked(RuleSpec(rule)), Spec(rule, ("a", "b"), whole=True))
    assert (made.counts, made.share(1)) == ((24, 24), share)


@pytest.mark.parametrize(("names", "found"), TABLE["counts"])
def test_it_is_trained_on_1_2_4_and_all_names(names, found):
    assert counts(names) == found
    if names <= 8:
        cases = steps(planned(names, asked()))
        assert [case.names for case in cases] == [tuple("abcdefgh"[:n]) for n in found]


@pytest.mark.parametrize("tau", [1, 7, 10])
def test_an_iteration_of_easgd_holds_one_meeting(tau):
    found = steps(planned(2, asked(*(replace(rule, tau=tau) for rule in ALL))))
    assert {(c.params["rule"], len(c.names)): c.params["steps"] for c in found} == {
        ("bsp", 1): 1, ("bsp", 2): 1, ("easgd", 2): -(-50 // tau) * tau, ("gosgd", 2): 50,
    }  # fmt: skip


def test_a_step_makes_its_batch_and_a_gradient_keeps_it():
    """Each worker its own part, of the first batch where it is kept."""
    here = world(gpu(0), gpu(1))
    taken = []

    def batch(numbers):
        taken.append(tuple(numbers.tolist()))
        return Examples(8, 1, 1).batch(numbers)

    data = Order(1024, 1, batch)
    for whole in (False, True):
        known = job_of(asked(), Spec("bsp", ("a", "b"), whole=whole))
        made = Training(LocalWorkers(here.sessions, here.clock), replace(known, data=data))
        made.poison()
        made.run(3)
        made.finish()
        parts = [tuple(data.numbers(n * 24, (n + 1) * 24).tolist()) for n in range(6)]
        assert sorted(taken) == sorted(parts if whole else parts[:2])
        taken.clear()
    found = {case.name: case.params["input"] for case in planned(1, asked()).cases}
    assert found == {"compute": "kept", "step": "made"}


@pytest.mark.parametrize("other", [0, 1, 2])
def test_one_worker_with_other_bits_is_wrong(other):
    """Each is right within rounding, and they are not the same."""
    answers = [(judged("float32 reference", 0.5), "bits") for _ in range(3)]
    made = Training(SimpleNamespace(command=lambda _: lambda _: answers, sessions=list), ())
    assert made.check().passed
    answers[other] = answers[other][0], "other bits"
    assert not made.check().passed


def test_sessions_without_kernels_are_skipped():
    """As pygpu's are: each of their cases says so, and none is compared with them."""
    here = world(gpu(0), gpu(1, features=("float64",)))
    found = plan(here.bindings, LocalWorkers(here.sessions, here.clock), asked(*ALL))
    reasons = {case.names: case.skip for case in found.cases}
    assert reasons["a",] is None
    assert reasons["a", "b"].code == "unsupported"
    assert reasons["a", "b"].text == "fake runs no kernels of gpumap's"
    assert all(case.against is None for case in found.cases if case.skip)


@pytest.mark.parametrize("clock", [True, False])
def test_the_phases_of_scripted_devices_are_the_time(clock, monkeypatch):
    """A device that cannot tell when its queue came to a mark is waited for."""
    if not clock:
        monkeypatch.setattr(FakeSession, "at", lambda *_: None)
    scripts = (gpu(n, bandwidth=2.0**24) for n in range(3))
    for row in rows_on(*training(asked(*ALL), *scripts), replace(SETTINGS, blocks=3)):
        assert set(PHASES) <= set(row.metrics)
        spent = sum(row.metrics[phase].value for phase in PHASES)
        examples = row.case.params["batch"] * row.case.params["steps"]
        assert spent == pytest.approx(row.metrics["time"].value * PER / examples, rel=1e-9)
        if len(row.case.names) == 1 or row.case.name == "compute":
            assert row.metrics["comm"].value == 0.0
        else:
            assert row.metrics["comm"].value > 0.0


def paced(rule, rates=(1.0, 0.5), bandwidth=1e10, **others):
    """Return the row of two scripted devices of those rates, which compute most of the time."""
    wide = Network("wide", 2048, (Layer(2048, "relu"), Layer(1, "sigmoid")))
    others = {"scaling": Scaling("weak", 1024)} | others
    params = asked(rule, network=wide, cases=("step",), **others)
    exact = {"bandwidth": bandwidth, "latency": 2.0**-20}
    scripts = (gpu(n, rate=1e12 * rate, **exact) for n, rate in enumerate(rates))
    here, benchmark = training(params, *scripts, light=True)
    return rows_on(here, benchmark, replace(SETTINGS, budget=60.0, blocks=2))[-1], wide


@pytest.mark.parametrize(("rule", "least", "most"), TABLE["half_as_fast"])
def test_a_device_half_as_fast_adds_a_half_only_where_no_one_waits(rule, least, most):
    row, _ = paced(RuleSpec(rule))
    assert least <= row.metrics["speedup"].value <= most


def test_an_exchange_of_easgd_is_comm_and_waiting_is_none():
    """By hand: the parameters go to the host, to the center, and come back."""
    for bandwidth in (1e10, 32e10):
        row, wide = paced(RuleSpec("easgd", tau=5), bandwidth=bandwidth)
        meetings = PER / (2 * 1024 * 5)  # of each worker; a sample may have one more or less
        each = 2 * (4 * wide.parameters / bandwidth + 2.0**-20)
        assert row.metrics["comm"].value == pytest.approx(meetings * each, rel=0.06)
        assert row.metrics["sync"].value < 0.04 * row.metrics["compute"].value


LARGE = Network("large", 300, (Layer(200, "tanh"), Layer(50, "relu"), Layer(1, "sigmoid")))
# nothing holds its sums
DEEP = Network("deep", 8, (Layer(16, "relu"), Layer(16, "relu"), Layer(1, "sigmoid")))


@pytest.mark.parametrize(("optimizer", "rules"), [
    *((optimizer, ALL) for optimizer in OPTIMIZERS), *(("sgd", [rule]) for rule in ALL),
])  # fmt: skip
def test_the_plan_has_the_memory_that_is_taken(optimizer, rules):
    kind, highest = counting()
    scaling = Scaling("weak", 4)
    params = asked(*rules, network=LARGE, scaling=scaling, optimizer=optimizer, learn=1)
    here, benchmark = training(params, kind=kind)
    rows_on(here, benchmark, replace(SETTINGS, budget=0.0, blocks=1))
    assert highest.keys() == {"cuda:0", "cuda:1"}
    for id_, taken in highest.items():
        assert taken <= benchmark.plan.memory[id_] <= 2 * taken


def test_what_trained_to_no_number_is_not_learned():
    params = asked(*ALL, network=DEEP, rate=1e30, learn=480, cases=("step",))
    rows = rows_on(*training(params), replace(SETTINGS, blocks=1))
    assert {(row.status, row.reason.code) for row in rows} == {("failed", "diverged")}
    assert "a (worker 0, cuda0)" in rows[0].reason.text
    assert not any("loss" in row.metrics for row in rows)


def test_loss_and_accuracy_are_of_what_was_learned():
    params = asked(*ALL, learn=960, cases=("step",))
    here, benchmark = training(params)
    learned = benchmark.iteration(steps(benchmark.plan)[-1]).parameters()
    rows = rows_on(here, benchmark, replace(SETTINGS, blocks=1))
    data = NET.data(131_072, params.seed)
    held = data.batch(np.arange(131_072, 131_072 + 1024))
    assert rows[-1].metrics["loss"].value == pytest.approx(NET.judged("loss", learned, *held))
    right = NET.activations(learned, held[0])[-1].round() == held[1]
    assert rows[-1].metrics["accuracy"].value == pytest.approx(right.mean())
    assert right.mean() > 0.5
    assert len({row.metrics["loss"].value for row in rows}) == len(rows)


def test_a_device_too_slow_for_an_example_is_refused():
    with pytest.raises(QuestionError, match="leaves b no example of a batch of 64"):
        paced(RuleSpec("bsp"), (1.0, 1e-3), scaling=Scaling("weak", 32), split="weighted")


@pytest.mark.parametrize(("split", "parts", "dropped"), TABLE["splits"])
def test_a_batch_is_split_as_is_said(split, parts, dropped):
    """Weighted: measured first, so that no worker waits; the remainder is reported."""
    scaling = Scaling("strong", 1023)
    row, _ = paced(RuleSpec("bsp"), bandwidth=1e15, scaling=scaling, split=split)
    assert row.case.params["split"] == split
    assert row.case.params["batch"] == sum(parts) == 1023 - dropped
    waited = row.metrics["sync"].value / row.metrics["compute"].value
    assert (waited < 0.01) == (split == "weighted")
    here = world(gpu(0), gpu(1))
    params = asked(scaling=scaling, split=split, rates=(2.0, 1.0))
    said = divided(here.bindings, params)
    assert said.startswith(f"batch of {sum(parts)}: a {parts[0]}, b {parts[1]}")
    assert ("1 of 1023 dropped" in said) == bool(dropped)

"""What a scripted device holds no data of takes the same time, and is found wrong where it is."""

import tracemalloc

import pytest
from worlds import SETTINGS, copies_on, dot_on, gpu, rows_on, world

from gpumap.backends.fake.script import FakeHost
from gpumap.bench.allreduce import AllReduce
from gpumap.bench.allreduce import Params as AllReduceParams
from gpumap.bench.chain import Chain
from gpumap.bench.chain import Params as ChainParams
from gpumap.bench.chain import plan as chain_plan
from gpumap.bench.dot import Params
from gpumap.bench.exchanges import LocalRanks
from gpumap.bench.train import Train
from gpumap.bench.train_workers import LocalWorkers
from gpumap.engine.needs import check_memory
from gpumap.engine.verify import HOLDS, SCRIPTED
from gpumap.errors import QuestionError
from gpumap.machine.blas import Cores
from gpumap.machine.topology import read
from gpumap.model import Plan, replace
from gpumap.training.jobs import Params as TrainParams
from gpumap.training.jobs import Scaling
from gpumap.training.network import Layer, Network
from gpumap.training.rules import RULES, RuleSpec

QUICK = replace(SETTINGS, blocks=2)
LONG = replace(QUICK, budget=1e6)
NET = Network("net", 96, (Layer(192, "relu"), Layer(4, "sigmoid")))


def opened(*scripts, light=True):
    host = FakeHost(latency=2.0**-10)  # few iterations, as data are slow
    return world(*scripts, host=host, light=light)


def with_and_without(kind, *scripts):
    """Measure the same with all data and with hollow ones; return the rows in pairs."""
    every = (opened(*scripts, light=light) for light in (False, True))
    return list(zip(*(rows_on(here, kind(here), QUICK) for here in every), strict=True))


def dot(here, sizes=(192,)):
    return dot_on(here, Params(sizes))


def transfer(here):
    return copies_on(here, 100_000, sweep=(64, 70_000))


def chain(here):
    return Chain(chain_plan(here.bindings[0], ChainParams((5000,))), here, Cores(1), 1)


def allreduce(here):
    params = AllReduceParams((100_000,))
    return AllReduce(here.bindings, LocalRanks(tuple(here.sessions.values())), params)


def train(here, params=None):
    in_step = (name for name in RULES if name not in ("easgd", "gosgd"))  # whose pace data change
    rules = tuple(RuleSpec(name, tau=2, chance=0.5) for name in in_step)
    params = params or TrainParams(NET, rules, Scaling("weak", 64), "adam", 0.001)
    return Train(here.bindings, LocalWorkers(here.sessions, here.clock), params)


SLOW, NOISY = {"launch": 2.0**-12}, {"noise": 0.02}


@pytest.mark.parametrize(("kind", "more"), [
    (dot, SLOW), (transfer, SLOW), (chain, SLOW), (allreduce, SLOW), (train, SLOW),
    (dot, NOISY), (transfer, NOISY),
])  # fmt: skip
def test_it_takes_as_long_as_with_data(kind, more):
    """Every sample of every case, on unequal devices; with noise every row and its status."""
    scripts = [gpu(0, **more), gpu(1, rate=2.0**30, **more), gpu(2, engine="bus", **more)]
    rows = with_and_without(kind, *scripts)
    plain, light = (
        {row.check.method for row in every if row.check} for every in zip(*rows, strict=True)
    )
    assert SCRIPTED in light - plain
    for before, after in rows:
        assert (before.case.id, before.status) == (after.case.id, after.status)
        if before.samples is None or "noise" in more:  # whose draws come in another order
            continue
        assert after.samples.seconds == pytest.approx(before.samples.seconds, rel=1e-9)
        assert after.samples.iterations_per_sample == before.samples.iterations_per_sample
        assert set(after.metrics) == set(before.metrics)


@pytest.mark.parametrize("fault", ["flip", "short", "nothing"])
@pytest.mark.parametrize("where", ["upload", "download", "copy"])
def test_a_copy_that_goes_wrong_is_wrong_at_the_same_byte(fault, where):
    scripts = [gpu(n, fault=fault, fault_in=where, features=("events",)) for n in (0, 1)]
    own = {"upload": "h2d", "download": "d2h", "copy": "d2d"}[where]
    for before, after in with_and_without(transfer, *scripts):
        if before.case.name != own or before.case.skip is not None:
            continue
        assert (after.status, after.reason) == (before.status, before.reason)
        assert after.check.first_bad_offset == before.check.first_bad_offset
        assert after.status == "failed"


@pytest.mark.parametrize("fault", ["wrong-product", "flip"])
@pytest.mark.parametrize("size", [64, 4096])
def test_a_wrong_product_is_told(fault, size):
    here = opened(gpu(0, fault=fault, fault_in="upload"), gpu(1))
    for row in rows_on(here, dot(here, sizes=(size,)), LONG):
        assert row.status == ("failed" if "a" in row.case.names else "ok")
        if row.status == "failed":
            assert row.reason.code == "wrong-data"
            assert (row.check.method == SCRIPTED) == (4 * size**2 > HOLDS)


@pytest.mark.parametrize("kind", [chain, allreduce, train])
def test_other_benchmarks_are_wrong_where_a_copy_is(kind):
    here = opened(*(gpu(n, fault="flip", fault_in="upload") for n in (0, 1)))
    rows = rows_on(here, kind(here), QUICK)
    codes = {row.reason.code for row in rows if row.reason is not None and row.case.skip is None}
    assert "wrong-data" in codes
    assert {row.status for row in rows if row.check and row.check.method == SCRIPTED} >= {"failed"}


def test_devices_multiply_what_no_host_could_hold():
    """A terabyte of matrices takes no memory of the host's, and is no matter of its room."""
    here = opened(*(gpu(n, memory=1 << 50, rate=1e15) for n in range(8)))
    tracemalloc.start()
    try:
        rows = rows_on(here, dot(here, sizes=(1 << 17,)), LONG)
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()
    assert {"ok"} == {row.status for row in rows}
    here = world(gpu(0, memory=1 << 60))
    terabytes = Plan((), {"host": 1 << 55, "cuda:0": 1 << 50})
    bindings = [replace(b, device=replace(b.device, backend="cupy")) for b in here.bindings]
    check_memory(terabytes, here.bindings, read())
    with pytest.raises(QuestionError):
        check_memory(terabytes, bindings, read())


@pytest.mark.parametrize("learn", [0, 128])
def test_what_is_to_be_learned_is_computed(learn):
    here = opened(gpu(0), gpu(1))
    params = TrainParams(NET, (RuleSpec("bsp"),), Scaling("weak", 64), "sgd", 0.1, learn=learn)
    steps = [r for r in rows_on(here, train(here, params), QUICK) if r.case.name == "step"]
    assert {bool(learn)} == {"loss" in row.metrics for row in steps}
    assert {SCRIPTED if not learn else "float32 reference"} == {row.check.method for row in steps}

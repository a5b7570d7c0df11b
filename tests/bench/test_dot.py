"""The cases of the product of matrices: what they are called, what they need, what they hold."""

import numpy as np
import pytest
from buffers import verified
from refusals import refusal
from tables import table
from worlds import RATE, SETTINGS, case_of, counting, dot_on, gpu, noting, rows_on, world

from gpumap.backends.fake import FakeSession
from gpumap.bench.dot import CASES, Params, pilot, plan
from gpumap.engine.needs import check_features
from gpumap.engine.products import Pair, Product
from gpumap.engine.sampling import LOOKS, reference
from gpumap.errors import Unsupported, WrongDataError
from gpumap.model import Limit, replace

TABLE = table(__file__)


def planned(*scripts, **params):
    bindings = world(*scripts).bindings
    return plan(bindings, Params(**{"sizes": (64,)} | params), bindings[0])


def iterations(*names, sizes=(64,)):
    benchmark = dot_on(world(gpu(0), gpu(1)), Params(sizes))
    return [benchmark.iteration(case_of(benchmark, name)) for name in names]


@pytest.mark.parametrize(("launch", "bound"), [(10.0, True), (1e-6, False)])
def test_products_whose_queueing_takes_the_time_are_launch_bound(launch, bound):
    """Then the rate is the host's, and it has no share of a peak."""
    here = world(gpu(0, rate=2.0**20, launch=launch, peak=2.0**30))
    params = Params((64,), cases=("solo", "one+fetch"))
    rows = {r.case.name: r for r in rows_on(here, dot_on(here, params))}
    assert ("launch-bound" in rows["solo"].flags) == bound
    assert (rows["solo"].ceiling is None) == bound
    assert "launch-bound" not in rows["one+fetch"].flags


@pytest.mark.parametrize(("asked", "measured"), [*TABLE["brought"], (CASES, CASES)])
def test_a_case_brings_what_it_is_judged_against(asked, measured):
    found = planned(gpu(0), gpu(1), cases=asked)
    assert [*measured] == list(dict.fromkeys(case.name for case in found.cases))


MODELS = [gpu(n, name=f"Fake GPU {name}") for n, name in enumerate("ABC")]


@pytest.mark.parametrize(("models", "times", "name"), TABLE["fastest"])
def test_of_several_models_the_fastest_is_the_reference(models, times, name):
    """The first one that no other is more than 10 % faster than; a model has name and memory."""
    scripts = [replace(gpu(n), **more) for n, more in enumerate(models)]
    assert reference(world(*scripts).bindings, lambda _: times or {}).name == name


def test_of_each_model_the_first_device_is_compared():
    """With devices of another model as well; where the map has it, the baseline's one stays."""
    compared = []

    def look(bindings):
        compared.append([binding.name for binding in bindings])
        return {"a": 1.5, "c": 1.4}

    bindings = world(gpu(0), gpu(1), gpu(2, name="Fake GPU C")).bindings
    assert (reference(bindings, look).name, compared) == ("a", [["a", "c"]])
    times = dict(zip("abc", (1.0, 2.0, 3.0), strict=True))
    found = [reference(world(*MODELS).bindings, lambda _: times, base).name for base in "bz"]
    assert found == ["b", "a"]


def test_the_pilot_times_one_product_on_each_device_once():
    """At one size, whatever is asked for or it is called; a lost one has no time by any name.

    They take turns: what is slow for a while is slow for each of them.
    """
    kind, heard = noting("gemm")
    lost = gpu(2, fault="lost")
    here = world(gpu(0), gpu(0), gpu(1, rate=RATE / 2), lost, lost, kind=kind)
    times = pilot(here.bindings, here, Params((64, 128)))
    a, b = pytest.approx(2.0**-3), pytest.approx(2.0**-2)
    assert times == {"a": a, "b": a, "c": b}
    assert here.sessions["b"].commands == here.sessions["e"].commands == 0
    turns = [("gemm", "cuda:0"), ("gemm", "cuda:1")]
    assert [each for each in heard if each in turns] == turns * (1 + LOOKS)


def test_peaks_are_asked_for_before_anything_is_timed():
    """Once for each device: at the end of a run that was stopped, no session is open any more."""
    kind, asked = noting("peak")
    here = world(gpu(0, peak=2.0**32), gpu(0, peak=2.0**32), gpu(1), kind=kind)
    params = Params((64, 128), cases=("solo",))
    benchmark = dot_on(here, params)
    early = [benchmark.limit(case) for case in benchmark.plan.cases]
    for group in benchmark.plan.groups:
        benchmark.begin(group)
    late = [benchmark.limit(case) for case in benchmark.plan.cases]
    assert early == [None] * 6
    assert [limit and limit.value for limit in late] == [2.0**32, 2.0**32, None] * 2
    assert asked == [("peak", "cuda:0"), ("peak", "cuda:1")]


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_an_element_type_that_a_device_has_not(dtype):
    """It says which device, and the fix; float32 is there always."""
    here = world(gpu(0, features=(dtype,)), gpu(1, features=()))
    check_features(here.bindings, here.sessions, "float32")
    check_features(here.bindings[:1], here.sessions, dtype)
    said = refusal(Unsupported, check_features, here.bindings, here.sessions, dtype)
    assert f"cuda1 (fake) has no {dtype} products" == said.message
    assert said.hint == "use --dtype float32, or map b to a device that has them"


FEW = ("many", "one+fetch", "solo")


@pytest.mark.parametrize("cases", [CASES, ("solo",), ("one",), ("one+fetch",), ("many",), FEW])
@pytest.mark.parametrize("sizes", [(64,), (32, 64), (64, 32)])
@pytest.mark.parametrize(
    "scripts", [(gpu(0),), (gpu(0), gpu(1)), (gpu(0), gpu(0)), (gpu(0), gpu(1), gpu(2), gpu(1))]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_plan_takes_what_is_really_allocated(scripts, sizes, cases, dtype):
    kind, highest = counting()
    here, params = world(*scripts, kind=kind), Params(sizes, dtype, cases)
    pilot(here.bindings, here, params)
    benchmark = dot_on(here, params)
    rows_on(here, benchmark, replace(SETTINGS, blocks=1))
    assert highest.items() <= benchmark.plan.memory.items()
    assert benchmark.plan.memory.keys() - highest.keys() == {"host"}


@pytest.mark.parametrize(
    ("cases", "landings"), [(("one",), 0), (("solo",), 0), (("one+fetch",), 2), (CASES, 2)]
)
def test_the_host_has_room_for_what_is_fetched(cases, landings):
    bare, found = (planned(gpu(0), gpu(1), cases=each).memory for each in (("solo",), cases))
    assert landings * 64 * 64 * 4 == found["host"] - bare["host"]


def test_each_name_has_matrices_of_its_own():
    one, many, fetched = iterations("one", "many", "one+fetch")
    assert [p.session for p in fetched._products] == [p.session for p in one._products]
    for work in (one, many):
        work.queue()
    first, second = one._products
    assert np.array_equal(second.out.native, many._products[1].out.native)
    assert not np.array_equal(first.out.native, second.out.native)
    assert (first.name, second.name) == ("a", "a")


@pytest.mark.parametrize("name", CASES)
def test_a_poisoned_iteration_is_wrong_until_it_is_done(name):
    (work,) = iterations(name, sizes=(300,))
    work.queue()
    work.finish()
    work.poison()
    poisoned = work.check()
    assert (False, float("inf")) == (poisoned.passed, poisoned.max_error)
    assert verified(work).passed


@pytest.mark.parametrize("name", ["many", "many+fetch", "one"])
def test_every_product_of_an_iteration_is_checked(name):
    (work,) = iterations(name)
    work.poison()
    work.queue()
    second = work._products[1]
    (second.pair.destination if "fetch" in name else second.out.native)[3, 3] += 1000
    assert not work.check().passed


def test_poison_reaches_every_element_of_a_result():
    """Rows are uploaded in blocks, and a product of several blocks is poisoned in all of them."""
    session = world(gpu(0)).sessions["a"]
    product = Product("a", session, Pair((1, 0), 300, "float32"))
    product.queue()
    product.poison()
    assert np.isnan(product.out.native).all()


def test_the_ceiling_of_several_names_counts_their_hardware_once():
    """The best of what they share; as well known as the least of them, and none without each."""
    here = world(gpu(0, hardware=("x",)), gpu(1, hardware=("x",)), gpu(2))
    benchmark = dot_on(here)
    many = case_of(benchmark, "many")
    given = [(4.0, "one", "computed"), (5.0, "two", "computed"), (8.0, "three", "reported")]
    peaks = {
        f"cuda:{n}": Limit("rate", rate, "FLOP/s", *known) for n, (rate, *known) in enumerate(given)
    }
    benchmark._peaks = peaks
    assert benchmark.limit(many) == Limit("rate", 13.0, "FLOP/s", "two; three", "reported")
    benchmark._peaks = peaks | {"cuda:2": None}
    assert benchmark.limit(many) is None


@pytest.mark.parametrize("name", ["one+fetch", "many+fetch"])
def test_every_product_is_queued_before_the_first_fetch_and_each_fetch_is_waited_for(name):
    """As a program does that uses its results: devices work while the first one is fetched."""
    kind, heard = noting("gemm", "download", "synchronize")
    benchmark = dot_on(world(gpu(0), gpu(1), kind=kind))
    work = benchmark.iteration(case_of(benchmark, name))
    heard.clear()
    work.queue()
    assert [what for what, _ in heard] == ["gemm"] * 2 + ["download", "synchronize"] * 2


class _Flipping(FakeSession):
    """A device to which each upload flips the lowest bit of one element: no product shows it."""

    def upload(self, source, target, repeat=1):
        super().upload(source, target, repeat)
        target.native.reshape(-1).view(np.uint8)[0] ^= 1


@pytest.mark.parametrize(("kind", "fault"), [(_Flipping, None), (FakeSession, "nothing")])
def test_a_wrong_byte_of_an_operand_is_found(kind, fault):
    """Before a product is made of it, which may hide it; nor may what never came pass."""
    session = world(gpu(0, fault=fault, fault_in="download"), kind=kind).sessions["a"]
    with pytest.raises(WrongDataError, match="arrived wrong"):
        Product("a", session, Pair((1, 0), 64, "float32"))

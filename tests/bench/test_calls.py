"""What is computed for a break-even, a wrong answer of which is seen; and what a link carries."""

import numpy as np
import pytest
from cases import planned_case
from worlds import copies_on, gpu, world

from gpumap.bench.calls import DeviceCall, Placed
from gpumap.bench.link_limit import LANES, limit
from gpumap.bench.workloads import WORKLOADS, Problem
from gpumap.errors import WrongDataError
from gpumap.model import Binding, Device, DeviceRef, Kind, Work, replace

EVERY = pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)


@EVERY
@pytest.mark.parametrize("rows", [1, 3, 257, 300])
def test_the_host_is_right(workload, rows):
    """NumPy's own answer is within what rounding allows; one wrong element is not, anywhere."""
    problem = Problem(workload, rows, seed=1)
    out = np.empty(problem.shape, np.float32)
    problem.compute(out)
    check = problem.check(out)
    assert check.passed
    assert 0.0 <= check.max_error <= check.bound
    assert (check.method, check.bound) == ("float64 reference", 1.0)
    right = out[-1, -1]
    for wrong in (0.5, -1.0, np.nan, np.inf):
        out[-1, -1] = right + wrong
        assert not problem.check(out).passed


@EVERY
@pytest.mark.parametrize("upload", [True, False])
def test_a_wrong_byte_of_what_is_moved_with_a_call_is_found(workload, upload):
    """The lowest of an element, which y hides in its rounding: x is compared where it is moved."""
    placed = Placed(Problem(workload, 64, 1), world(gpu(0)).sessions["a"])
    call = DeviceCall(placed, upload=upload)
    call.poison()
    call.queue()
    assert call.check().passed
    placed._x.native.reshape(-1).view(np.uint8)[0] ^= 1
    if not upload:
        assert call.check().passed
        return
    with pytest.raises(WrongDataError, match="arrived wrong"):
        call.check()


def device(number=0, pci=None, **facts):
    ref = DeviceRef(Kind.CUDA, number)
    return Device(f"cuda:{number}", Kind.CUDA, ref, "x", "cupy", pci=pci, facts=facts)


FIVE = {"max_link_generation": 5, "max_link_width": 16}
ONE = device(0, "a", **FIVE)


@pytest.mark.parametrize(
    ("generation", "rate"),
    [(1, 0.25e9), (2, 0.5e9), (3, 0.985e9), (4, 1.969e9), (5, 3.938e9), (6, 7.563e9)],
)
def test_a_lane(generation, rate):
    """The figures that everybody knows, in B/s."""
    assert LANES[generation] == pytest.approx(rate, rel=1e-3)


def test_the_links_of_several_devices_add_up():
    """One that two names share counts once; both ways carry twice."""
    told, two = limit([ONE]), device(1, "b", **FIVE)
    assert (told.metric, told.unit, told.origin) == ("bandwidth", "B/s", "reported")
    assert told.value == pytest.approx(63.0e9, rel=1e-2)
    assert limit([ONE, two]).value == pytest.approx(126.0e9, rel=1e-2)
    assert limit([ONE, device(2, "a", **FIVE)]).value == told.value
    assert limit([ONE], directions=2).value == 2 * told.value


@pytest.mark.parametrize("facts", [
    {}, {"max_link_generation": 5}, {"max_link_width": 16},
    *({"max_link_generation": generation, "max_link_width": 16} for generation in ("5", 7)),
])  # fmt: skip
def test_without_both_there_is_none(facts):
    """Nor of a generation that is not known."""
    assert limit([device(**facts)]) is None
    assert limit([ONE, device(1, "b", **facts)]) is None


def test_copies_both_ways_have_the_link_twice():
    here = world(gpu(0))
    benchmark = copies_on(here, 400)
    linked, one_way = (Binding("a", ONE),), limit([ONE]).value
    found = {
        case.name: benchmark.limit(replace(case, bindings=linked))
        for case in (*benchmark.plan.cases, planned_case("transfer", "d2d", {}, linked, Work()))
    }
    assert {name: top and top.value for name, top in found.items()} == {
        "h2d": one_way, "d2h": one_way, "bidir": 2 * one_way, "d2d": None,
    }  # fmt: skip

"""What a link carries: by its generation and width, one way, after the encoding."""

import pytest
from worlds import copies_on, gpu, world

from gpumap.bench.calls import lane, limit
from gpumap.model import Binding, Case, Device, DeviceRef, Kind, Work, replace


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
    assert lane(generation) == pytest.approx(rate, rel=1e-3)


def test_a_generation_that_is_not_known_is_no_ceiling():
    assert [lane(generation) for generation in (0, 7, -1)] == [None] * 3
    assert limit([device(max_link_generation=7, max_link_width=16)]) is None


def test_the_links_of_several_devices_add_up():
    """One that two names share counts once; both ways carry twice."""
    told, two = limit([ONE]), device(1, "b", **FIVE)
    assert (told.metric, told.unit, told.origin) == ("bandwidth", "B/s", "reported")
    assert told.value == pytest.approx(63.0e9, rel=1e-2)
    assert limit([ONE, two]).value == pytest.approx(126.0e9, rel=1e-2)
    assert limit([ONE, device(2, "a", **FIVE)]).value == told.value
    assert limit([ONE], directions=2).value == 2 * told.value


@pytest.mark.parametrize("facts", [{}, {"max_link_generation": 5}, {"max_link_width": 16},
                                   {"max_link_generation": "5", "max_link_width": 16}])  # fmt: skip
def test_without_both_there_is_none(facts):
    assert limit([device(**facts)]) is None
    assert limit([ONE, device(1, "b", **facts)]) is None


def test_copies_both_ways_have_the_link_twice():
    here = world(gpu(0))
    benchmark = copies_on(here, 400)
    linked, one_way = (Binding("a", ONE),), limit([ONE]).value
    found = {
        case.name: benchmark.limit(replace(case, bindings=linked))
        for case in (*benchmark.plan.cases, Case("transfer", "d2d", {}, linked, Work()))
    }
    assert {name: top and top.value for name, top in found.items()} == {
        "h2d": one_way, "d2h": one_way, "bidir": 2 * one_way, "d2d": None,
    }  # fmt: skip

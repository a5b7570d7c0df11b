"""A pair of devices that is slower, or faster, than the others of its sort is named."""

import pytest
from copy_rows import MB, copy, exactly, gpu, named, nowhere
from hypothesis import given
from hypothesis import strategies as st

from gpumap.judge.transfers import copies_explained, odd_pairs
from gpumap.model import replace

GB = 1e9
PCIE4 = {"max_link_generation": 4, "max_link_width": 16}
PCIE3 = {"max_link_generation": 3, "max_link_width": 16}


def pairs(*rates, devices=None, route="peer", spread=0.001, **more):
    every = named(*(devices or [gpu(n) for n in range(len(rates) + 1)]))
    return [
        copy("d2d", (every[0], other), MB / (rate * GB), memory="device", route=route,
             spread=spread, **more)
        for other, rate in zip(every[1:], rates, strict=True)
    ]  # fmt: skip


def odd(rows):
    found = odd_pairs(rows)
    return {"->".join(r.case.names): found[r.case.id].text for r in rows if r.case.id in found}


@pytest.mark.parametrize(("rates", "expected"), [
    ((20, 5), {}),  # nobody can tell which
    ((20, 20, 5), {"a->d": "a->d: 5.00 GB/s, its group 20.0 GB/s"}),
    ((24.8, 24.7, 6.1, 24.9, 24.8), {"a->d": "a->d: 6.10 GB/s, its group 24.8 GB/s"}),
    ((20, 20, 20, 25), {"a->e": "a->e: 25.0 GB/s, its group 20.0 GB/s"}),
    *(((20, 20, rate), {}) for rate in (18, 20, 22.1)),  # 90 % to 111 % of the median
    ((27, 27, 30), {}),
])  # fmt: skip
def test_a_pair_far_from_the_median_of_its_group_is_odd(rates, expected):
    assert odd(pairs(*rates, spread=0.0)) == expected


@pytest.mark.parametrize(("spread", "n", "out"), [(0.02, 6, 1), (0.03, 6, 0), (0.0, 5, 0)])
def test_the_whole_interval_must_be_outside(spread, n, out):
    """Under six samples it is none; the row has its own bandwidth and its group's median."""
    rows = [*pairs(20, 20, spread=0.0, n=n), *pairs(1, 1, 17.6, spread=spread, n=n)[2:]]
    found = [row.explanation for row in copies_explained(rows, nowhere)]
    assert [why is not None for why in found] == [False, False, bool(out)]
    if out:
        assert (found[2].cause, found[2].figures["group"]) == ("odd-pair", exactly(20 * GB, "B/s"))
        assert found[2].figures["pair"] == rows[2].metrics["bandwidth"]


def test_pairs_of_another_route_mode_size_or_link_are_another_group():
    """A staged copy is slower, and nothing is wrong with it; rows without figures are no pairs."""
    every = [gpu(n, facts=PCIE4) for n in range(4)]
    old = [replace(device, facts=PCIE3) for device in every]
    others = [{"mode": "queued"}, {"nbytes": 400}, {"pattern": "ladder"}, {"route": "staged"}]
    good = pairs(20, 20, 5)
    for other in others:
        assert odd([*pairs(20, 20, 20), *pairs(5, 5, 5, **other)]) == {}
    assert odd([*pairs(20, 20, 20, devices=every), *pairs(9, 9, 9, devices=old)]) == {}
    # either way is one kind of link: from a new card to an old one as back
    a, b, c, d = named(every[0], *(replace(gpu(n), facts=PCIE3) for n in (1, 2, 3)))
    ends = [((a, b), 10), ((c, a), 10), ((a, d), 3)]
    rows = [copy("d2d", each, MB / (rate * GB), memory="device") for each, rate in ends]
    assert list(odd(rows)) == ["a->d"]
    assert odd([replace(row, status="failed", metrics={}) for row in good]) == {}
    assert odd([copy("h2d", row.case.bindings, 1.0) for row in good]) == {}


def test_numa_nodes_are_said_where_they_differ():
    rows = pairs(20, 20, 8, devices=[gpu(n, numa_node=n // 3) for n in range(4)])
    a, b = rows[2].case.bindings
    evil = replace(rows[2].case, bindings=(a, replace(b, name="\x1b[2J")))
    (text,) = odd([*rows[:2], replace(rows[2], case=evil)]).values()
    assert text.startswith("a->\\x1b[2J: ")
    assert text.endswith("(across NUMA nodes 0 and 1)")
    (text,) = odd(pairs(20, 20, 8, devices=[gpu(n, numa_node=1) for n in range(4)])).values()
    assert text.endswith("its group 20.0 GB/s")


@given(st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=7), st.floats(1e-3, 1e3))
def test_the_unit_makes_no_pair_odd(rates, factor):
    """Only ratios count: as fast a machine as may be has the same odd pairs, or next to."""
    here = pairs(*rates, spread=0.0)
    there = pairs(*(rate * factor for rate in rates), spread=0.0)
    middle = sorted(rates)[len(rates) // 2]
    clear = all(abs(rate / middle - edge) > 1e-6 for rate in rates for edge in (0.9, 1 / 0.9))
    assert not clear or len(rates) % 2 == 0 or set(odd(here)) == set(odd(there))


@given(st.permutations([20, 20.1, 19.9, 20.2, 5, 40]))
def test_the_order_of_pairs_makes_no_difference(rates):
    named_ = {text.partition(": ")[2].split()[0] for text in odd(pairs(*rates)).values()}
    assert named_ == {"5.00", "40.0"}

"""Speed-up of concurrent copies over each alone: one cause where it is too little."""

import pytest
from cases import thin
from copy_rows import MB, copy, core, exactly, gpu, named, only
from tables import table

from gpumap.bench.transfer_causes import copies_explained, outlier_pairs
from gpumap.model import Around, Samples, replace

TABLE = table(__file__)
T = 1e-3  # seconds of a copy alone
GB = 1e9
PCIE4 = {"max_link_generation": 4, "max_link_width": 16}
PCIE3 = {"max_link_generation": 3, "max_link_width": 16}


def copied(gain, devices, *, times=(), moving=(), queue=0.0, few_of=None, around=(), **more):
    """Return copies of each device alone, and last all at once: `gain` times the first's.

    Of one device they are those of both ways. Each was copied in a queue, too, where it may be
    faster (`moving`); one row may have too few samples.
    """
    bindings = named(*devices)
    both = len(bindings) == 1
    ends = [(way, each) for way in ("h2d", "d2h")[: 1 + both] for each in bindings]
    times, rows = times or [T] * len(ends), []
    for (way, binding), seconds, further in zip(ends, times, moving or times, strict=True):
        rows.append(copy(way, [binding], seconds))
        rows.append(copy(way, [binding], further, mode="queued", queue=queue))
    whole = (sum(times) if both else len(times) * times[0]) / gain
    more |= {"pattern": "together", "speedup": gain, "around": Around(*around) if around else None}
    rows.append(copy("bidir" if both else "h2d", bindings, whole, **more))
    if few_of is not None:
        samples = Samples((T,) * 5, tuple(range(5)), queue=(0.0,) * 5)
        thinned = thin(rows[few_of].metrics)
        rows[few_of] = replace(rows[few_of], samples=samples, metrics=thinned)
    return rows


TWO = (gpu(0), gpu(1))
CORES = (core(0), core(1))
DEVICES = {"cards": TWO, "cores": CORES, "card": TWO[:1], "core": CORES[:1],
           "a card twice": (*TWO, gpu(0)), "four cards": (*TWO, gpu(2), gpu(3))}  # fmt: skip


@pytest.mark.parametrize(("expected", "seen", "figures"), TABLE["causes"])
def test_too_little_gain_has_its_cause(expected, seen, figures):
    why, figures = only(copied(**seen | {"devices": DEVICES[seen["devices"]]})), figures or {}
    assert (why.cause if why else "") == expected
    assert {key: why.figures[key].value for key in figures} == pytest.approx(figures)


def test_a_device_without_its_own_copies_has_no_cause():
    """How slow it is alone is unknown."""
    assert only([row for row in copied(1.0, TWO) if row.case.names != ("b",)]) is None


SIBLINGS = [replace(core(n), hardware=frozenset({"core:0", "core:1"})) for n in (0, 1)]
OTHER = replace(core(1), kind=gpu(0).kind, cores=(), facts={"type": "other"})
HOST = "the bandwidth of the host's memory: no link is in between"


@pytest.mark.parametrize(("devices", "said"), [
    (TWO, "a link, or the host's memory"),
    ([gpu(0), gpu(0)], "a link: a, b are one piece of hardware (pci:0)"),
    (CORES, HOST),
    # PoCL's devices have cores, or say that they are no GPU
    ([replace(core(0), pci=None, cores=(0, 1)), OTHER], HOST),
    ([core(0), gpu(1)], "a link, or the host's memory"),
    # of several pieces the one that `bench` names of the same two
    (SIBLINGS, "the cores that copy: a, b are one piece of hardware (core:0)"),
])  # fmt: skip
def test_what_is_shared_is_named(devices, said):
    why = only(copied(1.0, devices))
    assert (why.cause, why.text.partition("they share ")[2]) == ("shared-link", said)


@pytest.mark.parametrize("status", ["failed", "skipped"])
def test_rows_without_figures_have_no_cause(status):
    """Their reason says why; rows of other benchmarks keep what they have."""
    *rows, last = copied(1.0, TWO)
    other = replace(last, case=replace(last.case, bench="control"))
    assert only([*rows, replace(last, status=status, metrics={})]) is None
    assert copies_explained([other]) == [other]
    (_, b) = named(*TWO)  # a slow pageable copy of b says nothing of pinned ones
    slow = [copy("h2d", [b], 9 * T, memory="pageable"), copy("h2d", [b], 9 * T, nbytes=2 * MB)]
    assert only([*slow, *rows, last]).cause == "shared-link"


@pytest.mark.parametrize(("foreign", "cause"), [(0.0, "odd-pair"), (4.0, None)])
def test_on_a_busy_machine_no_pair_is_odd(foreign, cause):
    """Who copies slowly may have lost its core to another process."""
    cores = named(*map(core, range(4)))
    pairs = [copy("d2d", (cores[n], cores[n + 1]), T * (1 + n // 2)) for n in range(3)]
    found = copies_explained([replace(p, around=Around(foreign, 0.0)) for p in pairs])
    assert [row.explanation and row.explanation.cause for row in found] == [None, None, cause]


def pairs(*rates, devices=None, route="peer", spread=0.001, **more):
    every = named(*(devices or [gpu(n) for n in range(len(rates) + 1)]))
    return [
        copy("d2d", (every[0], other), MB / (rate * GB), memory="device", route=route,
             spread=spread, **more)
        for other, rate in zip(every[1:], rates, strict=True)
    ]  # fmt: skip


def odd(rows):
    found = outlier_pairs(rows)
    return {"->".join(r.case.names): found[r.case.id].text for r in rows if r.case.id in found}


@pytest.mark.parametrize(("rates", "expected"), TABLE["odd"])
def test_a_pair_far_from_the_median_of_its_group_is_odd(rates, expected):
    assert odd(pairs(*rates, spread=0.0)) == (expected or {})


@pytest.mark.parametrize(("spread", "n", "out"), [(0.02, 6, 1), (0.03, 6, 0), (0.0, 5, 0)])
def test_the_whole_interval_must_be_outside(spread, n, out):
    """Under six samples it is none; the row has its own bandwidth and its group's median."""
    rows = [*pairs(20, 20, spread=0.0, n=n), *pairs(1, 1, 17.6, spread=spread, n=n)[2:]]
    found = [row.explanation for row in copies_explained(rows)]
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


def told(*, memory="pinned", share=0.2, seconds=MB / 12.6e9, **more):
    why = only([copy("h2d", named(gpu(0)), seconds, memory=memory, share=share, **more)])
    assert why is None or why.cause == "slow-link"
    return why


@pytest.mark.parametrize(("more", "slow"), TABLE["slow"])
def test_below_thirty_percent_a_large_copy_is_slow(more, slow):
    assert (told(**more) is not None) == slow
    assert only([copy("h2d", named(gpu(0)), 1.0)]) is None


def test_a_slow_copy_says_why_it_may_be():
    """Pageable memory is copied twice; what else there is, doctor looks at."""
    figures = {k: v.value for k, v in told(share=0.2, seconds=MB / 12e9).figures.items()}
    assert figures == pytest.approx({"bandwidth": 12e9, "ceiling": 60e9, "share": 0.2})
    assert told().text.startswith("less than 30% of PCIe 5 x16: `gpumap doctor` looks at")
    assert "a driver copies pageable memory once more" in told(memory="pageable").text

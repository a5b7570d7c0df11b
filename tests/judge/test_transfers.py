"""Speed-up of concurrent copies over each alone: one cause where it is too little."""

import pytest
from cases import thin
from copy_rows import MB, copy, core, exactly, gpu, named, only

from gpumap.bench.transfer_causes import copies_explained, outlier_pairs
from gpumap.model import Around, Samples, replace

T = 1e-3  # seconds of a copy alone
GB = 1e9
PCIE4 = {"max_link_generation": 4, "max_link_width": 16}
PCIE3 = {"max_link_generation": 3, "max_link_width": 16}


def alone(ends, times, moving, queue):
    """Return the copies of each end alone: waited for, and in a queue, where they may be faster."""
    for (way, binding), seconds, further in zip(ends, times, moving or times, strict=True):
        yield copy(way, [binding], seconds)
        yield copy(way, [binding], further, mode="queued", queue=queue)


def at_once(gain, devices, *, times=None, moving=None, queue=0.0, spread=0.0, way="h2d", **more):
    """Return each device's copies alone, and last all at once: `gain` times the first's."""
    bindings = named(*devices)
    times = times or [T] * len(bindings)
    whole = len(bindings) * times[0] / gain
    together = copy(way, bindings, whole, pattern="together", speedup=gain, spread=spread, **more)
    return [*alone([(way, each) for each in bindings], times, moving, queue), together]


def both_ways(gain, device, *, times=(T, T), moving=None, queue=0.0, **more):
    (binding,) = named(device)
    last = copy("bidir", [binding], sum(times) / gain, pattern="together", speedup=gain, **more)
    return [*alone([("h2d", binding), ("d2h", binding)], times, moving, queue), last]


def few(rows, place):
    samples = Samples((T,) * 5, tuple(range(5)), queue=(0.0,) * 5)
    rows[place] = replace(rows[place], samples=samples, metrics=thin(rows[place].metrics))
    return rows


TWO = (gpu(0), gpu(1))
CORES = (core(0), core(1))
UNEQUAL = {"times": [T, 2 * T]}
BUSY = Around(1.0, 0.0)
MOVED = {"together": 2 * MB / (2 * T / 1.1)}


@pytest.mark.parametrize(("rows", "expected", "figures"), [
    *((at_once(1.0 * n, [gpu(k) for k in range(n)]), None, {}) for n in (2, 4)),
    (at_once(0.91 * 4, [gpu(k) for k in range(4)]), None, {}),  # from 90 % on
    (at_once(1.7, TWO, spread=0.06), None, {}),  # what may be 90 % is not said to be less
    (at_once(1.7, TWO, spread=0.05), "shared-link", {}),
    (at_once(1.1, TWO), "shared-link", {"gain": 1.1, **MOVED}),
    (at_once(1.0, TWO, share=0.1), "shared-link", {}),  # a better reason than a slow link
    (at_once(1.0, TWO, **UNEQUAL), "unequal-devices", {"slowest": 2 * T, "fastest": T}),
    (at_once(3 / 3.5, [gpu(0), gpu(1), gpu(0)], times=[T, 3.5 * T, T]), "unequal-devices", {}),
    # longer than the slowest alone
    (at_once(0.67, TWO, **UNEQUAL), "shared-link", {}),
    # the gain is over the first: with links of their own even a slow one reaches the number
    (at_once(2.0, TWO, times=[2 * T, T]), None, {}),
    (at_once(1.4, TWO, times=[2 * T, T]), "shared-link", {}),
    # of a small copy hardly any time is spent on moving it: one more in a queue takes less
    (at_once(1.3, TWO, times=[6.5e-6] * 2, moving=[2.5e-6] * 2), "synchronisation",
     {"copy": 6.5e-6, "moving": 2.5e-6}),
    # one after the other they take 2 T: to share a link costs no more
    (at_once(0.5, TWO), "synchronisation", {"time": 4 * T, "copy": 2 * T}),
    (at_once(1.0, TWO, queue=T), "serialised", {}),
    (at_once(1.0, TWO, queue=0.4 * T), "shared-link", {}),  # not half of what is missing
    # how slow its device is alone is unknown
    ([r for r in at_once(1.0, TWO) if r.case.names != ("b",)], None, {}),
    # cards copy by themselves; a little foreign work is not half of what is missing
    (at_once(1.2, TWO, around=Around(2.0, 0.5)), "shared-link", {}),
    (at_once(1.2, CORES, around=Around(0.3, 0.0)), "shared-link", {}),
    (both_ways(1.85, gpu(0)), None, {}),
    (both_ways(1.2, gpu(0), times=(T, T / 4)), None, {}),  # all that there is
    (both_ways(1.1, core(0)), "half-duplex", {}),
    (both_ways(1.1, gpu(0)), "half-duplex", {"gain": 1.1, **MOVED}),
    (both_ways(1.0, gpu(0), queue=T), "serialised", {}),
    (both_ways(1.2, gpu(0), moving=(T / 4, T / 4)), "synchronisation", {}),
    (both_ways(1.0, core(0), queue=T, around=BUSY), "cpu-contention", {}),
    # a busy machine slows cores down, now or before: no other cause can be told
    *((at_once(0.5, CORES, around=around, **times), "cpu-contention", {})
      for times in (UNEQUAL, {"moving": [T / 4, T / 4]}, {"queue": T}, {})
      for around in (Around(0.5, 0.0), Around(0.0, 0.3), Around(None, None, 2.0, 2),
                     Around(0.3, 0.0, 2.0, 2))),
    # under six samples, of whichever row, are no ground for a cause
    *((few(at_once(1.1, TWO), place), None, {}) for place in (0, 2, -1)),
])  # fmt: skip
def test_too_little_gain_has_its_cause(rows, expected, figures):
    why = only(rows)
    assert (why and why.cause) == expected
    assert {key: why.figures[key].value for key in figures} == pytest.approx(figures)


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
    why = only(at_once(1.0, devices))
    assert (why.cause, why.text.partition("they share ")[2]) == ("shared-link", said)


@pytest.mark.parametrize("status", ["failed", "skipped"])
def test_rows_without_figures_have_no_cause(status):
    """Their reason says why; rows of other benchmarks keep what they have."""
    *rows, last = at_once(1.0, TWO)
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


@pytest.mark.parametrize(("rates", "expected"), [
    ((20, 5), {}),  # which is unknown
    ((20, 20, 5), {"a->d": "a->d: 5.00 GB/s, its group 20.0 GB/s"}),
    ((24.8, 24.7, 6.1, 24.9, 24.8), {"a->d": "a->d: 6.10 GB/s, its group 24.8 GB/s"}),
    *(((20, 20, rate), {}) for rate in (18, 20, 30)),  # from 90 % of the median on
])  # fmt: skip
def test_a_pair_far_from_the_median_of_its_group_is_odd(rates, expected):
    assert odd(pairs(*rates, spread=0.0)) == expected


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


@pytest.mark.parametrize(("more", "slow"), [
    ({"share": 0.29}, True), ({"share": 0.3}, False), ({"nbytes": MB}, True),
    ({"nbytes": MB - 1}, False),  # of less than 1 MiB latency takes its part
    ({"n": 5}, False),  # their range is no interval
    ({"n": 6}, True),
])  # fmt: skip
def test_below_thirty_percent_a_large_copy_is_slow(more, slow):
    assert (told(**more) is not None) == slow
    assert only([copy("h2d", named(gpu(0)), 1.0)]) is None


def test_a_slow_copy_says_why_it_may_be():
    """Pageable memory is copied twice; what else there is, doctor looks at."""
    figures = {k: v.value for k, v in told(share=0.2, seconds=MB / 12e9).figures.items()}
    assert figures == pytest.approx({"bandwidth": 12e9, "ceiling": 60e9, "share": 0.2})
    assert told().text.startswith("less than 30% of PCIe 5 x16: `gpumap doctor` looks at")
    assert "a driver copies pageable memory once more" in told(memory="pageable").text

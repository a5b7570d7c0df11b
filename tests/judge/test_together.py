"""What copies at once gain, held against each by itself: one cause where it is too little."""

from __future__ import annotations

from dataclasses import replace

import pytest
from copy_rows import MB, copy, core, exactly, gpu, named, nowhere, only
from hypothesis import given
from hypothesis import strategies as st

from gpumap.judge.transfers import copies_explained
from gpumap.model import Around, Estimate, LinkState, Samples

T = 1e-3  # seconds of a copy alone
NOTHING = LinkState()


def seeing(**states):
    """Return a look that finds these states, by the number of the device."""
    return lambda devices: {
        device.id: states.get(f"cuda{device.ref.index}", NOTHING) for device in devices
    }


def at_once(gain, devices, *, times=None, moving=None, queue=0.0, spread=0.0, way="h2d", **more):
    """Return each device's copies alone, and last all at once: `gain` times the first's."""
    bindings = named(*devices)
    times = times or [T] * len(bindings)
    rows = []
    for binding, seconds, further in zip(bindings, times, moving or times, strict=True):
        rows.append(copy(way, [binding], seconds))
        rows.append(copy(way, [binding], further, mode="queued", queue=queue))
    whole = len(bindings) * times[0] / gain
    together = copy(way, bindings, whole, pattern="together", speedup=gain, spread=spread, **more)
    return [*rows, together]


def both_ways(gain, device, *, times=(T, T), moving=None, queue=0.0, **more):
    """Return copies there and back alone, and last both at once."""
    (binding,) = named(device)
    rows = []
    for way, seconds, further in zip(("h2d", "d2h"), times, moving or times, strict=True):
        rows.append(copy(way, [binding], seconds))
        rows.append(copy(way, [binding], further, mode="queued", queue=queue))
    last = copy("bidir", [binding], sum(times) / gain, pattern="together", speedup=gain, **more)
    return [*rows, last]


# --- several devices at once


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("share", [1.0, 0.91])
def test_links_of_their_own_need_no_cause(count, share):
    """From 90 % of the number of devices on."""
    assert only(at_once(share * count, [gpu(n) for n in range(count)])) is None


def test_an_interval_that_reaches_the_limit_is_no_shortfall():
    """Its upper end counts: what may be 90 % is not said to be less."""
    two = [gpu(0), gpu(1)]

    assert only(at_once(1.7, two, spread=0.06)) is None
    assert only(at_once(1.7, two, spread=0.05), seeing()).cause == "shared-link"


def test_a_shared_link_is_said_in_words():
    """With the gain, the names, and what all at once and one alone move."""
    why = only(at_once(1.1, [gpu(0), gpu(1)]), seeing())

    assert (why.cause, why.text) == (
        "shared-link",
        "2 devices at once move 1.10 times what one does: they share a link, or the host's memory",
    )
    assert why.figures == {
        "gain": exactly(1.1), "names": exactly(2.0),
        "together": exactly(2 * MB / (2 * T / 1.1), "B/s"), "alone": exactly(MB / T, "B/s"),
    }  # fmt: skip


def test_a_bridge_above_several_is_named():
    """The one that most are behind, and of those the one nearest to them."""
    root, switch, other = "0000:16:01.0", "0000:17:00.0", "0000:64:01.0"
    look = seeing(
        cuda0=LinkState(bridges=(root, switch, "0000:18:00.0")),
        cuda1=LinkState(bridges=(root, switch, "0000:18:04.0")),
        cuda2=LinkState(bridges=(other,)),
    )

    why = only(at_once(2.0, [gpu(0), gpu(1), gpu(2)]), look)

    assert why.text == (
        "3 devices at once move 2.00 times what one does: they share a link: "
        "0000:17:00.0 is upstream of a and b"
    )


def test_many_names_are_counted():
    """Four are written out."""
    behind = {f"cuda{n}": LinkState(bridges=("0000:16:01.0",)) for n in range(8)}

    five = only(at_once(1.0, [gpu(n) for n in range(5)]), seeing(**behind))
    four = only(at_once(1.0, [gpu(n) for n in range(4)]), seeing(**behind))

    assert five.text.endswith("0000:16:01.0 is upstream of a, b, c and 2 more")
    assert four.text.endswith("0000:16:01.0 is upstream of a, b, c and d")


@pytest.mark.parametrize(
    ("devices", "states", "said"),
    [
        ((gpu(0), gpu(1)), {"cuda0": LinkState(node=1), "cuda1": LinkState(node=1)},
         ": all are near NUMA node 1"),
        ((gpu(0, numa_node=0), gpu(1, numa_node=0)), {}, ": all are near NUMA node 0"),
        ((gpu(0, numa_node=0), gpu(1, numa_node=1)), {}, ""),
        ((gpu(0, numa_node=0), gpu(1)), {}, ""),
        ((gpu(0), gpu(1)), {"cuda0": LinkState(bridges=("0000:16:01.0",)),
                            "cuda1": LinkState(bridges=("0000:64:01.0",))}, ""),
    ],
)  # fmt: skip
def test_without_a_common_bridge_it_may_be_the_memory(devices, states, said):
    """One NUMA node is said, where all are known to be near it."""
    why = only(at_once(1.0, devices), seeing(**states))

    assert why.text.partition("they share ")[2] == f"a link, or the host's memory{said}"


def test_who_takes_all_of_the_time_alone_is_the_cause():
    """Two names share a device, and a third one that is slow by itself sets the time."""
    one = gpu(0)

    why = only(at_once(3 / 3.5, [one, gpu(1), one], times=[T, 3.5 * T, T]), seeing())

    assert why.cause == "unequal-devices"
    assert "alone b takes 3.50 ms and a 1.00 ms" in why.text


def test_one_piece_of_silicon_has_one_link():
    """Known before anything is measured; two names of one device, of which one copies alone."""
    one = gpu(0)
    rows = [row for row in at_once(1.0, [one, one]) if row.case.names != ("b",)]

    why = only(rows)

    assert (why.cause, why.text) == (
        "shared-link",
        (
            "2 names at once move 1.00 times what one does: they share a link: "
            "a and b are one piece of silicon (pci:0)"
        ),
    )


def test_parts_of_one_card_have_one_link():
    """Instances of MIG are silicon of their own, at one PCI address."""
    parts = [replace(gpu(n), pci="0000:1b:00.0") for n in (0, 1)]

    why = only(at_once(1.0, [*parts, gpu(2)]))

    assert (why.cause, why.text.partition(": ")[2]) == (
        "shared-link",
        "they share a link: a and b are parts of one card (0000:1b:00.0)",
    )


def test_cores_share_memory_bandwidth_and_no_link():
    """Nothing is in between; and one core for two names is said to be one."""
    memory = only(at_once(1.2, [core(0), core(1)]))
    siblings = only(at_once(1.0, [core(0, "core:0"), core(1, "core:0")]))

    shared = "they share the bandwidth of the host's memory: no link is in between"
    assert memory.text.endswith(shared)
    assert siblings.text.endswith(
        "they share the cores that copy: a and b are one piece of silicon (core:0)"
    )
    assert {memory.cause, siblings.cause} == {"shared-link"}


def test_of_several_shared_pieces_the_first_is_named():
    """The one that `bench` names of the same two: else they would seem to share another."""
    both = [replace(core(n), silicon=frozenset({"core:0", "core:1"})) for n in (0, 1)]

    assert only(at_once(1.0, both)).text.endswith("are one piece of silicon (core:0)")


def test_opencl_on_processors_is_host_memory():
    """PoCL's devices have cores, or say that they are no GPU; a card's cores are those near it."""
    pthread = replace(core(0), pci=None, cores=(0, 1))
    basic = replace(core(1), kind=gpu(0).kind, cores=(), facts={"type": "other"})

    assert "no link is in between" in only(at_once(1.0, [pthread, basic])).text
    assert "a link" in only(at_once(1.0, [pthread, gpu(1)]), seeing()).text


def test_unequal_devices_end_with_the_slowest():
    """It is as slow alone: then no link is shared."""
    why = only(at_once(1.0, [gpu(0), gpu(1)], times=[T, 2 * T]))

    assert (why.cause, why.text) == (
        "unequal-devices",
        (
            "2 devices at once move 1.00 times what one does: "
            "alone b takes 2.00 ms and a 1.00 ms, and all end with the slowest"
        ),
    )
    assert (why.figures["slowest"].value, why.figures["fastest"].value) == (2 * T, T)


def test_unequal_devices_that_share_a_link_share_a_link():
    """All at once take longer than the slowest does alone."""
    why = only(at_once(0.67, [gpu(0), gpu(1)], times=[T, 2 * T]), seeing())

    assert why.cause == "shared-link"


def test_a_slow_first_device_hides_nothing():
    """The gain is over the first: with links of their own even a slow one reaches the number."""
    assert only(at_once(2.0, [gpu(0), gpu(1)], times=[2 * T, T])) is None
    assert only(at_once(1.4, [gpu(0), gpu(1)], times=[2 * T, T]), seeing()).cause == "shared-link"


def test_what_is_mostly_calls_and_waiting_blames_no_link():
    """Of a small copy hardly any time is spent on moving it: one more in a queue takes less."""
    rows = at_once(1.3, [gpu(0), gpu(1)], times=[6.5e-6] * 2, moving=[2.5e-6] * 2)
    why = only(rows)

    assert (why.cause, why.text) == (
        "synchronisation",
        (
            "2 devices at once move 1.30 times what one does: of 6.50 µs that a copy takes alone "
            "(a), moving it takes 2.50 µs; the rest are calls and waiting, and one host does them "
            "for all"
        ),
    )
    assert (why.figures["copy"].value, why.figures["moving"].value) == (6.5e-6, 2.5e-6)


def test_copies_inside_of_calls_take_turns():
    """The host cannot hand over the next one before: as of pageable memory on a card."""
    why = only(at_once(1.0, [gpu(0), gpu(1)], queue=T))

    assert (why.cause, why.text) == (
        "serialised",
        (
            "2 devices at once move 1.00 times what one does: the host's calls take 2.00 ms of "
            "2.00 ms, one after the other: a driver may copy inside of its call"
        ),
    )


def test_calls_that_cost_little_are_not_blamed():
    """They must account for half of what is missing."""
    assert only(at_once(1.0, [gpu(0), gpu(1)], queue=0.4 * T), seeing()).cause == "shared-link"


@pytest.mark.parametrize(
    "around",
    [Around(0.5, 0.0), Around(0.0, 0.3), Around(None, None, 2.0, 2), Around(0.3, 0.0, 2.0, 2)],
)
@pytest.mark.parametrize(
    "times", [{"times": [T, 2 * T]}, {"moving": [T / 4, T / 4]}, {"queue": T}, {}]
)
def test_a_busy_machine_slows_cores_down(around, times):
    """During the measurement or before: no other cause can be told from such figures."""
    why = only(at_once(0.5, [core(0), core(1)], around=around, **times))

    assert why.cause == "busy-machine"


def test_a_busy_machine_slows_both_ways_down():
    """And so for the ways of one device."""
    rows = both_ways(1.0, core(0), queue=T, around=Around(1.0, 0.0))

    assert only(rows).cause == "busy-machine"


@pytest.mark.parametrize(("n", "cause"), [(1, None), (5, None), (6, "shared-link")])
@pytest.mark.parametrize("place", [0, 2, -1])
def test_under_six_samples_are_no_ground_for_a_cause(place, n, cause):
    """Of all at once, or of a copy alone that it is held against."""
    rows = at_once(1.1, [gpu(0), gpu(1)])
    few = Samples((T,) * n, tuple(range(n)), queue=(0.0,) * n)
    metrics = rows[place].metrics
    if n < 6:
        metrics = {k: Estimate.without_interval(v.value, v.unit) for k, v in metrics.items()}
    rows[place] = replace(rows[place], samples=few, metrics=metrics)

    assert getattr(only(rows, seeing()), "cause", None) == cause


@pytest.mark.parametrize(
    ("devices", "around"),
    [((gpu(0), gpu(1)), Around(2.0, 0.5)), ((core(0), core(1)), Around(0.3, 0.0))],
)
def test_a_busy_machine_is_not_blamed_in_vain(devices, around):
    """Cards copy by themselves; and a little foreign work is not half of what is missing."""
    assert only(at_once(1.2, devices, around=around), seeing()).cause == "shared-link"


def test_a_copy_that_was_not_measured_alone_leaves_no_cause():
    """Nobody can tell how slow its device is by itself."""
    rows = [row for row in at_once(1.0, [gpu(0), gpu(1)]) if row.case.names != ("b",)]

    assert only(rows) is None


def test_other_memory_and_sizes_are_not_held_against_each_other():
    """A slow pageable copy of b says nothing of pinned ones."""
    rows = at_once(1.0, [gpu(0), gpu(1)])
    (b,) = named(gpu(0), gpu(1))[1:]
    slow = [copy("h2d", [b], 9 * T, memory="pageable"), copy("h2d", [b], 9 * T, nbytes=2 * MB)]

    assert only([*slow, *rows], seeing()).cause == "shared-link"


# --- both ways


def test_both_ways_at_full_speed_need_no_cause():
    """2 is twice as fast; of unequal ways less is all that there is."""
    assert only(both_ways(1.85, gpu(0))) is None
    assert only(both_ways(1.2, gpu(0), times=(T, T / 4))) is None


@pytest.mark.parametrize(
    ("device", "said"),
    [
        (gpu(0), "the link, a copy engine or the host's memory carries one way at a time"),
        (core(0), "both are copies in the host's own memory, where that is normal"),
    ],
)
def test_a_link_that_carries_one_way_at_a_time(device, said):
    """The gain stands in the column; without it several rows say the same, and are said once."""
    why = only(both_ways(1.1, device))

    text = f"both ways at once are below 1.8 times one after the other: {said}"
    assert (why.cause, why.text) == ("half-duplex", text)
    assert why.figures == {
        "gain": exactly(1.1), "together": exactly(2 * MB / (2 * T / 1.1), "B/s"),
        "there": exactly(MB / T, "B/s"), "back": exactly(MB / T, "B/s"),
    }  # fmt: skip


def test_both_ways_by_calls():
    """The same causes as for several devices, where they are known."""
    assert only(both_ways(1.0, gpu(0), queue=T)).cause == "serialised"
    assert only(both_ways(1.2, gpu(0), moving=(T / 4, T / 4))).cause == "synchronisation"


# --- all of it


def test_hostile_names_and_elements_are_escaped():
    """A report must not act on what stands in a map, or comes from a driver."""
    evil = "\x1b[2J"
    a, b = (replace(binding, name=evil + binding.name) for binding in named(gpu(0), gpu(1)))
    bad = LinkState(bridges=(evil,))
    rows = [copy("h2d", [x], T, mode=mode) for x in (a, b) for mode in ("sync", "queued")]
    last = copy("h2d", [a, b], 2 * T, pattern="together", speedup=1.0)
    one = gpu(0, silicon=(evil,))

    texts = [
        only([*rows, last], seeing(cuda0=bad, cuda1=bad)).text,
        only(at_once(1.0, [one, replace(gpu(1), silicon=one.silicon)])).text,
    ]

    assert "\x1b" not in "".join(texts)
    assert "\\x1b[2J is upstream of \\x1b[2Ja and \\x1b[2Jb" in texts[0]


def test_nobody_looks_at_links_that_are_as_they_should_be():
    """And for rows of several causes once."""
    looks = []

    def look(devices):
        looks.append(sorted(device.id for device in devices))
        return {}

    good = at_once(2.0, [gpu(0), gpu(1)])
    bad = at_once(1.0, [gpu(0), gpu(1)])
    back = at_once(1.0, [gpu(0), gpu(1)], way="d2h")

    copies_explained(good, look)
    assert looks == []
    copies_explained([*bad, *back], look)
    assert looks == [["cuda:0", "cuda:1"]]


@pytest.mark.parametrize("status", ["failed", "skipped"])
def test_rows_without_figures_have_no_cause(status):
    """Their reason says why."""
    *rows, last = at_once(1.0, [gpu(0), gpu(1)])

    assert only([*rows, replace(last, status=status, metrics={})]) is None


def test_rows_of_other_benchmarks_keep_what_they_have():
    """A group holds anchors too."""
    *_, last = at_once(1.0, [gpu(0), gpu(1)])
    other = replace(last, case=replace(last.case, bench="anchor"))

    assert copies_explained([other], nowhere) == [other]


@given(
    st.integers(2, 6),
    st.floats(0.05, 1.5),
    st.lists(st.floats(1e-7, 1.0), min_size=6, max_size=6),
    st.floats(0.0, 1.0),
)
def test_too_little_gain_always_has_a_cause_and_enough_never(count, share, times, queue):
    """Whatever the copies take alone: below 90 % of the number of devices, and only there."""
    rows = at_once(share * count, [gpu(n) for n in range(count)], times=times[:count], queue=queue)

    why = only(rows, seeing())

    assert (why is not None) == (share * count < 0.9 * count)


@pytest.mark.parametrize(("foreign", "cause"), [(0.0, "odd-pair"), (4.0, None)])
def test_on_a_busy_machine_no_pair_is_odd(foreign, cause):
    """Who copies slowly may have lost its core to another process."""
    cores = named(*map(core, range(4)))
    pairs = [copy("d2d", (cores[n], cores[n + 1]), T * (1 + n // 2)) for n in range(3)]

    found = copies_explained([replace(p, around=Around(foreign, 0.0)) for p in pairs], seeing())

    assert [row.explanation and row.explanation.cause for row in found] == [None, None, cause]

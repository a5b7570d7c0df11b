"""Below 30 % of what a link carries, the likely reasons stand there, each checked or not."""

from __future__ import annotations

from itertools import product

import pytest
from copy_rows import MB, copy, exactly, gpu, named, nowhere, only

from gpumap.model import LinkState

GEN5 = {"speed": 32e9, "max_speed": 32e9, "width": 16, "max_width": 16}
FINE = LinkState(node=0, nodes=(0,), core_node=0, translated=False, translated_by="seen", **GEN5)
HEAD = "less than 30% of PCIe 5 x16. "


def told(state, *, case="h2d", memory="pinned", share=0.2, seconds=MB / 12.6e9, **more):
    """Return what is said of a slow copy to a device in such a state."""
    row = copy(case, named(gpu(0)), seconds, memory=memory, share=share, **more)
    why = only([row], lambda devices: {device.id: state for device in devices})
    assert why is None or why.cause == "slow-link"
    return why


def findings(state, **more):
    """Return each finding by its topic, in order."""
    text = told(state, **more).text
    assert text.startswith(HEAD)
    parts = [part.partition(": ") for part in text.removeprefix(HEAD).split("; ")]
    return {topic: said for topic, _, said in parts}


@pytest.mark.parametrize(("share", "slow"), [(0.29, True), (0.3, False), (0.9, False)])
def test_below_thirty_percent_only(share, slow):
    """Of a ceiling that is known."""
    assert (told(FINE, share=share) is not None) == slow
    assert only([copy("h2d", named(gpu(0)), 1.0)], nowhere) is None


@pytest.mark.parametrize(("nbytes", "slow"), [(MB, True), (MB - 1, False), (400, False)])
def test_small_copies_are_slow_for_other_reasons(nbytes, slow):
    """Of less than 1 MiB latency takes its part."""
    assert (told(FINE, nbytes=nbytes) is not None) == slow


def test_the_figures():
    """What was reached, what could be, and the share."""
    why = told(FINE, share=0.2, seconds=MB / 12e9)

    rates = {"bandwidth": exactly(12e9, "B/s"), "ceiling": exactly(60e9, "B/s")}
    assert {k: v.value for k, v in why.figures.items()} == {
        **{name: pytest.approx(figure.value) for name, figure in rates.items()}, "share": 0.2,
    }  # fmt: skip


def test_what_is_not_the_reason_is_said_too():
    """Nobody need look there again."""
    assert findings(FINE) == {
        "pageable memory": "checked: it is pinned",
        "NUMA": "checked: the device and the process are on node 0",
        "link width": "checked: all of x16",
        "link speed": "checked: all of 32 GT/s",
        "IOMMU": "checked: it does not translate (seen)",
    }


def test_what_the_system_does_not_tell_cannot_be_checked():
    """Never left out, and never taken for no."""
    said = findings(LinkState(translated_by="the system does not tell"))

    silent = "cannot be checked here: the system does not tell"
    assert said == {
        "NUMA": f"{silent} the device's node", "link width": f"{silent} it",
        "link speed": f"{silent} it", "IOMMU": silent, "pageable memory": "checked: it is pinned",
    }  # fmt: skip


def test_pageable_memory():
    """The most common reason, known from the row."""
    said = findings(FINE, memory="pageable")

    words = "checked: it is, and a driver copies such bytes once more, into memory of its own"
    assert said["pageable memory"] == words


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (LinkState(node=0, nodes=(1,), core_node=1),
         ("checked: the device is near node 0, and no core of this process is: "
         "numactl --cpunodebind=0")),
        (LinkState(node=0, nodes=(0, 1), core_node=1),
         ("checked: the device is near node 0, and the process ran on node 1: "
         "numactl --cpunodebind=0")),
        (LinkState(node=1, nodes=(0, 1), core_node=1),
         "checked: the device and the process are on node 1"),
        (LinkState(node=1, nodes=(0, 1)),
         "cannot be checked here: the device is near node 1, the process may run on others"),
        (LinkState(node=0), ("cannot be checked here: the system does not tell the nodes of the "
         "cores")),
    ],
)  # fmt: skip
def test_numa(state, said):
    """The device's node, against those of the cores that the process may run on, and did."""
    assert findings(state)["NUMA"] == said


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (LinkState(width=8, max_width=16), "checked: x8 of x16: look at the slot, or a riser"),
        (LinkState(width=16, max_width=16, narrow=("0000:16:01.0", 4)),
         "checked: x16, but the bridge 0000:16:01.0 above has x4"),
        (LinkState(width=16, max_width=16), "checked: all of x16"),
        (LinkState(width=16), "cannot be checked here: the system does not tell it"),
    ],
)  # fmt: skip
def test_link_width(state, said):
    """At the device, or at a bridge above it."""
    assert findings(state)["link width"] == said


@pytest.mark.parametrize(
    ("case", "rate", "said"),
    [
        ("h2d", 3.3e9, "2.5 of 32 GT/s, right after the copies"),
        ("h2d", 12e9, "2.5 of 32 GT/s, but only when idle"),
        ("bidir", 6.6e9, "2.5 of 32 GT/s, right after the copies"),
        ("bidir", 12e9, "2.5 of 32 GT/s, but only when idle"),
    ],
)
def test_a_link_that_idles_is_not_slow(case, rate, said):
    """Lanes of 2.5 GT/s cannot carry 12 GB/s: it slowed down when the copies had ended."""
    ways = 2 if case == "bidir" else 1
    state = LinkState(width=16, max_width=16, speed=2.5e9, max_speed=32e9)

    found = findings(state, case=case, seconds=ways * MB / rate)

    assert found["link speed"] == f"checked: {said}"


def test_iommu():
    """What translates each address, and what to tell the kernel."""
    state = LinkState(translated=True, translated_by="its IOMMU group is of type DMA-FQ")

    assert findings(state)["IOMMU"] == (
        "checked: it translates (its IOMMU group is of type DMA-FQ): iommu=pt does not"
    )


@pytest.mark.parametrize(
    ("node", "width", "translated", "memory"),
    [*product((0, 1, None), (8, 16, None), (True, False, None), ("pinned", "pageable"))],
)
def test_what_holds_comes_first_and_what_does_not_last(node, width, translated, memory):
    """Every mixture: the likely, the unknown, and what was ruled out."""
    nodes = {"node": node, "nodes": (0,), "core_node": 0}
    state = LinkState(**nodes, width=width, max_width=16, translated=translated, translated_by="x")
    cleared = ("it is pinned", "are on node", "all of", "does not translate")

    said = list(findings(state, memory=memory).values())

    ranks = [
        1 if s.startswith("cannot") else 2 if any(c in s for c in cleared) else 0 for s in said
    ]
    assert ranks == sorted(ranks)
    assert len(said) == 5


def test_of_several_devices_each_is_looked_at():
    """By name; what holds for the copy itself is said once."""
    both = named(gpu(0), gpu(1))
    alone = [copy("h2d", [b], 1e-3, mode=mode) for b in both for mode in ("sync", "queued")]
    row = copy("h2d", both, 1e-3, pattern="together", speedup=2.0, share=0.1)
    states = {"cuda:0": FINE, "cuda:1": LinkState(width=4, max_width=16)}

    text = only([*alone, row], lambda _: states).text

    assert text.startswith(f"{HEAD}link width of b: checked: x4 of x16")
    assert text.count("pageable memory") == 1
    assert "link width of a: checked: all of x16" in text


def test_a_shared_link_is_the_better_reason():
    """One cause for a row: what is known of the others of its size."""
    both = named(gpu(0), gpu(1))
    alone = [copy("h2d", [b], 1e-3, mode=mode) for b in both for mode in ("sync", "queued")]
    row = copy("h2d", both, 2e-3, pattern="together", speedup=1.0, share=0.1)

    assert only([*alone, row], lambda _: {}).cause == "shared-link"


def test_what_a_system_says_is_escaped():
    """Files may hold anything."""
    evil = "\x1b[2J"
    state = LinkState(width=16, max_width=16, narrow=(evil, 4), translated=True, translated_by=evil)

    assert "\x1b" not in told(state).text


@pytest.mark.parametrize(("n", "slow"), [(5, False), (6, True)])
def test_under_six_samples_no_link_is_slow(n, slow):
    """Their range is no interval."""
    assert (told(FINE, n=n) is not None) is slow

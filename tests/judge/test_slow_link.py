"""Below 30 % of what a link carries, the likely reasons stand there, each checked or not."""

from itertools import product

import pytest
from copy_rows import MB, copy, gpu, named, nowhere, only
from tables import table

from gpumap.model import LinkState

TABLE = table(__file__)
GEN5 = {"speed": 32e9, "max_speed": 32e9, "width": 16, "max_width": 16}
FINE = LinkState(node=0, nodes=(0,), core_node=0, translated=False, translated_by="seen", **GEN5)
HEAD = "less than 30% of PCIe 5 x16. "


def told(state, *, case="h2d", memory="pinned", share=0.2, seconds=MB / 12.6e9, **more):
    row = copy(case, named(gpu(0)), seconds, memory=memory, share=share, **more)
    why = only([row], lambda devices: {device.id: state for device in devices})
    assert why is None or why.cause == "slow-link"
    return why


def findings(state, **more):
    text = told(state, **more).text
    assert text.startswith(HEAD)
    parts = [part.partition(": ") for part in text.removeprefix(HEAD).split("; ")]
    return {topic: said for topic, _, said in parts}


@pytest.mark.parametrize(("more", "slow"), [
    ({"share": 0.29}, True), ({"share": 0.3}, False), ({"nbytes": MB}, True),
    ({"nbytes": MB - 1}, False),  # of less than 1 MiB latency takes its part
    ({"n": 5}, False),  # their range is no interval
    ({"n": 6}, True),
])  # fmt: skip
def test_below_thirty_percent_a_large_copy_is_slow(more, slow):
    assert (told(FINE, **more) is not None) == slow
    assert only([copy("h2d", named(gpu(0)), 1.0)], nowhere) is None


def test_the_figures():
    figures = {k: v.value for k, v in told(FINE, share=0.2, seconds=MB / 12e9).figures.items()}
    assert figures == pytest.approx({"bandwidth": 12e9, "ceiling": 60e9, "share": 0.2})
    assert findings(FINE, memory="pageable")["pageable memory"].startswith("checked: it is, and")


@pytest.mark.parametrize(("topic", "state", "said"), TABLE["reasons"])
def test_a_reason_is_checked_or_cannot_be(topic, state, said):
    assert findings(LinkState(**(state or {})))[topic].startswith(said)


@pytest.mark.parametrize(("ways", "rate", "said"), [
    (1, 3.3e9, "right after the copies"), (1, 5e9, "right after the copies"),
    (1, 12e9, "but only when idle"), (2, 6.6e9, "right after the copies"),
    (2, 12e9, "but only when idle"),
])  # fmt: skip
def test_a_link_that_idles_is_not_slow(ways, rate, said):
    """Lanes of 2.5 GT/s cannot carry 12 GB/s: it slowed down when the copies had ended."""
    state = LinkState(width=16, max_width=16, speed=2.5e9, max_speed=32e9)
    found = findings(state, case="bidir" if ways == 2 else "h2d", seconds=ways * MB / rate)
    assert found["link speed"] == f"checked: 2.5 of 32 GT/s, {said}"


@pytest.mark.parametrize(("node", "width", "translated", "memory"), [
    *product((0, 1, None), (8, 16, None), (True, False, None), ("pinned", "pageable")),
])  # fmt: skip
def test_what_holds_comes_first_and_what_does_not_last(node, width, translated, memory):
    nodes = {"node": node, "nodes": (0,), "core_node": 0}
    state = LinkState(**nodes, width=width, max_width=16, translated=translated, translated_by="x")
    cleared = ("it is pinned", "are on node", "all of", "does not translate")
    said = list(findings(state, memory=memory).values())
    ranks = [
        1 if s.startswith("cannot") else 2 if any(c in s for c in cleared) else 0 for s in said
    ]
    assert ranks == sorted(ranks)
    assert len(said) == 5


BOTH = named(gpu(0), gpu(1))
ALONE = [copy("h2d", [b], 1e-3, mode=mode) for b in BOTH for mode in ("sync", "queued")]


def test_of_several_devices_each_is_looked_at():
    row = copy("h2d", BOTH, 1e-3, pattern="together", speedup=2.0, share=0.1)
    states = {"cuda:0": FINE, "cuda:1": LinkState(width=4, max_width=16)}
    text = only([*ALONE, row], lambda _: states).text
    assert text.startswith(f"{HEAD}link width of b: checked: x4 of x16")
    assert text.count("pageable memory") == 1
    assert "link width of a: checked: all of x16" in text


def test_a_shared_link_is_the_better_reason():
    row = copy("h2d", BOTH, 2e-3, pattern="together", speedup=1.0, share=0.1)
    assert only([*ALONE, row], lambda _: {}).cause == "shared-link"

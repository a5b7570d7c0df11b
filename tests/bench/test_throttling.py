"""Samples taken while something held their devices back are marked, and kept."""

from itertools import chain, repeat
from unittest.mock import Mock

from worlds import SETTINGS, dot_on, gpu, rows_on, world

from gpumap.bench.dot import Params
from gpumap.model import replace

QUICK = 2.0**20  # operations a second: a product of 64 takes half a second, a sample of its own
BLOCKS = 20


def script(*looks):
    """Return what holds devices back, look by look; the last one holds for ever."""
    return Mock(side_effect=chain(looks, repeat(looks[-1])))


def rows_of(look, *, rate=QUICK, cases=("many",), sizes=(64,)):
    here = world(gpu(0, rate=rate), gpu(1, rate=rate))
    look.sleep = here.clock.sleep
    settings = replace(SETTINGS, blocks=BLOCKS)
    rows = rows_on(here, dot_on(here, Params(sizes, cases=cases)), settings, throttled=look)
    return {(row.case.name, "+".join(row.case.names), row.case.params["size"]): row for row in rows}


def flags(*looks, **others):
    rows = rows_of(script(*looks), **others)
    assert all(map(marked, rows.values()))
    return {flag for row in rows.values() for flag in row.flags}


def marked(row):
    marks = [mark for mark in row.samples.sample_notes if mark.mark == "throttled"]
    return {mark.sample: mark.detail for mark in marks}


def test_a_power_limit_that_always_holds_is_a_fact_of_the_row():
    cap = {"cuda:0": ("power cap",)}
    assert "power-capped" in flags({}, cap, cases=("one",))
    assert "power-capped" not in flags({}, *[cap, {}] * 40, cases=("one",))


def test_samples_since_the_last_look_are_marked_with_the_reason():
    """A block is longer than the pause between looks: each look is for the block before it."""
    look = script({}, {}, {"cuda:1": ("heat", "brake"), "cuda:0": ("power cap",)}, {})
    rows = rows_of(look)
    found = {key[:2]: marked(row) for key, row in rows.items()}
    words = {1: "cuda:0: power cap"}
    assert found == {
        ("solo", "a"): words, ("solo", "b"): {1: "cuda:1: heat, brake"}, ("one", "a"): words,
        ("many", "a+b"): {1: "cuda:0: power cap; cuda:1: heat, brake"},
    }  # fmt: skip
    assert {BLOCKS} == {len(row.samples.seconds) for row in rows.values()}
    assert look.call_count == 1 + BLOCKS


def test_looks_are_seldom():
    """Where samples are short, one is for all since the last; the end has one of its own."""
    look = script({}, {"cuda:1": ("heat",)})
    rows = rows_of(look, rate=2.0**31)
    assert look.call_count < BLOCKS / 2
    assert {key[1]: len(marked(row)) for key, row in rows.items()} == {"a": 0, "b": 20, "a+b": 20}
    # it may take one percent of the time, whatever the number of files
    slow = Mock(side_effect=lambda: slow.sleep(1.0) or {})
    rows_of(slow)
    assert slow.call_count == 2  # all blocks together are shorter than a hundred looks

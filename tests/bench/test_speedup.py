"""What several devices gain, and what their placement could: from samples that are given."""

import pytest
from cases import planned_case
from tables import table
from worlds import TOL, gpu, world

from gpumap.bench.gains import Figures
from gpumap.engine.estimates import overlap, per_time
from gpumap.model import Estimate, Group, Samples, Work

TABLES = table(__file__)
BLOCKS = tuple(range(6))


def exactly(value, unit="1"):
    return Estimate(*(pytest.approx(value, rel=TOL),) * 3, unit)


def samples(seconds, spans=None):
    times = seconds if isinstance(seconds, tuple) else (seconds,) * len(BLOCKS)
    found = {name: (span,) * len(times) for name, span in (spans or {}).items()}
    return Samples(times, BLOCKS[: len(times)], intervals=found)


def gains(scripts, solo, one, many, spans=None, case="many", reference="one"):
    """Return the figures of `many` on these devices, by the times of each case."""
    bindings = world(*scripts).bindings
    work = Work(products=len(bindings), operations=1024)
    solos = [planned_case("dot", "solo", {}, (b,), work) for b in bindings]
    alone = planned_case("dot", "one", {}, bindings[:1], work)
    landed = planned_case("dot", "one+fetch", {}, bindings[:1], work)
    against = {"one": alone, "one+fetch": landed}[reference]
    together = planned_case("dot", case, {}, bindings, work, against.id)
    group = Group((*solos, alone, landed, together))
    taken = {c.id: samples(t) for c, t in zip(solos, solo, strict=True) if t is not None}
    if one is not None:
        taken[alone.id] = samples(one)
    taken[landed.id] = samples(4.0)
    taken[together.id] = samples(many, spans)
    return Figures(group, taken, 0.95).of(together)


BOTH = {"a": (0.0, 1.0), "b": (0.0, 1.0)}
TWO = (gpu(0), gpu(1))


@pytest.mark.parametrize(("scripts", "solo", "one", "many", "expected"), [
    *TABLES["gains"],
    # without the solo time of every device there is no ideal; without a reference no speed-up
    ([{"number": 0}, {"number": 1}], (1.0, None), 2.0, 1.0, {"speedup": 2.0}),
    ([{"number": 0}, {"number": 1}], (None, None), 2.0, 1.0, {"speedup": 2.0}),
    ([{"number": 0}, {"number": 1}], (1.0, 1.0), None, 1.0, {}),
])  # fmt: skip
def test_what_a_placement_gains_and_could(scripts, solo, one, many, expected):
    """Ideal is T(one) over the busiest hardware; efficiency is the speed-up over the ideal."""
    devices = [gpu(**script) for script in scripts]
    found = gains(devices, solo, one, many, dict.fromkeys("abcd"[: len(devices)], (0.0, 1.0)))
    figures = {name: exactly(value) for name, value in expected.items()}
    rest = {"time": exactly(many, "s"), "rate": exactly(1024 / many, "FLOP/s")}
    assert rest | figures | {"overlap": exactly(1.0)} == found


def test_fetching_is_held_against_fetching():
    """Where one took less with its fetches than without, fetching costs nothing."""
    found = gains(TWO, (1.0, 1.0), 2.0, 3.2, BOTH, "many+fetch", "one+fetch")
    assert exactly(1.25) == found["speedup"]
    assert exactly(0.625) == found["efficiency"] == found["speedup_over_one"]
    # the ideal has its fetches: speeds 1 and 0.5, a second for each; 2 + 2 of one, 2 + 1 at once
    found = gains(TWO, (1.0, 2.0), 2.0, 3.0, BOTH, "many+fetch+threads", "one+fetch")
    assert found["speedup"] == found["ideal"] == exactly(4 / 3)
    assert found["efficiency"] == exactly(1.0)
    assert found["ideal_balanced"] == exactly(5 / 3)
    found = gains(TWO, (5.0, 5.0), 8.0, 4.0, BOTH, "many+fetch", "one+fetch")
    assert found["ideal"] == exactly(8.0 / 5.0)


@pytest.mark.parametrize(
    ("slow", "unequal"),
    [((1.3,) * 6, True), ((1.0, 1.2, 1.3, 0.9, 1.25, 1.21), False), ((1.3,) * 5, False)],
)
def test_devices_are_unequal_where_the_interval_says_so(slow, unequal):
    """The median alone, 1.2 times, may be noise of equal ones; so may any five blocks."""
    found = gains(TWO, (1.0, slow), 2.0, 1.3, BOTH)
    assert ("ideal_balanced" in found) is unequal


def test_a_rate_swaps_the_ends_of_its_time():
    time = Estimate(2.0, 0.0, 4.0, "s")
    assert Estimate(4.0, 2.0, float("inf"), "B/s") == per_time(8, time, "B/s")
    # whatever the time
    time = Estimate.without_interval(2.0, "s")
    assert Estimate.without_interval(4.0, "B/s") == per_time(8, time, "B/s")


@pytest.mark.parametrize(("spans", "share"), TABLES["overlaps"])
def test_overlap_is_a_share_of_the_least_busy(spans, share):
    assert exactly(share) == overlap(samples(1.0, spans), 0.95)
    assert overlap(samples(1.0), 0.95) is None  # nothing was tracked


def test_a_share_of_the_time_is_between_none_and_all():
    """Also at the ends of an interval that reaches beyond: half of the blocks ran apart."""
    spans = {"a": ((0.0, 1.0),) * 20, "b": ((1.0, 2.0),) * 10 + ((0.0, 1.0),) * 10}
    taken = Samples((1.0,) * 20, tuple(range(20)), intervals=spans)
    found = overlap(taken, 0.95)
    assert (found.low, found.value, found.high) == (0.0, 0.5, 1.0)

"""The cost models are what the schedules cost, and 0 for a single rank."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap.comm.algorithms import (
    ALGORITHMS,
    MODELS,
    Link,
    bus_factor,
    schedule,
    seconds,
)
from gpumap.model import Line

LINK = Link((Line(2.0**-10, 2.0**-20),))  # seconds, bytes per second


def of_schedule(plan):
    """Return what a schedule takes: each step ends when the busiest port has sent or received."""
    total = 0.0
    for step in plan.steps:
        ports = {}
        for transfer in step:
            for port in (("out", transfer.sender), ("in", transfer.receiver)):
                ports[port] = ports.get(port, 0) + transfer.length
        total += 2.0**-10 + max(ports.values()) / 2.0**20
    return total


@given(st.sampled_from(list(ALGORITHMS)), st.integers(1, 16), st.integers(1, 50))
def test_a_model_is_what_the_schedule_costs(name, ranks, part):
    length = ranks * part
    expected = of_schedule(schedule(name, ranks, length))
    assert seconds(name, ranks, length, LINK) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_one_device_exchanges_for_nothing(name):
    assert seconds(name, 1, 2**30, LINK) == 0.0
    assert seconds("ring", 8, 2**20, LINK) == 14 * 2.0**-10 + 14 / 8
    # of two lines small messages go another way: the ring's are smaller than the host's
    link = Link((Line(1.0, 0.0), Line(0.0, 1.0, 100.0)))
    assert (seconds("ring", 4, 200, link), seconds("host", 4, 200, link)) == (6.0, 1200.0)


@pytest.mark.parametrize(("ranks", "nbytes", "latencies", "share"), [
    (2, 2**20, 1, 1.0), (8, 1, 3, 3.0), (8, 2**20, 6, 1.75), (6, 2**20, 6, 10 / 6),
])  # fmt: skip
def test_a_library_takes_the_better_of_two(ranks, nbytes, latencies, share):
    expected = latencies * 2.0**-10 + share * nbytes / 2.0**20
    assert seconds("native", ranks, nbytes, LINK) == pytest.approx(expected)
    assert bus_factor(8) == 1.75  # as nccl-tests' PERFORMANCE.md has it

"""Undisturbed samples: left out by evidence of preemption, never by the time itself."""

import math
import random

import pytest

from gpumap.engine.estimates import quotient, ratio
from gpumap.engine.undisturbed import by_cpu, shares_run, undisturbed
from gpumap.model import Estimate, Samples, replace

BUSY = 0.010  # seconds of a sample that nothing disturbs


def taken(*lost, names=("a",), busy=BUSY, waits=0.0):
    """Return samples whose threads lost so many seconds; in `waits` no thread ran."""
    n = len(lost)
    seconds = tuple(busy + each + waits for each in lost)
    spans = tuple((float(k), k + busy + each) for k, each in enumerate(lost))
    return Samples(
        seconds, tuple(range(n)), queue=(0.0,) * n, cpu=(busy * len(names),) * n,
        worked=dict.fromkeys(names, (busy,) * n), intervals=dict.fromkeys(names, spans),
    )  # fmt: skip


@pytest.mark.parametrize("names", [("a",), ("a", "b")])
def test_preempted_samples_are_left_out_with_all_that_is_of_them(names):
    found = taken(*[0.0, 0.005] * 6, names=names)
    kept = undisturbed(found)
    assert kept.blocks == (0, 2, 4, 6, 8, 10)
    assert set(kept.seconds) == {BUSY}
    assert {len(kept.queue), len(kept.cpu), len(kept.worked["a"]), len(kept.intervals["a"])} == {6}
    assert not by_cpu(found)


@pytest.mark.parametrize(("start", "stop", "step"), [
    (0.0, 0.01, 2), (0.002, 0.002, 2), (0.0001, 0.0001, 1),
])  # fmt: skip
def test_one_preempted_device_of_several_is_enough(start, stop, step):
    """One that begins late waited for its core, behind a mark that the queue had not come to."""
    found = taken(*[0.0] * 12, names=("a", "b"))
    late = tuple(
        (s + start * (n % 2), e + stop * (n % 2)) for n, (s, e) in enumerate(found.intervals["b"])
    )
    found = replace(found, intervals={**found.intervals, "b": late})
    assert undisturbed(found).blocks == tuple(range(0, 12, step))


def test_a_wait_beside_the_spans_is_seen():
    """A fetch behind them takes a thread too: where none ran, one was preempted."""
    assert shares_run(taken(*[0.0] * 6, waits=0.002)) == pytest.approx((10 / 11.8,) * 6)
    assert shares_run(taken(*[0.0] * 6, waits=0.0001)) == pytest.approx((1.0,) * 6)  # a wake-up


@pytest.mark.parametrize("clean", [0, 5])
def test_of_too_few_the_cpu_times_of_all_count(clean):
    found = taken(*[0.0] * clean, *[0.004] * (9 - clean), names=("a", "b"))
    assert by_cpu(found)
    assert undisturbed(found).seconds == pytest.approx((BUSY,) * 9)
    assert undisturbed(found).blocks == found.blocks


@pytest.mark.parametrize(
    "unknown", [{"cpu": (0.0009,) * 9}, {"worked": {}}, {"cpu": ()}, {"intervals": {}}]
)
def test_without_evidence_nothing_is_left_out(unknown):
    """Short iterations, scripted devices, GPUs, all cores: no thread tells whether it ran."""
    found = replace(taken(*[0.005] * 9), **unknown)
    assert (shares_run(found), by_cpu(found)) == ((), False)
    assert undisturbed(found) is found


SHARING = (("a", "b"),)


@pytest.mark.parametrize(("sharing", "cpu", "seconds"), [
    ((), 2.0, 1.0), (SHARING, 2.0, 2.0),
    (SHARING, 2.5, 2.5),  # the host's own part of an iteration, counted once
])  # fmt: skip
def test_names_of_one_core_take_turns(sharing, cpu, seconds):
    """On a busy machine by CPU times too: two names of it are no faster than one."""
    found = replace(taken(*[7 * BUSY] * 8, names=("a", "b")), cpu=(cpu * BUSY,) * 8)
    assert by_cpu(found, sharing)
    assert undisturbed(found, sharing).seconds == pytest.approx((seconds * BUSY,) * 8)


def test_turns_on_one_core_are_no_preemption():
    """Each has half of the core, which was never idle; of two cores half was lost."""
    found = taken(*[BUSY] * 8, names=("a", "b"))
    assert shares_run(found, SHARING) == pytest.approx((1.0,) * 8)
    assert shares_run(found) == pytest.approx((0.5,) * 8)
    assert undisturbed(found, SHARING) is found


def test_separate_medians_hold_the_ratio_in_95_of_100_runs():
    """Each side keeps other blocks: at least 93 of 100, by 400 runs of 12 and 20 samples."""
    rng, held = random.Random(1), 0  # noqa: S311 - noise, not a secret
    for _ in range(400):
        over, under = (
            {start + n: seconds * math.exp(rng.gauss(0.0, 0.03)) for n in range(count)}
            for start, seconds, count in ((0, 2.0, 12), (100, 1.0, 20))
        )
        found = ratio(over, under, 0.95)
        held += found.low <= 2.0 <= found.high
    assert held >= 0.93 * 400


def test_a_quotient_has_the_noise_of_both_sides():
    """Turned around, its ends are the reciprocals; of too few samples it has none."""
    over, under = Estimate(2.0, 1.8, 2.3, "s"), Estimate(1.0, 0.9, 1.05, "s")
    found, turned = quotient(over, under), quotient(under, over)
    assert (1 / turned.high, 1 / turned.low) == pytest.approx((found.low, found.high))
    assert found.low == pytest.approx(
        2.0 * math.exp(-math.hypot(math.log(2 / 1.8), math.log(1.05)))
    )
    few = Estimate.without_interval(2.0, "s")
    assert quotient(few, Estimate(1.0, 0.9, 1.1, "s")) == Estimate.without_interval(2.0, "1")
    assert quotient(few, Estimate(0.0, 0.0, 0.0, "s")) is None

"""What limits a program on several names: of recorded times and usages alone, one cause each."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap import model
from gpumap.bench.figures import located, ratio
from gpumap.judge.programs import CAUSES, judged, sentence

ONE = (2.0, 2.0)  # seconds of a run, and what its core worked
NOISE = (1.0, 1.005, 0.995, 1.01, 0.99, 1.002)


def step(count, elapsed, busy, *, start=None, foreign=0.0, shares=(), noise=NOISE):
    """Return runs on so many names of one core each; `shares` of None: a name was not used."""
    runs = tuple(
        model.TimedRun(turn, elapsed * by, busy, start, foreign, 8) for turn, by in enumerate(noise)
    )
    uses = tuple(
        model.Use(f"dev{n}", f"cpu:{n}", "used" if share else "not-used", None, ("proc",), share)
        for n, share in enumerate(shares or (0.9,) * count)
    )
    over = dict.fromkeys(range(len(noise)), ONE[0])
    under = {run.turn: run.elapsed for run in runs}
    time = located([run.elapsed for run in runs], "s", 0.95)
    gain = ratio(over, under, 0.95) if count > 1 else None
    return model.Scaled(tuple(f"dev{n}" for n in range(count)), count, runs, None, time, gain, uses)


def limited(*args, **others):
    return judged(("x",), (step(1, *ONE), step(*args, **others)))


@pytest.mark.parametrize(("cause", "args", "others"), [
    ("scales", (2, 1.03, 2.04), {}),
    ("scales", (2, 1.03, 2.04), {"foreign": 0.5}),  # others had cores, and it was fast enough
    ("scales", (2, 0.9, 1.8), {}),  # more than twice: caches
    ("busy-no-faster", (2, 1.9, 3.7), {}),
    ("busy-no-faster", (2, 2.4, 4.8), {}),  # slower than one
    ("start-up", (2, 1.6, 2.05), {"start": 1.1}),
    ("one-at-a-time", (2, 2.0, 2.0), {"shares": (0.6, 0.4)}),  # threads that hold a lock
    ("one-at-a-time", (2, 2.0, 2.0), {"shares": (1.0, 0.0)}),
    ("one-at-a-time", (2, 2.0, 2.0), {"start": 0.1}),  # a start that is nothing
    ("idle-names", (3, 1.05, 2.05), {"shares": (1.0, 0.95, 0.0)}),
    ("uneven-work", (2, 1.5, 2.1), {"shares": (1.0, 0.4)}),
    ("waits", (2, 2.0, 1.2), {"shares": (0.3, 0.3)}),
    ("waits", (2, 1.3, 2.1), {"shares": (0.8, 0.8)}),
    ("not-seen", (2, 2.0, None), {}),
    ("cpu-contention", (2, 2.0, 2.0), {"foreign": 0.5}),
    ("few-samples", (2, 1.0, 2.0), {"noise": NOISE[:5]}),
    ("wide-interval", (2, 1.3, 2.0), {"noise": (1, 0.7, 1.5, 1, 0.8, 1.3)}),
    ("wide-interval", (2, 1.05, 2.0), {"noise": (1, 0.7, 1.5, 1, 0.8, 1.3)}),
])  # fmt: skip
def test_one_cause_is_found_by_elimination(cause, args, others):
    found = limited(*args, **others)
    assert found.cause == cause
    assert re.fullmatch(r"[A-Z].*\.", sentence(found))
    assert "{" not in sentence(found)
    assert cause in CAUSES


@given(st.floats(0.5, 8.0), st.floats(0.1, 16.0), st.integers(2, 16))
def test_what_is_lost_is_rest_or_growth(elapsed, busy, count):
    """speed-up / n = P(n) / (n P(1)) x W(1) / W(n), whatever was seen."""
    found = limited(count, elapsed, busy, noise=(1.0,) * 6)
    ideal = found.steps[-1].speedup.value / count
    assert ideal == pytest.approx(found.busy / (ONE[1] / ONE[0]) / found.growth)


def test_a_count_whose_run_failed_has_no_cause():
    first, last = step(1, *ONE), step(2, 1.0, 2.0)
    failed = model.Scaled(last.names, 2, (), 3)
    found = judged(("x",), (first, failed))
    assert (found.cause, found.busy, found.growth) == (None, None, None)


@pytest.mark.parametrize(("foreign", "cause"), [(0.39, "one-at-a-time"), (0.41, "cpu-contention")])
def test_others_count_from_a_tenth_of_all_cores(foreign, cause):
    """Of two cores in 2 s these are 4 s: a tenth of that is 0.4 s."""
    assert limited(2, 2.0, 2.0, foreign=foreign, noise=(1.0,) * 6).cause == cause


def test_every_cause_has_been_found():
    """By the table above: none is without a test."""
    mark = test_one_cause_is_found_by_elimination.pytestmark[0]
    assert {cause for cause, *_ in mark.args[1]} == set(CAUSES)

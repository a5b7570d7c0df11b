"""What whole runs on noisy devices may say: no impossible ratio, and nothing of a few samples."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worlds import SETTINGS, dot_on, gpu, rows_on, world

from gpumap.errors import Exit
from gpumap.judge.exit_status import status
from gpumap.model import replace

SLACK = 1.05  # that a clock may rise
NOISE = st.fixed_dictionaries({
    "noise": st.floats(0.3, 2.0), "noise_seed": st.integers(0, 2**31),
    "spikes": st.floats(0.0, 0.3), "spike": st.floats(2.0, 40.0),
})  # fmt: skip
RATES = st.sampled_from([2.0**31, 2.0**31, 2.0**29])
BLOCKS = st.sampled_from([1, 2, 5, 6, 7, 20])
FEW = settings(max_examples=25, suppress_health_check=list(HealthCheck))


def measured(benchmark, here, blocks):
    rows = rows_on(here, benchmark, replace(SETTINGS, blocks=blocks))
    return [row for row in rows if row.status == "ok"]


def hardware(row):
    """Return how many pieces of hardware a row works on; none of these devices shares a part."""
    return len({binding.device.hardware for binding in row.case.bindings})


def ceilings(row):
    names = 2 if row.case.name == "bidir" else len(row.case.names)
    pieces = names if "fetch" in row.case.name else hardware(row)
    return {"speedup": names, "speedup_over_one": names, "ideal": pieces, "ideal_balanced": pieces,
            "efficiency": names / hardware(row), "overlap": 1 / SLACK}  # fmt: skip


def undecided(row):
    """Return whether a row says nothing: of too few samples, or with a refused ratio."""
    return len(row.samples.seconds) < 6 or "impossible" in row.flags


def proved(rows):
    for row in rows:
        few = len(row.samples.seconds) < 6
        for name, top in ceilings(row).items():
            figure = row.metrics.get(name)
            if figure is not None and not figure.impossible:
                assert figure.value <= SLACK * top + 1e-12, (row.case.id, name, figure)
        refused = [name for name, figure in row.metrics.items() if figure.impossible]
        assert bool(refused) is ("impossible" in row.flags)
        if few:
            assert {figure.has_interval for figure in row.metrics.values()} == {False}
        else:
            assert row.metrics["time" if "time" in row.metrics else "issue_interval"].has_interval
        assert row.explanation is None or not undecided(row)
    expected = "inconclusive" if any(map(undecided, rows)) else "ok"
    assert status(Exit.OK, rows) == expected


@FEW
@given(first=NOISE, second=NOISE, rate=RATES, blocks=BLOCKS, shared=st.booleans())
def test_products_on_noisy_devices(first, second, rate, blocks, shared):
    here = world(gpu(0, **first), gpu(0, **first) if shared else gpu(1, rate=rate, **second))
    proved(measured(dot_on(here), here, blocks))


@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_such_noise_makes_ratios_that_are_refused(noise):
    """Else the tests above would hold for want of a case."""
    flags = Counter()
    for seed in range(12):
        here = world(*(gpu(n, noise=noise, noise_seed=seed) for n in (0, 1)))
        flags.update(flag for row in measured(dot_on(here), here, 1) for flag in row.flags)
    assert flags["impossible"] > 0

"""From a ladder's rows to models: what was scripted is found again, and a size is predicted."""

from dataclasses import replace

import pytest
from test_transfer import made, params
from worlds import SETTINGS, gpu, rows_on

from gpumap.bench.model import fits
from gpumap.bench.transfer import HELD_BACK, LADDER

FIVE_US = {"latency": 5e-6, "bandwidth": 50e9}
BLOCKS = replace(SETTINGS, budget=1e6, blocks=20)


def models(*scripts, cases=("h2d", "d2h"), ladder=(*LADDER, HELD_BACK), settings=BLOCKS):
    """Measure a ladder; return its models by case, names and mode."""
    here, benchmark = made(*scripts, params=params(cases=cases, ladder=ladder))
    rows = rows_on(here, benchmark, settings)
    return {
        (f.case.name, ">".join(f.case.names), f.case.params["memory"], f.case.params["mode"]): f
        for f in fits(rows, 0.95, 1)
    }


def test_latency_and_bandwidth_are_the_scripted_ones():
    """Within 1 %, the half size within 2 %; a size that was held back is predicted."""
    found = models(gpu(0, features=("pinned",)), gpu(1, features=()), cases=("h2d", "d2d"))
    ways = [("h2d", "a", "pageable"), ("h2d", "a", "pinned"), ("h2d", "b", "pageable"),
            ("d2d", "a>b", "device"), ("d2d", "b>a", "device")]  # fmt: skip
    assert set(found) == {(*way, mode) for way in ways for mode in ("sync", "queued")}
    assert found["d2d", "a>b", "device", "sync"].id == (
        "transfer.d2d.fit[backend=fake,memory=device,mode=sync,names=a>b,pattern=alone]"
    )
    for fit in models(gpu(0, features=(), **FIVE_US)).values():
        figures = {name: found.value for name, found in fit.metrics.items()}
        assert fit.fits
        assert (fit.regimes, fit.sizes) == (1, LADDER)
        assert figures["latency"] == pytest.approx(5e-6, rel=0.01)
        assert figures["peak_bandwidth"] == pytest.approx(50e9, rel=0.01)
        assert figures["n_half"] == pytest.approx(250e3, rel=0.02)
        assert fit.held_back.nbytes == HELD_BACK
        assert fit.held_back.predicted == pytest.approx(fit.held_back.measured, rel=0.01)


def test_a_device_of_two_regimes_has_two():
    """Small copies by one way, large ones by another."""
    large = {"large_from": 262144, "large_latency": 40e-6, "large_bandwidth": 10e9}
    fit = models(gpu(0, features=(), **FIVE_US, **large))["h2d", "a", "pageable", "sync"]
    assert (fit.fits, fit.regimes) == (True, 2)
    assert fit.lines[1].start == 262144
    assert fit.metrics["latency"].value == pytest.approx(5e-6, rel=0.01)
    assert fit.metrics["peak_bandwidth"].value == pytest.approx(10e9, rel=0.01)


@pytest.mark.parametrize("ladder", [(), (64,), (64, 512, 4096)])
def test_too_few_sizes_make_no_model(ladder):
    """Two parameters, and something to be wrong about."""
    assert models(gpu(0, features=()), ladder=ladder) == {}

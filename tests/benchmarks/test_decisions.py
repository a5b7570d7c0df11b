"""Intervals hold, flags are rare and comparisons decide: few runs of what benchmarks record."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import decisions
from benchmarks.decisions import crossed, decided, modelled, placed, stopped
from gpumap import stats

sys.path.append(str(Path(__file__).parents[1] / "commands"))
from scripts import script

RUNS = range(1000, 1200)  # other seeds than those of a record


@pytest.mark.parametrize(
    ("kind", "least", "most_flagged"),
    [("normal", 0.92, 0.04), ("lognormal", 0.92, 0.04), ("pareto", 0.92, 0.04),
     ("spikes", 0.92, 1.0), ("ar 0.5", 0.90, 1.0)],
)  # fmt: skip
@pytest.mark.parametrize("blocks", [40, 80])
def test_intervals_hold_and_flags_are_rare(kind, least, most_flagged, blocks):
    """Of medians and ratios, with the stopping rule; bounds less what 200 runs leave to chance."""
    time, time_flag, ratio, ratio_flag = np.mean([stopped(kind, blocks, s) for s in RUNS], axis=0)

    assert min(time, ratio) >= least - 0.02
    assert max(time_flag, ratio_flag) <= most_flagged


def test_intervals_that_are_not_widened_would_be_seen(monkeypatch):
    """Without the widening by correlation the bound of AR 0.5 fails."""
    monkeypatch.setattr(stats, "_correlation", lambda _: (0.0, 1.0))

    assert np.mean([stopped("ar 0.5", 80, seed)[2] for seed in RUNS]) < 0.88


def test_intervals_of_a_fit_hold():
    """Also of noise that correlates."""
    for kind, blocks in (("normal", 6), ("ar 0.5", 16)):
        held = [modelled(kind, blocks, seed) for seed in range(1000, 1060)]
        assert np.mean([found for found in held if found is not None]) >= 0.9


@pytest.mark.parametrize(("kind", "least"), [("normal", 0.95), ("ar 0.5", 0.92)])
def test_intervals_of_a_break_even_hold(kind, least):
    """Of six samples at each size, and of a line between sizes that the truth is not."""
    held, halves = zip(*(crossed(kind, seed) for seed in RUNS), strict=True)

    assert sum(held) / len(RUNS) >= least
    assert np.median(halves) < 0.15


def test_the_ideal_of_two_equal_devices_is_two():
    """The larger of two noisy times in each block would be 5 % too long at 10 % of noise."""
    held, errors = zip(*(placed("normal", 0.10, 40, seed) for seed in RUNS), strict=True)

    assert sum(held) / len(RUNS) >= 0.91
    assert abs(np.mean(errors)) < 0.02


@pytest.mark.parametrize(
    ("situation", "code"),
    [("A/A", 0), ("work +10 %", 1), ("device and control +15 %", 1), ("7 % faster", 0)],
)
def test_a_quiet_machine_is_decided(situation, code):
    """In 19 of 20 pairs of runs, as the default command would measure them."""
    found = [decided("normal", situation, seed) for seed in range(1000, 1020)]

    assert found.count(code) >= 19


def test_what_is_injected_is_there_and_is_not_said(tmp_path, monkeypatch):
    """Rounds take a tenth longer, ids and work are the same, and compare finds it."""
    monkeypatch.setenv("GPUMAP_FAKE", str(tmp_path / "fake.toml"))
    monkeypatch.setenv("GPUMAP_BACKEND", "fake")
    rate = {"rate": 2**28}
    (tmp_path / "fake.toml").write_text(script({"ref": "cpu0"} | rate, {"ref": "cpu1"} | rate))
    monkeypatch.setattr(decisions, "SIZE", 64)
    files = [tmp_path / f"{name}.json" for name in "ab"]

    for products, file in zip((decisions.PRODUCTS, decisions.MORE), files, strict=True):
        assert decisions.measure(products, file, "30s") == 0
    ids, works = (
        [[row[key] for row in json.loads(file.read_text())["measurements"]] for file in files]
        for key in ("id", "work")
    )
    code, words, _ = decisions.compared(*files)

    assert (ids[0], works[0]) == (ids[1], works[1])
    assert (code, "regression" in words) == (1, True)

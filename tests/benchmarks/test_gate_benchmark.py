"""`benchmarks/gate.py`: what it counts, what it injects, and that its runs can be compared."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import gate
from gpumap import saved

sys.path.append(str(Path(__file__).parents[1] / "commands"))
from scripts import script

EXACT = gate.Pair(0, ("same",), 1.0, 1.0, 1.0)
ALARM = gate.Pair(1, ("regression",), 1.1, 1.08, 1.12, foreign=0.5)
MAYBE = gate.Pair(5, ("inconclusive",), None, None, None)


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Let the core be a script, and return what changes it."""
    monkeypatch.setenv("GPUMAP_FAKE", str(tmp_path / "fake.toml"))
    monkeypatch.setenv("GPUMAP_BACKEND", "fake")
    monkeypatch.setenv("GPUMAP_CACHE_DIR", str(tmp_path))

    def write(**keys):
        (tmp_path / "fake.toml").write_text(script({"ref": "cpu0", "rate": 2**36}, **keys))

    write()
    return write


def test_neighbours_are_compared(fake, tmp_path):
    """One more run than pairs, each against the one before; a slower machine is no alarm."""
    launches, runs = iter([0.0, 0.0, 2.0**-8]), []

    def run(target):
        fake(launch=next(launches))
        gate._plain("2s", target)
        runs.append(target)

    pairs = list(gate.neighbours(tmp_path, 2, run))
    assert [(pair.code, pair.words) for pair in pairs] == [(0, ("same",)), (5, ("inconclusive",))]
    assert len(runs) == 3


def test_without_pairs_nothing_is_run(tmp_path):
    """Neither kind."""

    def run(*_):
        raise AssertionError

    assert [*gate.neighbours(tmp_path, 0, run), *gate.injected(tmp_path, 0, run)] == []


def test_injected_work_is_compared_with_none(tmp_path, monkeypatch):
    """The one with less work is the base; every other pair measures it second."""
    order = []
    monkeypatch.setattr(gate, "compared", lambda base, new: (base.read_text(), new.read_text()))

    def run(products, target):
        order.append(products)
        target.write_text(str(products))

    found = list(gate.injected(tmp_path, 2, run))
    assert found == [(str(gate.PRODUCTS), str(gate.MORE))] * 2
    assert order == [gate.PRODUCTS, gate.MORE, gate.MORE, gate.PRODUCTS]


def test_a_comparison_that_did_not_take_place_ends_the_script(fake, tmp_path):
    """It is neither a regression nor none."""
    fake()
    gate._plain("2s", tmp_path / "a.json")
    (tmp_path / "b.json").write_text("{}")

    with pytest.raises(SystemExit, match="gpumap compare ended in 2"):
        gate.compared(tmp_path / "a.json", tmp_path / "b.json")


def test_a_run_that_failed_ends_the_script(fake, tmp_path):
    """Its report is none to compare."""
    fake(fault="wrong-product")

    with pytest.raises(SystemExit, match="a run ended in 4"):
        gate._plain("2s", tmp_path / "a.json")


def test_the_injected_work_is_in_the_same_row(tmp_path):
    """On a real core: by its id, its map and its anchor it is the plain run's."""
    gate._plain("500ms", tmp_path / "plain.json")
    gate._heavy("500ms", 2, tmp_path / "heavy.json")

    plain, heavy = (saved.read(tmp_path / f"{name}.json") for name in ("plain", "heavy"))
    ids = [[row.case.id for row in found.measurements] for found in (plain, heavy)]
    assert ids[0] == ids[1]
    assert plain.fingerprint == heavy.fingerprint
    assert [row.status for row in heavy.measurements] == ["ok", "ok"]


@pytest.mark.parametrize(("rounds", "queued"), [(1, 3), (2, 6)])
def test_a_heavier_round_does_its_work_several_times(rounds, queued):
    """Between the marks of one."""

    class Round:
        route = None
        poison = finish = check = None
        asked = ()

        def queue(self, spans, rounds):
            self.asked = (spans, rounds)

    inner = Round()
    gate.Heavy(inner, 3).queue("marks", rounds)
    assert inner.asked == ("marks", queued)


@pytest.mark.parametrize(
    ("same", "slower", "met"),
    [
        ([EXACT] * 98 + [ALARM] * 2, [], True),
        ([EXACT] * 97 + [ALARM] * 3, [], False),
        ([MAYBE] * 100, [], True),  # who cannot tell raises no alarm
        ([], [ALARM] * 90 + [EXACT] * 10, True),
        ([], [ALARM] * 89 + [MAYBE] * 11, False),
        ([EXACT], [EXACT], False),
        ([], [], False),
    ],
)
def test_targets(same, slower, met):
    """At most 2 of 100 alarms, at least 90 of 100 found; nothing measured meets none."""
    assert gate.Record("2s", "now", same, slower).met is met


def test_the_text_of_a_record():
    """What was seen, what must be, and the machine."""
    busy = {"load1": 0.5, "busy": 0.1, "steal": None}
    record = gate.Record("2s", "now", [EXACT, MAYBE], [ALARM], busy, busy)

    first, same, slower, machine, last = gate.lines(record)
    assert (first, last) == ("dot 512, one case on a->cpu0, 2s a run or 0.5%, at 5%, now", "met")
    assert same == (
        "A/A: 0 of 2 regressions (at most 2%); 1 x exit 0, 1 x exit 5; 1 same, 1 inconclusive; "
        "ratios 1.000 to 1.000, median 1.000; others kept busy: not known"
    )
    assert slower == (
        "10% more: 1 of 1 exit 1 (at least 90%); 1 x exit 1; 1 regression; "
        "ratios 1.100 to 1.100, median 1.100; others kept busy: at most 0.50 cores"
    )
    assert machine == "machine before: load 0.5, 10% busy; after: load 0.5, 10% busy"
    assert [gate._one(pair) for pair in (ALARM, MAYBE)] == [
        "exit 1, regression, 1.100 [1.080, 1.120]", "exit 5, inconclusive, no figure",
    ]  # fmt: skip

"""The speed suite: which way a ratio goes, when a target is missed, and what a peer answers."""

import sys

import pytest
from tables import table

from benchmarks import contest
from benchmarks.contest import Contest
from benchmarks.speed import opencl
from benchmarks.speed.__main__ import main


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch):
    monkeypatch.setattr(contest, "_REST", 0.0)


def asked_for(monkeypatch, *options):
    monkeypatch.setattr(sys, "argv", ["speed", *options])
    return main()


@pytest.mark.parametrize(("target", "ratio", "missed"), [
    ({"least": 2.0}, 2.0, False), ({"least": 2.1}, 2.0, True), ({"most": 0.5}, 0.5, False),
    ({"most": 0.4}, 0.5, True), ({}, 2.0, False),
])  # fmt: skip
def test_a_target_is_a_speed_or_a_cost(target, ratio, missed):
    """`least` is how many times as fast as the peer, `most` what share of its cost."""
    result = Contest("work", "peer", lambda: 1.0, lambda: 2.0, **target).held(8)
    assert (result.ours.value, result.theirs.value) == (1.0, 2.0)
    assert (result.ratio.value, result.missed) == (pytest.approx(ratio), missed)


def test_a_peer_multiplies_when_it_is_asked_to(monkeypatch):
    """In a process of its own, which ends with its stdin; one that cannot start is no figure."""
    with opencl.Peer("numpy", 8, sys.executable, {"OPENBLAS_NUM_THREADS": "1"}) as peer:
        assert peer() > 0
        process = peer._process
    assert process.returncode == 0
    monkeypatch.setitem(opencl._SETUPS, "nobody", "raise SystemExit(1)")
    with pytest.raises(RuntimeError, match="the peer ended: 1"):
        opencl.Peer("nobody", 8, sys.executable, {})


def test_launches_are_compared_for_real(capsys, monkeypatch, tmp_path):
    pytest.importorskip("pyopencl", reason="pyopencl: not installed")
    out = tmp_path / "speed.md"
    options = ("--only", "launches", "--pairs", "1", "--out", str(out))
    assert asked_for(monkeypatch, *options) in (0, 1)
    said = capsys.readouterr().out
    assert said.count("of its cost") == 2
    assert out.read_text().endswith(said)


@pytest.mark.parametrize(("options", "told"), table(__file__)["wrong"])
def test_a_wrong_option_is_told_before_anything_is_measured(options, told, capsys, monkeypatch):
    with pytest.raises(SystemExit) as end:
        asked_for(monkeypatch, *options)
    said = capsys.readouterr()
    assert (end.value.code, said.out) == (2, "")
    assert f"python -m benchmarks.speed: error: {told}" in said.err

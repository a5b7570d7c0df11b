"""The numbers of a script's command line: what each may be, and what a wrong one is told."""

from __future__ import annotations

import sys

import pytest

from benchmarks import asked


def number(monkeypatch, *words):
    """Return what a script called `work` is asked for with these words, 5 if not said."""
    monkeypatch.setattr(sys, "argv", ["benchmarks/work.py", *words])
    return asked.number("What work costs.\n\nMore of it.", "ROUNDS", 5)


@pytest.mark.parametrize(("words", "found"), [((), 5), (("1",), 1), (("40",), 40)])
def test_a_number_is_asked_for_or_the_default(words, found, monkeypatch):
    """From 1 on."""
    assert number(monkeypatch, *words) == found


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("0",), "argument ROUNDS: '0' is no whole number from 1 on"),
        (("x",), "argument ROUNDS: 'x' is no whole number from 1 on"),
        (("1.5",), "argument ROUNDS: '1.5' is no whole number from 1 on"),
        (("\u00b2",), "argument ROUNDS: '\u00b2' is no whole number from 1 on"),
        (("2", "3"), "unrecognized arguments: 3"),
    ],
)
def test_a_wrong_number_is_told(words, told, monkeypatch, capsys):
    """With the script's name; exit code 2."""
    with pytest.raises(SystemExit) as end:
        number(monkeypatch, *words)
    assert end.value.code == 2
    assert f"python -m benchmarks.work: error: {told}\n" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "found"), [((), [5, 7]), (("1",), [1, 7]), (("1", "2"), [1, 2])])
def test_numbers_may_be_left_out_from_behind(words, found, monkeypatch):
    """In the order of their names."""
    monkeypatch.setattr(sys, "argv", ["benchmarks/work.py", *words])
    assert asked.numbers("What work costs.", {"ROUNDS": 5, "BLOCKS": 7}) == found

"""The numbers of a script's command line: what each may be, and what a wrong one is told."""

import sys

import pytest

from benchmarks import asked


def number(monkeypatch, *words):
    """Return what a script called `work` is asked for with these words, 5 if not said."""
    monkeypatch.setattr(sys, "argv", ["benchmarks/work.py", *words])
    return asked.number("What work costs.\n\nMore of it.", "ROUNDS", 5)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        *(((word,), f"argument ROUNDS: '{word}' is no whole number from 1 on")
          for word in ("0", "x", "1.5", "\u00b2")),
        (("2", "3"), "unrecognized arguments: 3"),
    ],
)  # fmt: skip
def test_a_wrong_number_is_told(words, told, monkeypatch, capsys):
    """With the script's name; exit code 2."""
    with pytest.raises(SystemExit) as end:
        number(monkeypatch, *words)
    assert end.value.code == 2
    assert f"python -m benchmarks.work: error: {told}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "found"), [((), [5, 7]), (("1",), [1, 7]), (("1", "40"), [1, 40])]
)
def test_numbers_may_be_left_out_from_behind(words, found, monkeypatch):
    """In the order of their names; each is from 1 on."""
    assert [number(monkeypatch, *words[:1])] == found[:1]
    monkeypatch.setattr(sys, "argv", ["benchmarks/work.py", *words])
    assert asked.numbers("What work costs.", {"ROUNDS": 5, "BLOCKS": 7}) == found

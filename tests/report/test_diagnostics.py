"""Diagnostics as text: message, place with a caret, fix; nothing hostile, nothing endless."""

import pytest
from tables import table

from gpumap.errors import Diagnostic, MapError, Span
from gpumap.extras import install
from gpumap.parse import parse_map
from gpumap.report.diagnostics import render

TABLE = table(__file__)


def said(text):
    with pytest.raises(MapError) as error:
        parse_map(text)
    return render(error.value.diagnostics, text)


@pytest.mark.parametrize(("text", "shown"), TABLE["carets"])
def test_the_caret_is_below_its_place(text, shown):
    """Wide characters move it, and so do escapes, which are shown and counted."""
    assert said(text) == shown


def test_a_long_map_is_elided_around_the_place():
    text = ";".join(f"dev{n}->cuda{n}" for n in range(20)).replace("cuda10", "x")
    assert said(text) == TABLE["elided"]
    lines = said("a->" + "x" * 1000 + ";b->cpu").splitlines()
    assert lines[1:3] == [f"  a->{'x' * 47}…;b->cpu", f"     ^{'~' * 47}"]  # nor is a long place


def test_after_100_the_rest_is_counted():
    """A hostile map cannot flood the terminal; no line counts what is not left out."""
    for count in (0, 1, 100):
        assert render(Diagnostic(f"x{n}", "no") for n in range(count)) == "error: no\n" * count
    lines = render([Diagnostic(f"x{n}", "no") for n in range(151)]).splitlines()
    assert lines[-1] == "... and 51 more; --format json lists them all"
    assert len(lines) == 100 + 1


@pytest.mark.parametrize(("text", "errors", "more"), TABLE["alike"])
def test_entries_that_are_wrong_in_one_way_are_told_once(text, errors, more):
    """From four of them on, with their numbers; the others keep their order."""
    lines = said(text).splitlines()
    assert sum(line.startswith("error in entry ") for line in lines) == errors
    assert [line for line in lines if " more like it" in line] == ([more] if more else [])


def test_names_and_devices_make_no_error_another():
    """Nor do ids and figures; another message or hint does."""
    absent = [Diagnostic("absent", f"{name}: no cuda{n}", n + 1, hint="x", name=name)
              for n, name in enumerate(["left", "right", "up", "down"])]  # fmt: skip
    other = Diagnostic("absent", "up: no opencl0:0", 5, hint="y", name="up")
    lines = render([*absent, other]).splitlines()
    assert lines == [
        "error in entry 1: left: no cuda0", "  fix: x", "  and 3 more like it, in entries 2-4",
        "error in entry 5: up: no opencl0:0", "  fix: y",
    ]  # fmt: skip
    alike = [f"dot.one[size={n},names=a].time is 1.{n} [1.0, 2], slow" for n in range(10)]
    lines = render(Diagnostic("regression", message) for message in alike).splitlines()
    assert lines == [f"error: {alike[0]}", "  and 9 more like it"]
    limits = [
        Diagnostic("missing", f"limit dot.many[size={n}].time<=1us: no row") for n in range(9)
    ]
    assert len(render(limits).splitlines()) == 9  # each was asked for


def test_on_a_terminal_lines_are_broken_between_words():
    """Each piece as far in; in a pipe a line stays one, as do a word without room and a command."""
    every = [Diagnostic("code", f"first {'x' * 30} and then some", hint="do this, then that thing")]
    assert render(every, columns=24) == (
        f"error: first\n{'x' * 24}\n{'x' * 6} and then some\n  fix: do this, then\n  that thing\n"
    )
    assert len(render(every).splitlines()) == 2
    hint = f"{install('cuda13')} (with a driver below 580: cupy-cuda12x)"
    every = [Diagnostic("code", "no driver", hint=hint)]
    assert render(every, columns=40) == render(every)
    text = "dev0->cuda0;dev1->cuda17;dev2->cuda2"
    every = [Diagnostic("code", "wrong", span=Span(12, 24))]
    assert render(every, text, columns=30) == render(every, text)
    # no piece begins a command of CI that was harmless within its line
    assert "\n::" not in render([Diagnostic("code", "aaaaaaaaaaaa ::error::b")], columns=20)

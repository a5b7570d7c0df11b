"""Diagnostics as text: message, place with a caret, fix; nothing hostile, nothing endless."""

from textwrap import dedent

import pytest

from gpumap.errors import Diagnostic, MapError, Span
from gpumap.parse import parse_map
from gpumap.report.diagnostics import render


def said(text):
    with pytest.raises(MapError) as error:
        parse_map(text)
    return render(error.value.diagnostics, text)


def test_wide_characters_move_the_caret():
    assert said("名前->名;e\u0301->x") == dedent("""\
        error in entry 1: "名" is not a device
          名前->名;e\u0301->x
                ^~
          fix: write cuda0, rocm0, xpu0, mps, tpu0, opencl0:0 or cpu0
        error in entry 2: "x" is not a device
          名前->名;e\u0301->x
                      ^
          fix: write cuda0, rocm0, xpu0, mps, tpu0, opencl0:0 or cpu0
        """)


def test_escapes_are_shown_and_counted():
    assert said("a\x1b[1m\n->\u202ecuda0") == dedent(r"""
        error in entry 1: the name "a\x1b[1m" has characters that cannot be printed
          a\x1b[1m\n->\u202ecuda0
          ^~~~~~~~
          fix: use letters, digits and punctuation only
        error in entry 1: "\u202ecuda0" is not a device
          a\x1b[1m\n->\u202ecuda0
                      ^~~~~~~~~~~
          fix: write cuda0, rocm0, xpu0, mps, tpu0, opencl0:0 or cpu0
        """).lstrip("\n")


def test_a_long_map_is_elided_around_the_place():
    text = ";".join(f"dev{n}->cuda{n}" for n in range(20)).replace("cuda10", "x")
    assert said(text) == dedent("""\
        error in entry 11: "x" is not a device
          …;dev8->cuda8;dev9->cuda9;dev10->x;dev11->cuda11;dev12->cuda12;dev…
                                           ^
          fix: write cuda0, rocm0, xpu0, mps, tpu0, opencl0:0 or cpu0
        """)
    lines = said("a->" + "x" * 1000 + ";b->cpu").splitlines()
    assert lines[1:3] == [f"  a->{'x' * 47}…;b->cpu", f"     ^{'~' * 47}"]  # nor is a long place


@pytest.mark.parametrize(("columns", "whole"), [(None, True), (66, True), (65, False), (120, True)])
def test_a_map_is_shown_whole_where_it_fits(columns, whole):
    """64 characters and their inset: in columns that a terminal has, or in 80."""
    text = f"dev0->cuda0;dev1->cuda1;dev2->cuda2;dev3->cuda3;dev4->x;{'e' * 8}"
    found = Diagnostic("code", "wrong", span=Span(0, 4))
    assert (f"\n  {text}\n" in render([found], text, columns)) is whole


def test_after_100_the_rest_is_counted():
    """A hostile map cannot flood the terminal; no line counts what is not left out."""
    for count in (0, 1, 100):
        assert render(Diagnostic(f"x{n}", "no") for n in range(count)) == "error: no\n" * count
    lines = render([Diagnostic(f"x{n}", "no") for n in range(151)]).splitlines()
    assert lines[-1] == "... and 51 more; --format json lists them all"
    assert len(lines) == 100 + 1


@pytest.mark.parametrize(("text", "errors", "more"), [
    (";".join(f"dev{n}->gpu{n}" for n in range(10)), 1, "  and 9 more like it, in entries 2-10"),
    (";".join(f"dev{n}->gpu{n}" for n in range(3)), 3, None),
    ("a=>x;b->cpu0;c=>x;d=>x;e=>x;f", 2, "  and 3 more like it, in entries 3-5"),
    ("a->cpu0;a->cpu1;a->cpu2;a->cpu3", 1, "  and 3 more like it, in entries 2-4"),
])  # fmt: skip
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


def test_hostile_texts_are_compared_in_no_time():
    """A name may be of any length; what tells two texts apart is found in one pass."""
    names = ["[" * 20_000, "a" * 200_000, "x: " + "1[" * 20_000]
    found = [Diagnostic("absent", f"{name}: gone", 1, name=name) for name in names]
    rows = [Diagnostic("x", name) for name in names]
    assert render([*found, *rows]).count("error") == 6

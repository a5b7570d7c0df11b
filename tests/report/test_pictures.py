"""Speed-ups as bars and copies as a curve: what a terminal shows below its tables."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_reports import bindings, case, figure, ok

from gpumap.escape import width
from gpumap.model import Case, Estimate, Work
from gpumap.report import bars, curve

BARS = """\
speed-up: ▒ is its interval, │ the ideal
  many a+b 64  ██████████████████████████████████████▒▒│  1.90
  many a+b 64  █████████▒▒▒▒▒▒▒▒▒▒▒                    │  0.90
"""
CURVE = """\
bandwidth over bytes: ● h2d a, ○ d2h a
  2.00 GB/s ┤              ●        ●
            ┤
            ┤○             ○        ○
            ┤
            ┤
            ┤
            ┤
            ┤
  1.00 MB/s ┤●
            └────────────────────────
             64.0 B           16.8 MB
"""
ENDS = st.floats(0.0, 1e300, allow_nan=False)


def many(low, value, high, names=("a", "b")):
    row = ok(case("many", bindings(names)))
    row.metrics["speedup"] = Estimate(value, low, high, "1")
    return row


def copied(name, nbytes, bandwidth, on=0, **keys):
    known = {"bytes": nbytes, "memory": "pageable", "mode": "sync", "pattern": "ladder", **keys}
    row = ok(Case("transfer", name, known, bindings()[on : on + 1], Work()))
    row.metrics["bandwidth"] = figure(bandwidth, "B/s")
    return row


def text(lines):
    return "".join(f"{line}\n" for line in lines)


LADDER = [
    copied("h2d", 64, 1e6), copied("h2d", 2**17, 2e9), copied("h2d", 2**24, 2e9),
    copied("d2h", 64, 3e8), copied("d2h", 2**17, 3e8), copied("d2h", 2**24, 3e8),
    copied("h2d", 64, 9e9, on=1), copied("h2d", 64, 9e9, mode="queued"),
    copied("h2d", 64, 9e9, memory="pinned"), copied("h2d", 64, 9e9, pattern="alone"),
]  # fmt: skip


def test_a_bar_is_solid_to_its_interval():
    rows = [many(1.84, 1.90, 1.96), many(0.45, 0.90, 1.0)]
    assert text(bars.lines(rows, 66)) == BARS


@pytest.mark.parametrize("rows", [
    [], [ok(case("one"))], [ok(case("one"), speedup=1.0)], [many(math.nan, 1.0, 1.0)],
    [many(1.0, 1.0, math.inf)], [many(-1.0, 1.0, 2.0)], [many(1.0, math.nan, 2.0)],
])  # fmt: skip
def test_what_is_no_speed_up_of_several_has_no_bar(rows):
    assert text(bars.lines(rows, 80)) == ""


def test_no_more_bars_than_anyone_reads():
    found = list(bars.lines([many(1.0, 1.5, 1.6, ("\x1b[31m", "\u202e"))] * 1000, 80))
    assert len(found) == bars.MOST + 1
    assert all(line.isprintable() for line in found)


@given(
    st.lists(st.lists(ENDS, min_size=3, max_size=3).map(sorted), min_size=1, max_size=4),
    st.integers(1, 300),
)
def test_a_bar_is_never_wider_than_the_terminal(ends, columns):
    found = list(bars.lines([many(*each) for each in ends], columns))
    # a figure of many digits is longer, but no speed-up has those
    short = all(value < 100 for _, value, _ in ends)
    assert not short or all(width(line) <= columns for line in found[1:])


def test_a_curve_is_of_the_first_name_and_of_calls_that_are_waited_for():
    assert text(curve.lines(LADDER, 38)) == CURVE


@given(
    st.lists(st.tuples(st.integers(1, 2**62), st.floats(1e-3, 1e15)), max_size=9),
    st.integers(0, 200),
)
def test_any_points_make_a_curve_within_the_terminal(points, columns):
    rows = [copied("h2d", nbytes, bandwidth) for nbytes, bandwidth in points]
    found = list(curve.lines(rows, columns))
    assert len(found) in (0, 12)
    assert all(width(line) <= max(columns, 120) for line in found)
    assert text(curve.lines(LADDER, min(columns, 37))) == ""


@pytest.mark.parametrize("ideal", [math.inf, math.nan, 1e308, 0.0])
def test_an_ideal_of_no_world_is_no_line(ideal):
    row = many(0.0, 1.0, 1e308)
    row.metrics["ideal"] = Estimate(ideal, ideal, ideal, "1")
    assert "many a+b" in text(bars.lines([row], 80))


@pytest.mark.parametrize(("nbytes", "bandwidth"), [
    (64, math.inf), (64, math.nan), (64, 0.0), (0, 1e9), (-1, 1e9), (10**400, 1e9), ("x", 1e9),
])  # fmt: skip
def test_a_copy_without_a_place_is_in_no_curve(nbytes, bandwidth):
    whole = text(curve.lines(LADDER, 66))
    assert text(curve.lines([*LADDER, copied("h2d", nbytes, bandwidth)], 66)) == whole

"""CSV: a line for each figure, exact, and nothing that a spreadsheet would run."""

import csv
import io
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_reports import matrix, passed

from gpumap.report import Style
from gpumap.report.csv import number, text
from gpumap.results.shown import render

FORMULAS = "=+-@\uff1d\uff0b\uff0d\uff20"


def of(report, record):
    lines = csv.DictReader(io.StringIO(render("csv", report, Style()), newline=""))
    return [line for line in lines if line["record"] == record]


@given(st.floats())
def test_every_float_comes_back(value):
    back = float(number(value))
    assert back == value or (math.isnan(back) and math.isnan(value))


def test_numbers_come_back_as_they_were():
    report = passed()
    (row, *_) = report.measurements
    found = {line["metric"]: line for line in of(report, "measurement")[:2]}
    for name, figure in row.metrics.items():
        back = [float(found[name][key]) for key in ("value", "low", "high")]
        assert back == [figure.value, figure.low, figure.high]
        assert found[name]["unit"] == figure.unit


@pytest.mark.parametrize(("value", "shown"), [
    (None, ""), (True, "true"), (False, "false"), (0, "0"), (-3, "-3"), (1e22, "1e+22"),
    (0.1, "0.1"), (np.float64(0.5), "0.5"), (math.nan, "nan"), (math.inf, "inf"),
    (-math.inf, "-inf"),
])  # fmt: skip
def test_a_number_is_never_taken_for_a_formula(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize(("value", "cell"), [
    *((formula, f"'{formula}") for formula in (
        "=1+1", "+1+1", "-1+1", "@SUM(A1)", " =1+1", "-2+3+cmd|' /C calc'!A0", "\uff1d1", "=",
        "-", "+x")),
    ("\t=1", "\\t=1"), ("\r=1", "\\r=1"), ("\0=1", "\\x00=1"),  # an escape is no formula
    *((number_, number_) for number_ in ("-3", "+3", "-0.5", "-1e-3", "+.5", "3")),
])  # fmt: skip
def test_a_formula_is_text(value, cell):
    """What a spreadsheet would run has an apostrophe before it; a number has none."""
    assert text(value) == cell


@given(st.text(st.characters()))
def test_no_text_begins_a_formula(value):
    """Whatever it is; and it is printable, and otherwise what it was."""
    cell = text(value)
    assert cell.isprintable()
    assert cell.lstrip(" ")[:1] not in tuple(FORMULAS) or float(cell.strip()) is not None


def test_a_copy_has_its_way_in_its_names():
    names = {line["names"] for line in of(matrix(2), "measurement")}
    assert names == {f"device number {a}>device number {b}" for a, b in ((0, 1), (1, 0))}

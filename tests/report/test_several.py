"""Reports side by side: every figure once, with what it is of the first report's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from saved_reports import written

from gpumap.model import Estimate, Fingerprint, Reason, replace
from gpumap.model.io import read
from gpumap.results import several


def dot():
    return read(written("dot").path)


def times(figure, factor):
    return Estimate(figure.value * factor, figure.low * factor, figure.high * factor, figure.unit)


def scaled(report, factor):
    rows = [replace(row, metrics={n: times(f, factor) for n, f in row.metrics.items()})
            for row in report.measurements]  # fmt: skip
    return replace(report, measurements=tuple(rows))


def machine(report, digit):
    found = Fingerprint(f"sha256:{digit}", "CPU", 2, "Linux", "3.11", {}, (), {}, ())
    return replace(report, fingerprint=found if digit else None)


@given(st.floats(1e-3, 1e3))
def test_a_ratio_is_to_the_first(factor):
    found = several.lines([dot(), scaled(dot(), factor)])
    assert {line.cells[0].ratio for line in found} == {1.0}
    assert all(line.cells[1].ratio == pytest.approx(factor) for line in found)
    # to nothing, or to infinity, it would say nothing
    found = several.lines([scaled(dot(), 0.0), dot(), scaled(dot(), float("inf"))])
    assert {cell.ratio for line in found for cell in line.cells} == {None}


def test_a_row_that_a_report_does_not_have_has_no_cell():
    row, *rest = dot().measurements
    lost = replace(row, status="failed", metrics={}, reason=Reason("device-lost", "gone"))
    less, bad = (replace(dot(), measurements=each) for each in (tuple(rest), (lost, *rest)))
    found = [line for line in several.lines([less, dot(), bad]) if line.id == row.case.id]
    assert {line.cells[0] for line in found} == {None}
    assert {line.cells[1].ratio for line in found} == {None}
    assert {line.cells[2] for line in found} == {several.Cell("failed", None, None)}


@pytest.mark.parametrize(
    ("digits", "elsewhere"), [("aa", False), ("ab", True), ("a ", None), (" a", None)]
)
def test_another_machine_is_seen(digits, elsewhere):
    """By the fingerprint: than that of the first; who knows of one that does not say."""
    first, other = (machine(dot(), digit.strip()) for digit in digits)
    assert several.elsewhere(first, other) == elsewhere

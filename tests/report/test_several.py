"""Reports side by side: each figure with what it is of the first report's."""

import pytest
from made_reports import figure
from saved_reports import written

from gpumap.model import Fingerprint, Reason, replace
from gpumap.model.io import read
from gpumap.results.several import Saved, table


def dot():
    return read(written("dot").path)


def scaled(report, factor):
    rows = tuple(
        replace(row, metrics={k: figure(f.value * factor) for k, f in row.metrics.items()})
        for row in report.measurements
    )
    return replace(report, measurements=rows)


def beside(*reports):
    return table([Saved(str(number), report) for number, report in enumerate(reports)])


@pytest.mark.parametrize(("first", "factor", "end"), [
    (1.0, 2.0, "  x2.00"), (1.0, 0.123456, "  x0.123"), (1.0, 400.0, "  x400"),
    (0.0, 1.0, "]"), (1.0, float("inf"), "]"),  # to nothing, or of infinity, it says nothing
])  # fmt: skip
def test_a_ratio_is_to_the_first(first, factor, end):
    found = beside(scaled(dot(), first), scaled(dot(), factor))
    assert {row[3][-len(end) :] for row in found.rows} == {end}
    assert not any("  x" in row[2] for row in found.rows)


def test_a_row_that_a_report_does_not_have_has_no_cell():
    row, *rest = dot().measurements
    lost = replace(row, status="failed", metrics={}, reason=Reason("device-lost", "gone"))
    less, bad = (replace(dot(), measurements=each) for each in (tuple(rest), (lost, *rest)))
    (_, _, none, known, failed), *_ = [
        line for line in beside(less, dot(), bad).rows if line[0] == row.case.id
    ]
    assert (none, failed) == ("-", "failed")
    assert "  x" not in known


@pytest.mark.parametrize(("digits", "noted"), [("aa", False), ("ab", True), ("a ", False)])
def test_another_machine_is_seen(digits, noted):
    """By the fingerprint: than that of the first; who knows of one that does not say."""
    first, other = (machine(dot(), digit.strip()) for digit in digits)
    *_, one, two = beside(first, other).columns
    assert ("another machine" in one, "another machine" in two) == (False, noted)


def machine(report, digit):
    found = Fingerprint(f"sha256:{digit}", "CPU", 2, "Linux", "3.11", {}, (), {}, ())
    return replace(report, fingerprint=found if digit else None)

"""Reports side by side: every figure once, with what it is of the first report's."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reports import report as report_of
from reports import row as row_of
from saved_reports import written

from gpumap.bench.registry import follows
from gpumap.engine.estimates import by_block, ratio, time_of
from gpumap.engine.undisturbed import judged_samples, undisturbed
from gpumap.judge import several_reports
from gpumap.model import Estimate, Fingerprint, Reason, Samples, replace
from gpumap.model.io import read


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
    found = several_reports.lines([dot(), scaled(dot(), factor)])
    assert {line.cells[0].ratio for line in found} == {1.0}
    assert all(line.cells[1].ratio == pytest.approx(factor) for line in found)
    # to nothing, or to infinity, it would say nothing
    found = several_reports.lines([scaled(dot(), 0.0), dot(), scaled(dot(), float("inf"))])
    assert {cell.ratio for line in found for cell in line.cells} == {None}


def test_a_row_that_a_report_does_not_have_has_no_cell():
    row, *rest = dot().measurements
    lost = replace(row, status="failed", metrics={}, reason=Reason("device-lost", "gone"))
    less, bad = (replace(dot(), measurements=each) for each in (tuple(rest), (lost, *rest)))
    found = [line for line in several_reports.lines([less, dot(), bad]) if line.id == row.case.id]
    assert {line.cells[0] for line in found} == {None}
    assert {line.cells[1].ratio for line in found} == {None}
    assert {line.cells[2] for line in found} == {several_reports.Cell("failed", None, None)}


@pytest.mark.parametrize(("digits", "elsewhere"), [
    ("a", (False,)), ("aaa", (False, False, False)), ("aba", (False, True, False)),
    ("abb", (False, True, True)), ("a a", (False, None, False)), (" a", (None, None)),
])  # fmt: skip
def test_another_machine_is_seen(digits, elsewhere):
    """By the fingerprint: than that of the first; who knows of one that does not say."""
    reports = [machine(dot(), digit.strip()) for digit in digits]
    assert several_reports.elsewhere(reports) == elsewhere


BLOCKS = range(16)


def disturbed(name, lost, against=None):
    """Return a row whose thread was preempted in the blocks `lost`."""
    rng = random.Random(name)  # noqa: S311 - noise, not a secret
    ran = tuple(rng.uniform(0.009, 0.011) for _ in BLOCKS)
    seconds = tuple(s + 0.005 * (block in lost) for block, s in zip(BLOCKS, ran, strict=True))
    spans = tuple((float(block), block + s) for block, s in zip(BLOCKS, seconds, strict=True))
    samples = Samples(
        seconds, tuple(BLOCKS), queue=(0.0,) * len(BLOCKS), cpu=ran, worked={"a0": ran},
        intervals={"a0": spans},
    )  # fmt: skip
    kept = Estimate.exact(1 - len(lost) / len(BLOCKS))
    metrics = {"time": time_of(undisturbed(samples), 0.95), "undisturbed": kept}
    return replace(row_of(name, seconds, against=against), samples=samples, metrics=metrics)


@example({0}, {0, 1})  # both ways: the blocks of one within those of the other
@example({0, 1}, {0})
@example({0}, {1})
@example({*range(12)}, {0})
@given(*[st.sets(st.sampled_from(BLOCKS))] * 2)
def test_a_speed_up_follows_from_its_samples_whatever_was_disturbed(first, second):
    """No report that gpumap writes is refused as edited: busy machines are where CI compares."""
    one = disturbed("one", first)
    many = disturbed("many", second, against=one.case.id)
    speedup = ratio(*(by_block(judged_samples(row)) for row in (one, many)), 0.95)
    many = replace(many, metrics={**many.metrics, "speedup": speedup})
    report = report_of(one, many, settings={"confidence": 0.95, "budget_s": 8.0})
    assert several_reports.contradiction(report, follows) is None
    wrong = replace(many, metrics={**many.metrics, "speedup": Estimate.exact(3.0)})
    assert "speed-up" in several_reports.contradiction(
        replace(report, measurements=(one, wrong)), follows
    )

"""Charts of a page: what is drawn is what was measured."""

import made_reports
import pytest
from cases import driven

from gpumap.bench.keys import is_call
from gpumap.model import Estimate, replace
from gpumap.model.measurements import fit_id
from gpumap.report.charts import COLORS, amounts
from gpumap.results.charts import charts, curves, matrices, speedups
from gpumap.units import short

Figure = pytest.importorskip(
    "matplotlib.figure", reason="no matplotlib: pip install matplotlib"
).Figure


def picture(chart):
    figure = Figure()
    chart.draw(figure)
    return figure.axes[0], [text.get_text() for text in figure.axes[0].texts]


def test_backends_are_side_by_side_in_one_chart():
    """The same case of each is together, with its backend; of many rows the first are drawn."""
    report = made_reports.passed()
    _, many = report.measurements
    cases = [replace(many.case, params=many.case.params | {"size": n}) for n in range(2)]
    rows = tuple(replace(many, case=case) for case in cases)
    report = replace(report, measurements=rows, verdicts=())
    torch = [replace(row, case=driven(row.case, "torch")) for row in report.measurements]
    both = replace(report, measurements=(*report.measurements, *torch))
    (chart,) = speedups.drawn(both)
    assert chart.title == "Speed-up of dot"
    ends = [text.partition(", ")[2] for text in picture(chart)[1] if " on " in text]
    assert ends == [f"backend {b}, size {n}" for n in range(2) for b in ("fake", "torch")]
    (alone,) = speedups.drawn(report)
    assert alone.title == "Speed-up of dot, fake"
    assert not any("backend" in text for text in picture(alone)[1])
    (cut,) = charts(replace(report, measurements=rows * 7))
    assert cut.title == "Speed-up of dot, fake; the first 12 of 14, the tables have all"


def test_a_matrix_starts_from_zero():
    """Pairs that are alike look alike; without an interval there is no colour."""
    report = made_reports.matrix(4)
    (mesh,) = picture(next(matrices.drawn(report)))[0].collections
    shades = mesh.get_array()
    paired = shades[shades > 0.0]
    assert (mesh.norm.vmin, len(paired)) == (0.0, 12)
    assert min(paired) > 0.99 * max(paired)
    first, *others = report.measurements
    few = {"bandwidth": Estimate.without_interval(2e9, "B/s")}
    found = replace(report, measurements=(replace(first, metrics=few), *others))
    (mesh,) = picture(next(matrices.drawn(found)))[0].collections
    assert sum(mesh.get_array().flatten() > 0.0) == 11


def bars(chart):
    return [bar for bar in picture(chart)[0].patches if bar.get_width() > 0.0]


def test_a_speed_up_of_few_samples_is_drawn_hollow():
    (few,) = speedups.drawn(made_reports.few())
    (whole,) = speedups.drawn(made_reports.passed())
    assert [bar.get_fill() for bar in bars(few)] == [False]
    assert {bar.get_fill() for bar in bars(whole)} == {True}


def test_a_point_of_copies_of_few_samples_is_hollow():
    axes = Figure().subplots()
    few, many = Estimate.without_interval(0.5, "s"), Estimate(0.5, 0.4, 0.6, "s")
    curves.dots(axes, {1.0: few, 2.0: many}, "black")
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [dot.get_fillstyle() for dot in dots] == ["none", "full"]


def test_copies_are_time_and_bandwidth_by_size_each_with_its_line():
    """Here of a sweep whose bandwidth is half of what it may be at 64 kB."""
    report = made_reports.copies()
    (row,), (fit,) = [r for r in report.measurements if not is_call(r.case)], report.fits
    rows = []
    for size in (64, 4096, 1 << 20):
        case = replace(row.case, params={**row.case.params, "bytes": size, "pattern": "ladder"})
        time = fit.lines[0].seconds(size)
        found = {"time": time, "bandwidth": size / time}
        figures = {key: made_reports.figure(value, key[0]) for key, value in found.items()}
        rows.append(replace(row, case=case, metrics=figures))
    report = replace(report, measurements=tuple(rows), fits=(replace(fit, id=fit_id(row.case)),))
    (chart,) = curves.drawn(report)
    figure = Figure()
    chart.draw(figure)
    time, bandwidth = figure.axes
    for axes, metric in ((time, "time"), (bandwidth, "bandwidth")):
        dots = [line for line in axes.lines if line.get_marker() == "o"]
        (curve,) = [line for line in axes.lines if len(line.get_xdata()) > 3]
        values = [row.metrics[metric].value for row in report.measurements]
        assert [line.get_ydata()[0] for line in dots] == values
        assert curve.get_ydata()[0] == pytest.approx(values[0])
        assert curve.get_ydata()[-1] == pytest.approx(values[-1])
        assert curve.get_color() == COLORS[0]


@pytest.mark.parametrize(("low", "high", "labels"), [
    (12e-6, 80e-6, ["20 µs", "50 µs"]), (1e-6, 1e-1, ["10 µs", "100 µs", "1 ms", "10 ms"]),
])  # fmt: skip
def test_an_axis_has_ticks_also_within_a_power_of_ten(low, high, labels):
    axes = Figure().subplots()
    axes.set(yscale="log", ylim=(low, high))
    amounts(axes.yaxis, "s")
    shown = [short(place, "s") for place in axes.yaxis.get_ticklocs() if low < place < high]
    assert [text for text in labels if text not in shown] == []
    assert len(shown) < 8

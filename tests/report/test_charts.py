"""Charts of a page: what is drawn is what was measured, and an outlier is at the edge."""

import made_reports
import pytest

from gpumap.bench.cost_models import fit_id
from gpumap.bench.keys import is_call
from gpumap.figures import spread
from gpumap.model import Estimate, replace
from gpumap.report.charts import COLORS, amounts, short
from gpumap.results.charts import curves, matrices, speedups

Figure = pytest.importorskip(
    "matplotlib.figure", reason="no matplotlib: pip install matplotlib"
).Figure


def picture(chart):
    figure = Figure()
    chart.draw(figure)
    return figure.axes[0], [text.get_text() for text in figure.axes[0].texts]


def sized(report, *speedups):
    _, many = report.measurements
    rows = []
    for n, found in enumerate(speedups):
        case = replace(many.case, params=many.case.params | {"size": n})
        figures = many.metrics | {"speedup": found}
        rows.append(replace(many, case=case, metrics=figures))
    return replace(report, measurements=tuple(rows), verdicts=())


def test_an_outlier_does_not_flatten_a_chart():
    """Neither a figure nor an interval: it is at the edge, its value in text."""
    near = [made_reports.figure(1.9 + n / 100, "1") for n in range(6)]
    wide = Estimate(1.9, 0.1, 60.0, "1")
    (alone,) = speedups.drawn(sized(made_reports.passed(), *near))
    (chart,) = speedups.drawn(
        sized(made_reports.passed(), *near, made_reports.figure(60.0, "1"), wide)
    )
    axes, texts = picture(chart)
    assert axes.get_xlim()[1] < 5 * picture(alone)[0].get_xlim()[1]
    assert [len(line.get_xdata()) for line in axes.lines if line.get_marker() == ">"] == [2]
    assert ">" not in [line.get_marker() for line in picture(alone)[0].lines]
    assert "60.0" in texts
    # up to the number of devices nothing is an outlier: it is the figure that is looked for
    rows = [made_reports.figure(value, "1") for value in (*[1.0] * 8, 7.5)]
    (chart,) = speedups.drawn(sized(made_reports.passed([f"dev{n}" for n in range(8)]), *rows))
    assert picture(chart)[0].get_xlim()[1] > 7.5


def by_torch(case):
    """Return a case as if PyTorch drove its devices."""
    devices = [(b, replace(b.device, backend="torch")) for b in case.bindings]
    return replace(case, bindings=tuple(replace(b, device=device) for b, device in devices))


def test_backends_are_side_by_side_in_one_chart():
    """The same case of each is together, and says which backend it is of; alone it does not."""
    report = sized(made_reports.passed(), *(made_reports.figure(2.0, "1") for _ in range(2)))
    torch = [replace(row, case=by_torch(row.case)) for row in report.measurements]
    both = replace(report, measurements=(*report.measurements, *torch))
    (chart,) = speedups.drawn(both)
    assert chart.title == "Speed-up of dot"
    ends = [line.partition(":")[0].rpartition(" on ")[2].partition(", ")[2] for line in chart.lines]
    assert ends == [f"backend {b}, size {n}" for n in range(2) for b in ("fake", "torch")]
    (alone,) = speedups.drawn(report)
    assert alone.title == "Speed-up of dot, fake"
    assert not any("backend" in line for line in alone.lines)


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


def swept():
    """Return a report of a size sweep, whose bandwidth is half of what it may be at 64 kB."""
    report = made_reports.copies()
    (row,), (fit,) = [r for r in report.measurements if not is_call(r.case)], report.fits
    rows = []
    for size in (64, 4096, 1 << 20):
        case = replace(row.case, params={**row.case.params, "bytes": size, "pattern": "ladder"})
        time = fit.lines[0].seconds(size)
        found = {"time": time, "bandwidth": size / time}
        figures = {key: made_reports.figure(value, key[0]) for key, value in found.items()}
        rows.append(replace(row, case=case, metrics=figures))
    return replace(report, measurements=tuple(rows), fits=(replace(fit, id=fit_id(row.case)),))


def test_copies_are_time_and_bandwidth_by_size_each_with_its_line():
    """The line of the model goes through the points, and the text has the same numbers."""
    report = swept()
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
    text = "\n".join(chart.lines)
    for row in report.measurements:
        assert all(spread(figure) in text for figure in row.metrics.values())
    assert "latency 5.00 µs" in text


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

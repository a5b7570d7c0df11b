"""Charts of a page: outliers at the edge, few samples hollow."""

import made_reports
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap.model import Estimate, replace
from gpumap.report.charts import reach
from gpumap.results.charts import speedups, transfers

Figure = pytest.importorskip(
    "matplotlib.figure", reason="no matplotlib: pip install matplotlib"
).Figure


def picture(chart):
    figure = Figure()
    chart.draw(figure)
    return figure.axes[0], [text.get_text() for text in figure.texts]


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
    (alone,) = speedups.speedup(sized(made_reports.passed(), *near))
    (chart,) = speedups.speedup(
        sized(made_reports.passed(), *near, made_reports.figure(60.0, "1"), wide)
    )
    axes, texts = picture(chart)
    assert axes.get_xlim()[1] < 5 * picture(alone)[0].get_xlim()[1]
    assert [line.get_marker() for line in axes.lines].count(">") == 2
    assert ">" not in [line.get_marker() for line in picture(alone)[0].lines]
    assert "60.00" in texts
    # up to the number of devices nothing is an outlier: it is the figure that is looked for
    rows = [made_reports.figure(value, "1") for value in (*[1.0] * 8, 7.5)]
    (chart,) = speedups.speedup(sized(made_reports.passed([f"dev{n}" for n in range(8)]), *rows))
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
    (chart,) = speedups.speedup(both)
    assert chart.title == "Speed-up of dot"
    ends = [line.partition(":")[0].rpartition(" on ")[2].partition(", ")[2] for line in chart.lines]
    assert ends == [f"backend {b}, size {n}" for n in range(2) for b in ("fake", "torch")]
    (alone,) = speedups.speedup(report)
    assert alone.title == "Speed-up of dot, fake"
    assert not any("backend" in line for line in alone.lines)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30), st.sampled_from([None, 0.0]))
def test_an_axis_is_within_its_values(values, base):
    """It leaves out less than a quarter of the values at either end."""
    low, high = reach(values, base)
    assert min(values) <= low <= high <= max(values)
    near = [value for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
    outside = (len(values) - 1) // 4  # of either end: what is beyond a quartile
    assert len(near) >= len(values) - 2 * outside


def test_a_heat_map_starts_from_zero():
    chart = next(transfers.matrix(made_reports.matrix(4)))
    shades = [patch.get_alpha() for patch in picture(chart)[0].patches]
    assert min(shades) > 0.99 * max(shades)

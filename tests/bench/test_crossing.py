"""From which size on a device pays: what was seen, and what models predict."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap.bench.breakeven import _amortised, copying
from gpumap.bench.crossing import Point, curve, gap, predicted, ranges, seen
from gpumap.bench.figures import located
from gpumap.model import (
    Binding,
    Case,
    Device,
    DeviceRef,
    Estimate,
    Kind,
    Measurement,
    Samples,
    Work,
)

LOSES, WINS, EVEN = (0.5, 0.4, 0.6), (2.0, 1.9, 2.1), (1.1, 0.9, 1.3)


def points(*ratios):
    """Return points at 10, 100, 1000 ... bytes."""
    return [Point(10 ** (n + 1), Estimate(*ratio, "1")) for n, ratio in enumerate(ratios)]


@pytest.mark.parametrize(
    ("ratios", "found"),
    [
        ([], ()),
        ([LOSES, LOSES], ()),
        ([WINS, WINS], ((10, None),)),
        ([LOSES, WINS], ((100, None),)),
        ([WINS, LOSES], ((10, 10),)),
        ([LOSES, WINS, WINS, LOSES, WINS], ((100, 1000), (100000, None))),
    ],
)
def test_a_device_wins_in_ranges(ratios, found):
    """From the smallest to the largest size at which it was seen to; open where it still does."""
    assert found == ranges(points(*ratios))


@pytest.mark.parametrize(
    ("ratios", "found"),
    [
        ([LOSES, WINS], (math.sqrt(1000), 10, 100)),
        ([LOSES, EVEN, WINS], (math.sqrt(1000), 10, 1000)),
        ([EVEN, WINS], (10, 0, 100)),
        ([WINS, LOSES], (10, 0, 10)),
        ([LOSES, EVEN], (math.sqrt(1000), 10, math.inf)),
        ([LOSES, LOSES], (math.inf,) * 3),
    ],
)
def test_it_pays_between_a_clear_loss_and_a_clear_win(ratios, found):
    """What is not clear lies in the interval."""
    figure = seen(points(*ratios))

    assert found == pytest.approx((figure.value, figure.low, figure.high))


def test_a_crossing_is_looked_for_between_clear_winners_far_apart():
    """Not where no one can tell, nor between sizes that are close already."""
    close = [Point(1000, Estimate(*LOSES, "1")), Point(1090, Estimate(*WINS, "1"))]

    assert gap(points(LOSES, WINS, LOSES)) == (10, 100)
    assert gap(points(LOSES, EVEN, WINS)) is None
    assert gap(points(WINS, WINS)) is None
    assert gap(close) is None


@given(st.floats(1e-7, 1e-4), st.floats(1e8, 1e12), st.integers(0, 1 << 30))
def test_a_line_is_a_curve(latency, bandwidth, size):
    """Where a model fits it tells the time of any size."""
    sizes = [64 * 8**n for n in range(6)]
    found = curve(sizes, [latency + n / bandwidth for n in sizes])

    assert found.seconds(size) == pytest.approx(latency + size / bandwidth, rel=1e-6)
    assert found.miss < 1e-6


def test_what_no_line_fits_is_read_between_the_sizes():
    """As a cache makes of it; beyond the ends by the last two."""
    sizes, times = [1, 2, 3, 4, 5], [1.0, 5.0, 1.0, 9.0, 10.0]
    found = curve(sizes, times)

    assert found.model is None
    assert [found.seconds(n) for n in (1, 1.5, 4, 7)] == [1.0, 3.0, 9.0, 12.0]


@pytest.mark.parametrize(
    "times", [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 0.0], [1.0, 2.0, 3.0, math.nan]]
)
def test_a_curve_needs_four_sizes_with_times(times):
    """A time that is none, or too few of them, tell nothing."""
    assert curve(range(1, len(times) + 1), times) is None


@given(st.floats(1e2, 1e8), st.floats(1.01, 100.0))
def test_lines_cross_where_they_cross(size, faster):
    """To within the step from size to size."""
    found = predicted(lambda n: n, lambda n: size * (1 - 1 / faster) + n / faster, 1.0, 1e12, 0.0)

    assert found.value == pytest.approx(size, rel=0.03)
    assert found.low == found.value == found.high


def test_a_model_that_may_miss_gives_an_interval():
    """Where both would cross if the device were as much faster, or slower."""
    found = predicted(lambda n: n, lambda n: 500 + n / 2, 1.0, 1e12, 0.1)

    low, high = (500 * side / (1 - side / 2) for side in (0.9, 1.1))
    assert (found.low, found.high) == pytest.approx((low, high), rel=0.03)
    assert found.low < found.value < found.high


def test_lines_that_never_cross_are_never_better():
    """Neither within nor beyond what was measured."""
    assert predicted(lambda n: n, lambda n: 2 * n, 1.0, 1e12, 0.0).value == math.inf
    assert predicted(lambda n: 2 * n, lambda n: n, 8.0, 1e12, 0.0).value == 8.0


def test_a_set_up_that_no_clear_win_repays_is_not_told():
    """A win by the median alone saves nothing that is known; where the host wins it never pays."""
    assert _amortised(None, "moved", points(LOSES, EVEN)) is None
    assert _amortised(None, "moved", points(LOSES, LOSES)).value == math.inf


@pytest.mark.parametrize(("n", "told"), [(5, False), (6, True)])
def test_under_six_samples_of_copies_predict_nothing(n, told):
    """A size with fewer is no part of the ladder, and without it there are too few sizes."""
    device = Device("cuda:0", Kind.CUDA, DeviceRef(Kind.CUDA, 0), "x", "fake")
    keys = {"memory": "pageable", "mode": "queued", "pattern": "ladder"}
    rows = [
        Measurement(
            Case("transfer", "h2d", {**keys, "bytes": nbytes}, (Binding("a", device),), Work()),
            "ok",
            samples=Samples((1e-6 * nbytes,) * n, tuple(range(n))),
            metrics={"spacing": located((1e-6 * nbytes,) * n, "s", 0.95)},
        )
        for nbytes in (64, 512, 4096, 32768)
    ]

    assert (copying(rows, "a", "h2d") is not None) is told

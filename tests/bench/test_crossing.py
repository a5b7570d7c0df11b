"""From which size on a device pays: what was seen, and what models predict."""

import math

import pytest
from cases import planned_case
from hypothesis import assume, given
from hypothesis import strategies as st

from gpumap.bench.breakeven import _amortised, copying
from gpumap.engine.estimates import located
from gpumap.engine.fit import Point, break_even, curve, predicted, ranges
from gpumap.model import (
    Binding,
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
    return [Point(10 ** (n + 1), Estimate(*ratio, "1")) for n, ratio in enumerate(ratios)]


@pytest.mark.parametrize(("ratios", "found"), [
    ([], ()), ([LOSES, LOSES], ()), ([WINS, WINS], ((10, None),)),
    ([LOSES, WINS], ((100, None),)), ([WINS, LOSES], ((10, 10),)),
    ([LOSES, WINS, WINS, LOSES, WINS], ((100, 1000), (100000, None))),
])  # fmt: skip
def test_a_device_wins_in_ranges(ratios, found):
    """From the smallest to the largest size at which it was seen to; open where it still does."""
    assert found == ranges(points(*ratios))


def crossing(low, high, side=None):
    """Return where the line between the logarithms of two ratios, or that of its end, is zero."""
    ends = [math.log(ratio[side or 0] / ratio[0]) for ratio in (low, high)]
    sign = -1 if side == 1 else 1

    def at(share):
        line = (1 - share) * math.log(low[0]) + share * math.log(high[0])
        return line + sign * math.hypot((1 - share) * ends[0], share * ends[1])

    share = next(n / 10**4 for n in range(10**4 + 1) if at(n / 10**4) >= 0.0)
    scales = 10 ** (1 + share), 10 + 90 * share, 1 / (0.1 - 0.09 * share)
    return scales[side or 0]


MIDDLE, LOW = crossing(LOSES, EVEN), crossing(LOSES, EVEN, side=2)
HIGH = crossing(EVEN, WINS, side=1)


@pytest.mark.parametrize(("ratios", "found"), [
    ([LOSES, WINS],
     (math.sqrt(1000), crossing(LOSES, WINS, side=2), crossing(LOSES, WINS, side=1))),
    ([LOSES, EVEN, WINS], (MIDDLE, LOW, 10 * HIGH)), ([EVEN, WINS], (10, 0, HIGH)),
    ([WINS, LOSES], (10, 0, 10)), ([LOSES, EVEN], (MIDDLE, LOW, math.inf)),
    ([LOSES, LOSES], (math.inf,) * 3),
])  # fmt: skip
def test_it_pays_where_the_line_between_the_ratios_crosses_one(ratios, found):
    """Its interval ends where the line's own does; without a clear winner it has no end."""
    figure = break_even(points(*ratios))
    assert found == pytest.approx((figure.value, figure.low, figure.high), rel=0.001)


@given(st.floats(0.0, 1e-5), st.floats(1e-6, 1e-3), st.floats(1.1, 100.0), st.floats(1.1, 64.0))
def test_the_truth_is_between_lines_that_bend(host, device, faster, step):
    """Without noise, of times that are a latency and a bandwidth, however far apart the sizes."""
    per_byte = 1e-9
    truth = (device - host) / (per_byte * (1 - 1 / faster))
    assume(truth > 2 * step)
    sizes = [round(truth / step), round(truth * step)]
    ratios = [(host + n * per_byte) / (device + n * per_byte / faster) for n in sizes]
    found = break_even(
        [Point(n, Estimate(r, r, r, "1")) for n, r in zip(sizes, ratios, strict=True)]
    )
    slack = 1 + 1e-6
    assert found.low / slack <= truth <= found.high * slack


def test_what_no_line_fits_is_read_between_the_sizes():
    """As a cache makes of it; beyond the ends by the last two; it needs four sizes with times."""
    found = curve([1, 2, 3, 4, 5], [1.0, 5.0, 1.0, 9.0, 10.0])
    assert found.model is None
    assert [found.seconds(n) for n in (1, 1.5, 4, 7)] == [1.0, 3.0, 9.0, 12.0]
    for times in ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 0.0], [1.0, 2.0, 3.0, math.nan]):
        assert curve(range(1, len(times) + 1), times) is None


def test_a_model_that_may_miss_gives_an_interval():
    """Where a device as much faster, or slower, would cross; lines that never do have no end."""
    found = predicted(lambda n: n, lambda n: 500 + n / 2, 1.0, 1e12, 0.1)
    low, high = (500 * side / (1 - side / 2) for side in (0.9, 1.1))
    assert (found.low, found.high) == pytest.approx((low, high), rel=0.03)
    assert found.low < found.value < found.high
    assert predicted(lambda n: n, lambda n: 2 * n, 1.0, 1e12, 0.0).value == math.inf
    assert predicted(lambda n: 2 * n, lambda n: n, 8.0, 1e12, 0.0).value == 8.0


def test_a_set_up_that_no_clear_win_repays_is_not_told():
    """A win by the median alone saves nothing that is known; where the host wins it never pays."""
    assert _amortised(None, points(LOSES, EVEN)) is None
    assert _amortised(None, points(LOSES, LOSES)).value == math.inf


@pytest.mark.parametrize(("n", "told"), [(5, False), (6, True)])
def test_under_six_samples_of_copies_predict_nothing(n, told):
    """A size with fewer is no part of the sweep, and without it there are too few sizes."""
    device = Device("cuda:0", Kind.CUDA, DeviceRef(Kind.CUDA, 0), "x", "fake")
    keys = {"memory": "pageable", "mode": "queued", "pattern": "ladder"}
    rows = []
    for nbytes in (64, 512, 4096, 32768):
        case = planned_case(
            "transfer", "h2d", {**keys, "bytes": nbytes}, (Binding("a", device),), Work()
        )
        times = (1e-6 * nbytes,) * n
        metrics = {"issue_interval": located(times, "s", 0.95)}
        rows.append(Measurement(case, "ok", samples=Samples(times, range(n)), metrics=metrics))
    assert (copying(rows, "a", "h2d") is not None) is told

"""From which size on a device pays."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpumap.bench.breakeven import _amortised
from gpumap.engine.fit import Point, break_even
from gpumap.model import Estimate

LOSES, WINS, EVEN = (0.5, 0.4, 0.6), (2.0, 1.9, 2.1), (1.1, 0.9, 1.3)


def points(*ratios):
    return [Point(10 ** (n + 1), Estimate(*ratio, "1")) for n, ratio in enumerate(ratios)]


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


def test_a_set_up_that_no_clear_win_repays_is_not_told():
    """A win by the median alone saves nothing that is known; where the host wins it never pays."""
    assert _amortised(None, points(LOSES, EVEN)) is None
    assert _amortised(None, points(LOSES, LOSES)).value == math.inf

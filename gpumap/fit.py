"""The cost of a copy as a model: a latency and a bandwidth, or two of each, or none.

T(n) = latency + n / bandwidth (Hockney, Parallel Computing 20(3), 1994); half of the bandwidth is
reached at latency x bandwidth bytes, 90 % at nine times that. Relative weights, because the large
sizes would decide alone otherwise and the latency would come out anyhow, also below nothing. Where
one line misses a size by more than 10 %, two are tried: drivers move small and large copies in
different ways.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from gpumap import stats
from gpumap.lazy_numpy import Array, np
from gpumap.model import Estimate, Line
from gpumap.stats import enough

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


GOOD = 0.10  # the largest relative residual of a line that fits
FITS = 0.15  # and of a model that is worth anything
_FEWEST = 3  # sizes of a regime: two would fit any line
_RESAMPLES = 1000
_NINETY = 0.9
_OF_MEDIAN = math.pi / 2  # its variance over that of a mean, of normal noise
_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class Model:
    """One or two lines, in the order of sizes, and how far they miss."""

    lines: tuple[Line, ...]
    residual: float  # the largest, as a share of the measured time

    @property
    def fits(self) -> bool:
        """Return whether the model says anything at all."""
        return self.residual <= FITS

    def seconds(self, nbytes: float) -> float:
        """Return what a copy of this size takes."""
        line = [line for line in self.lines if line.start <= nbytes][-1]
        return line.seconds(nbytes)

    def figures(self) -> dict[str, float]:
        """Return latency, peak bandwidth, and the sizes that reach a half and 90 % of it."""
        slope = self.lines[-1].per_byte
        peak = 1.0 / slope if slope > 0.0 else math.inf
        return {
            "latency": self.lines[0].latency,
            "peak_bandwidth": peak,
            "n_half": self._reaching(peak / 2),
            "size_90": self._reaching(peak * _NINETY),
        }

    def _reaching(self, bandwidth: float) -> float:
        """Return the smallest size that is moved at this bandwidth."""
        if math.isinf(bandwidth):
            return math.inf
        ends = [*(line.start for line in self.lines[1:]), math.inf]
        for line, end in zip(self.lines, ends, strict=True):
            gain = 1.0 - bandwidth * line.per_byte
            size = max(bandwidth * line.latency / gain, line.start) if gain > 0.0 else math.inf
            if size < end:
                return size
        return math.inf


def fitted(sizes: Sequence[int], times: Array) -> Model:
    """Fit a model to median times.

    Args:
        sizes: bytes, ascending.
        times: seconds, shape (sizes,).
    """
    whole = _model(sizes, times, None)
    if whole.residual <= GOOD or len(sizes) < 2 * _FEWEST:
        return whole
    splits = range(_FEWEST, len(sizes) - _FEWEST + 1)
    best = min((_model(sizes, times, at) for at in splits), key=lambda model: model.residual)
    return best if best.residual <= FITS and best.residual < whole.residual / 2 else whole


def straight(sizes: Sequence[int | float], times: Array) -> Model:
    """Fit one line, however far it misses; sizes in any order."""
    return _model(sizes, times, None)


def intervals(
    sizes: Sequence[int], samples: Array, model: Model, confidence: float, seed: int
) -> dict[str, Estimate]:
    """Return the model's figures with their intervals; of too few blocks without any.

    Lack of fit is included: each resample moves every size up or down by what the model misses it
    beyond noise (Wu's wild bootstrap, Annals of Statistics 1986). Where the line bends, its noise
    alone tells too little.

    Args:
        sizes: bytes, ascending.
        samples: seconds, shape (blocks, sizes).
        model: what was fitted to the medians of `samples`.
        confidence: of each interval.
        seed: of the resampling.
    """
    if not enough(len(samples), confidence):
        values = model.figures()
        return {n: Estimate.without_interval(values[n], unit) for n, unit in _UNITS.items()}
    at = None if len(model.lines) == 1 else list(sizes).index(int(model.lines[1].start))
    medians = np.median(samples, axis=0)
    missed = np.log([model.seconds(n) for n in sizes]) - np.log(medians)
    noise = (np.log(samples).std(axis=0) ** 2).mean() * _OF_MEDIAN / len(samples)
    missed *= math.sqrt(max(1.0 - noise / max((missed**2).mean(), _TINY), 0.0))
    rng = np.random.default_rng(seed)

    def figures(times: Array) -> list[float]:
        bent = times * np.exp(missed * rng.choice([-1.0, 1.0], len(missed)))
        return list(_model(sizes, bent, at).figures().values())

    values = model.figures()
    ends = resampled(samples, figures, list(values.values()), confidence, seed)
    return {
        name: Estimate(value, *end, _UNITS[name])
        for (name, value), end in zip(values.items(), ends, strict=True)
    }


_UNITS = {"latency": "s", "peak_bandwidth": "B/s", "n_half": "B", "size_90": "B"}


def resampled(
    samples: Array,
    figures: Callable[[Array], Sequence[float]],
    values: Sequence[float],
    confidence: float,
    seed: int,
) -> list[tuple[float, float]]:
    """Return intervals of figures that are computed from medians over blocks.

    Whole blocks are resampled: what is measured in one block correlates. The percentiles are
    widened like the interval of a median (`gpumap.stats`), by the autocorrelation of the columns
    and by Student's quantile.

    Args:
        samples: positive, shape (blocks, columns), in time order.
        figures: from the medians of the columns to figures, none below zero.
        values: the figures of the medians of `samples`.
        confidence: of each interval.
        seed: of the resampling.
    """
    n = len(samples)
    picked = np.random.default_rng(seed).integers(0, n, (_RESAMPLES, n))
    drawn = np.array([figures(times) for times in np.median(samples[picked], axis=1)])
    tail = (1.0 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1.0 - tail], axis=0, method="nearest")
    more = median(stats.inflation(list(map(float, column))) for column in samples.T)
    factor = stats.widening(n, n / more, confidence)
    return [
        _widened(value, float(low[i]), float(high[i]), factor) for i, value in enumerate(values)
    ]


def _widened(value: float, low: float, high: float, factor: float) -> tuple[float, float]:
    """Return an interval of a figure that is never below zero, stretched about its value."""
    if not 0.0 < low <= high < math.inf or not 0.0 < value < math.inf:
        return min(low, value), max(high, value)
    return (
        min(value * (low / value) ** factor, value),
        max(value * (high / value) ** factor, value),
    )


def _model(sizes: Sequence[int | float], times: Array, at: int | None) -> Model:
    """Fit one line, or two that part at the size with the number `at`."""
    parts = [slice(0, at), slice(at, None)] if at is not None else [slice(None)]
    lines = tuple(
        _line(sizes[part], times[part], 0.0 if number == 0 else float(sizes[part][0]))
        for number, part in enumerate(parts)
    )
    model = Model(lines, 0.0)
    misses = [abs(model.seconds(n) / t - 1.0) for n, t in zip(sizes, times, strict=True)]
    return Model(lines, float(max(misses)))


def _line(sizes: Sequence[int | float], times: Array, start: float) -> Line:
    """Return the line with the least squares of relative residuals, neither part below nothing."""
    u, v = 1.0 / times, np.asarray(sizes, float) / times
    uu, vv, uv, su, sv = (float(x) for x in (u @ u, v @ v, u @ v, u.sum(), v.sum()))
    determinant = uu * vv - uv * uv
    latency = (su * vv - sv * uv) / determinant if determinant > 0.0 else -1.0
    per_byte = (uu * sv - uv * su) / determinant if determinant > 0.0 else -1.0
    if latency < 0.0:
        return Line(0.0, sv / vv, start)
    if per_byte < 0.0:
        return Line(su / uu, 0.0, start)
    return Line(latency, per_byte, start)

"""A report as Bencher Metric Format (https://bencher.dev/docs/reference/bencher-metric-format).

    {benchmark: {measure: {"value", "lower_value", "upper_value"}}}

A benchmark is what was measured, a measure is a metric with its SI unit, ``time_seconds``: Bencher
has a measure `latency` of its own, in nanoseconds. An end that is infinite, or not known, is left
out, and so is a figure that is infinite or NaN.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from typing import TYPE_CHECKING

from gpumap.report.trackers import finite, points

if TYPE_CHECKING:
    from gpumap.model import Estimate
    from gpumap.report import Style
    from gpumap.report.parts import Shown


def render(shown: Shown, style: Style) -> str:  # noqa: ARG001 - every format takes a style
    """Return the figures as JSON."""
    found: defaultdict[str, dict[str, dict[str, float]]] = defaultdict(dict)
    for metric, of_metric in points(shown).items():
        for point in filter(finite, of_metric):
            found[point.name][metric.full] = _metric(point.figure)
    return json.dumps(found, indent=1, allow_nan=False) + "\n"


def _metric(figure: Estimate) -> dict[str, float]:
    ends = {"lower_value": figure.low, "upper_value": figure.high}
    return {"value": figure.value, **{key: ends[key] for key in ends if math.isfinite(ends[key])}}

"""A report as JSON for github-action-benchmark, which has one direction for all of a file.

`gab-bigger` is for its tool customBiggerIsBetter and has rates, bandwidths, speed-ups and shares;
`gab-smaller` is for customSmallerIsBetter and has times, sizes, losses. What is neither better nor
worse where it grows is in none of them, and so is what JSON cannot hold: infinity and NaN.

    [{"name", "unit", "value", "range"}]

`range` is the interval, ``[low, high]``, left out where there is none.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.report.trackers import Metric, Point, finite, points

if TYPE_CHECKING:
    from gpumap.report import Style
    from gpumap.report.parts import Shown

_SMALLER_UNITS = ("s", "B")
_SMALLER = ("loss",)
_NEITHER = ("ideal", "ideal_balanced", "undisturbed", "epochs")


def _text(shown: Shown, style: Style, *, smaller_is_better: bool) -> str:  # noqa: ARG001
    """Return the figures of which less is better, or more."""
    found = [
        _entry(metric, point)
        for metric, of_metric in points(shown).items()
        if _smaller_is_better(metric) is smaller_is_better
        for point in of_metric
        if finite(point)
    ]
    return json.dumps(found, indent=1, allow_nan=False) + "\n"


bigger = partial(_text, smaller_is_better=False)
smaller = partial(_text, smaller_is_better=True)


def _smaller_is_better(metric: Metric) -> bool | None:
    if metric.name in _NEITHER:
        return None
    return metric.unit in _SMALLER_UNITS or metric.name in _SMALLER


def _entry(metric: Metric, point: Point) -> dict[str, Any]:
    figure = point.figure
    entry = {"name": f"{point.name} {metric.name}", "unit": metric.unit, "value": figure.value}
    if figure.has_interval:
        entry["range"] = f"[{figure.low!r}, {figure.high!r}]"
    return entry

"""A figure as tables and headlines write it, with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units

if TYPE_CHECKING:
    from gpumap.model import Estimate


def estimate(figure: Estimate | None) -> str:
    """Return a figure with its interval, if it has one: ``35.2 ms [35.1, 35.3]``."""
    if figure is None:
        return "-"
    if figure.impossible:
        return "impossible"
    ends = (figure.low, figure.high) if figure.has_interval else ()
    value, *interval = units.same_prefix((figure.value, *ends), figure.unit)
    return f"{value} [{', '.join(interval)}]" if interval else value


def spread(figure: Estimate | None) -> str:
    """Return a figure with half of its interval, ``49.0 ms ±4%``; of few samples ``~49 ms``."""
    if figure is None or figure.impossible:
        return estimate(figure)
    if not figure.has_interval:
        return units.about(figure.value, figure.unit)
    half, value = (figure.high - figure.low) / 2.0, units.single(figure.value, figure.unit)
    return f"{value} ±{half / abs(figure.value):.0%}" if figure.value else value

"""Ceilings of metrics, and the share of them reached; a value above one is an error.

A ceiling that gpumap computed refuses a row; one that a table or a driver reports may
be wrong itself, so it flags the row. The ceiling of a ratio is a count of devices:

    speedup, speedup_over_one    the names, each of which has its part of the work; 2 both ways
    ideal, ideal_balanced        the pieces of hardware under them; with readbacks the names
    efficiency                   names over pieces: 1 where each name has its own

One name of several on a device need not fill it, so it is names that a speed-up is bounded by. A
ratio beyond its ceiling is refused where each device does whole products or copies; where the work
is split, caches can do it, and the row is flagged. Ratios of unlike work have no ceiling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import model, units
from gpumap.model import Estimate, Reason, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.engine.base import Parts
    from gpumap.model import Binding, Case, Limit, Measurement

# A clock may rise a little above the one that a ceiling was computed from.
SLACK = 1.05
CODE = "over-ceiling"
IMPOSSIBLE = "impossible"
SUPERLINEAR = "superlinear"


def with_ceiling(row: Measurement, limit: Limit | None) -> Measurement:
    """Return a row with its ceiling: flagged if it is above; or failed, and without figures.

    It fails where all of the interval, or a figure without one, is above what gpumap knows itself.
    """
    figure = row.metrics.get(limit.metric) if limit is not None else None
    if limit is None or figure is None or limit.value <= 0.0:
        return row
    share = figure.value / limit.value
    known = limit.source, limit.origin
    ceiling = model.Ceiling(limit.metric, limit.value, limit.unit, share, *known)
    most = limit.value * SLACK
    if figure.value <= most:
        # where the host's calls took the time, the device's share of its peak is not known
        return row if "launch-bound" in row.flags else replace(row, ceiling=ceiling)
    least = figure.low if figure.has_interval else figure.value
    above = replace(row, ceiling=ceiling, flags=(*row.flags, CODE))
    if limit.origin == "reported" or least <= most:
        return above
    value, top = units.same_prefix((figure.value, limit.value), limit.unit)
    text = f"{limit.metric} {value} is above what is possible, {top} ({limit.source})"
    return replace(above, status="failed", reason=Reason(CODE, text), metrics={})


def possible(row: Measurement, work: Parts) -> Measurement:
    """Return a row without the ratios that are above their ceilings; of split work, flagged.

    Of whole work no ratio has an end of its interval above its ceiling, and there is no efficiency
    of a speed-up or an ideal that is refused.
    """
    tops = {name: top * SLACK for name, top in _tops(row.case, work).items() if name in row.metrics}
    beyond = {name for name, top in tops.items() if row.metrics[name].value > top}
    if work == "split":
        return replace(row, flags=(*row.flags, SUPERLINEAR)) if beyond else row
    ratios = {name: _below(row.metrics[name], top) for name, top in tops.items()}
    if beyond & {"speedup", "ideal"} and "efficiency" in ratios:
        ratios["efficiency"] = Estimate.refused("1")
    if all(figure is row.metrics[name] for name, figure in ratios.items()):
        return row
    flags = (*row.flags, IMPOSSIBLE) if beyond else row.flags
    return replace(row, flags=flags, metrics={**row.metrics, **ratios})


def _below(figure: Estimate, top: float) -> Estimate:
    """Clip the interval of a ratio at its ceiling; refuse a ratio above it."""
    if figure.value > top:
        return Estimate.refused(figure.unit)
    if not figure.has_interval or figure.high <= top:
        return figure
    return Estimate(figure.value, figure.low, top, figure.unit)


def _tops(case: Case, work: Parts) -> dict[str, float]:
    """Return the ceiling of each ratio; none where the work of both sides is not the same."""
    count = len(case.bindings) if case.then is None else 2
    if work is None or (work == "split" and count == 1):
        return {}
    separate = len(hardware_groups(case.bindings))
    return {
        "speedup": count,
        "speedup_over_one": count,
        "ideal": count if case.work.bytes_to_host else separate,
        "ideal_balanced": separate,
        "efficiency": count / separate,
    }


def hardware_groups(bindings: Sequence[Binding]) -> list[list[Binding]]:
    """Return the bindings grouped by shared hardware, directly or through others."""
    groups: list[list[Binding]] = []
    for binding in bindings:
        touching = [
            g for g in groups if any(b.device.hardware & binding.device.hardware for b in g)
        ]
        merged = [b for group in touching for b in group] + [binding]
        groups = [group for group in groups if group not in touching] + [merged]
    return groups


def sharing_names(bindings: Sequence[Binding]) -> tuple[tuple[str, ...], ...]:
    """Return the names that share hardware, those of one together; nothing for any other."""
    groups = hardware_groups(bindings)
    return tuple(tuple(b.name for b in group) for group in groups if len(group) > 1)

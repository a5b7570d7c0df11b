"""Pairs of devices that are slower, or faster, than the other pairs of their sort.

A group is of pairs that go one route, in one mode, at one size, over links of one kind as far as
that is known (PCIe's generation and lanes at either end). A pair falls out of its group where its
whole interval is below 90 %, or above 1/90 %, of the group's median.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Final

from gpumap import units
from gpumap.escape import printable
from gpumap.model import Estimate, Explanation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumap.model import Binding, Measurement

CAUSE: Final = "odd-pair"
_FEWEST = 3  # of two pairs nobody can tell which one is odd
_BELOW = 0.9
_ABOVE = 1 / _BELOW


def odd_pairs(rows: Iterable[Measurement]) -> dict[str, Explanation]:
    """Return what falls out of its group, by the row's id, with both bandwidths."""
    groups: defaultdict[tuple[object, ...], list[Measurement]] = defaultdict(list)
    for row in rows:
        known = row.case.name == "d2d" and row.status == "ok" and "bandwidth" in row.metrics
        if known and row.metrics["bandwidth"].has_interval:
            groups[_sort(row)].append(row)
    return {
        row.case.id: _named(row, middle)
        for group in groups.values()
        if len(group) >= _FEWEST
        for middle in [median(row.metrics["bandwidth"].value for row in group)]
        for row in group
        if _outside(row.metrics["bandwidth"], middle)
    }


def _sort(row: Measurement) -> tuple[object, ...]:
    params = row.case.params
    links = sorted(map(_link, row.case.bindings))
    return row.route, params["bytes"], params["mode"], params["pattern"], *links


def _link(binding: Binding) -> tuple[str, ...]:
    device = binding.device
    facts = (device.facts.get(f"max_link_{key}") for key in ("generation", "width"))
    return device.backend, str(device.kind), *map(str, facts)


def _outside(figure: Estimate, middle: float) -> bool:
    return figure.high < _BELOW * middle or figure.low > _ABOVE * middle


def _named(row: Measurement, middle: float) -> Explanation:
    figure = row.metrics["bandwidth"]
    own, group = (units.together((value,), figure.unit)[0] for value in (figure.value, middle))
    text = f"{printable('->'.join(row.case.names))}: {own}, its group {group}"
    nodes = [binding.device.numa_node for binding in row.case.bindings]
    if None not in nodes and len(set(nodes)) > 1:
        text += f" (across NUMA nodes {' and '.join(map(str, nodes))})"
    figures = {"pair": figure, "group": Estimate(middle, middle, middle, figure.unit)}
    return Explanation(CAUSE, text, figures)
